//! The file with the end of a primary's stream, beside the pool: see [`replication::ring`].
//!
//! Its name is that of the pool with `.stream` after it. A new one is written under another name
//! and gets its own when the pool names its history, so that a crash at any moment leaves the one
//! that belongs to the pool. On a pool whose commits are durable at their fence, the lines of this
//! file are written back before that fence by the thread that commits. Elsewhere the file is an
//! ordinary shared mapping: it outlives the process, as does what the pool's journal was given, and
//! is not believed after another boot.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pmem::{Domain, DomainRequest, MapOptions, Partition, Region};
use replication::Id;
use replication::ring::{self, LEAST_SIZE, Medium};

use crate::config::Values;
use crate::pool::store::Report;
use crate::process::disks;

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RingError {
    #[error("{0}")]
    Map(#[from] pmem::MapError),
    #[error("{0}")]
    Grow(#[from] pmem::GrowError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{size} bytes are more than a quarter of the {free} that are free on the disk")]
    Space { size: u64, free: u64 },
}

/// The files of a pool's ring.
pub(crate) struct RingFile<'s> {
    store: &'s Report,
    path: PathBuf,
    next: PathBuf,
}

/// A ring that was found.
pub(crate) struct FoundRing {
    pub(crate) bytes: Vec<u8>,
    /// The boot of the machine in which it was begun.
    pub(crate) boot: [u8; 16],
    /// Whether it has not got its name yet.
    pub(crate) is_next: bool,
}

impl<'s> RingFile<'s> {
    /// Returns the files of the ring of a pool; none if the data is in no file.
    pub(crate) fn of(store: &'s Report) -> Option<RingFile<'s>> {
        let pool = store.pool.as_deref()?;
        let is_file = fs::metadata(pool).is_ok_and(|metadata| metadata.is_file());
        let named = |end: &str| {
            let mut name = pool.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        let (path, next) = (named(".stream"), named(".stream.next"));
        is_file.then_some(RingFile { store, path, next })
    }

    /// Returns the bytes that the file is to have; none if it is switched off.
    pub(crate) fn size(values: &Values) -> Option<u64> {
        let size = values.repl_durable_size;
        (size > 0).then(|| ring::size_of(size.max(LEAST_SIZE)))
    }

    /// Returns true if a commit of the pool survives a power loss once its fence is done.
    pub(crate) fn survives_power(&self) -> bool {
        let is_durable = matches!(self.store.domain, Domain::Clwb | Domain::Eadr | Domain::Msync);
        is_durable && !self.store.emulated
    }

    /// Returns true if the ring survives what the pool's commits survive.
    pub(crate) fn has_all(&self) -> bool {
        self.survives_power() && self.writes_back()
    }

    fn writes_back(&self) -> bool {
        matches!(self.store.domain, Domain::Clwb | Domain::Eadr)
    }

    /// Returns the rings with this history, whose place began there: two if a new one began where
    /// the stream had not gone on since the old one began.
    pub(crate) fn find(&self, id: Id, begun: u64) -> Vec<FoundRing> {
        let found = |(path, is_next): (&PathBuf, bool)| {
            let bytes = read(path)?;
            let found =
                ring::find(&bytes).filter(|found| (found.id, found.begun) == (id, begun))?;
            Some(FoundRing { bytes, boot: found.boot, is_next })
        };
        [(&self.path, false), (&self.next, true)].into_iter().filter_map(found).collect()
    }

    /// Makes a file of `size` bytes for a new ring.
    pub(crate) fn create(&self, size: u64) -> Result<Box<dyn Medium>, RingError> {
        remove(&self.next)?;
        // The pool and its journal need the space more.
        if let Some(free) = disks::free(folder_of(&self.path)).filter(|free| free / 4 < size) {
            return Err(RingError::Space { size, free });
        }
        let mut options = MapOptions::new(size);
        options.domain = match self.store.domain {
            Domain::Clwb => DomainRequest::Clwb,
            Domain::Eadr => DomainRequest::Eadr,
            _ => DomainRequest::Process,
        };
        options.emulate = self.store.emulated;
        let mapped = Mapped::make(&self.next, size, &options, self.writes_back())?;
        self.sync_folder()?;
        Ok(Box::new(mapped))
    }

    /// Removes what [`RingFile::create`] made, since it does not become the ring.
    pub(crate) fn give_up(&self) {
        if let Err(error) = remove(&self.next) {
            tracing::debug!("{} is not removed: {error}", self.next.display());
        }
    }

    /// Gives the new file the name of the ring.
    pub(crate) fn keep(&self) -> io::Result<()> {
        fs::rename(&self.next, &self.path)?;
        self.sync_folder()
    }

    /// Removes all files, as far as that is possible: nobody needs them any more. A file of another
    /// kind, with the same name, stays.
    pub(crate) fn remove(&self) {
        for path in [&self.path, &self.next].into_iter().filter(|path| has_ring(path)) {
            if let Err(error) = remove(path) {
                tracing::debug!("{} is not removed: {error}", path.display());
            }
        }
    }

    fn sync_folder(&self) -> io::Result<()> {
        if !self.writes_back() {
            return Ok(());
        }
        File::open(folder_of(&self.path))?.sync_all()
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let is_small = |file: &fs::Metadata| file.is_file() && file.len() <= ring::MOST_SIZE;
    fs::metadata(path).ok().filter(is_small)?;
    fs::read(path).ok()
}

/// Returns true if a file is a ring.
fn has_ring(path: &Path) -> bool {
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let mut magic = [0; ring::MAGIC.len()];
    is_file
        && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == *ring::MAGIC
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Bytes that are stored before it is looked whether the file takes them: of a file that takes
/// nothing only so many pages can be replaced.
const PART: usize = 64 << 10;

/// The mapped file.
struct Mapped {
    part: Partition,
    writes_back: bool,
    has_failed: bool,
}

impl Mapped {
    fn make(
        path: &Path,
        size: u64,
        options: &MapOptions,
        writes_back: bool,
    ) -> Result<Mapped, RingError> {
        let region = Region::open(path, options)?;
        region.grow(size)?;
        let part = region.into_partitions(1).pop().filter(|part| part.len() >= size);
        let part = part.ok_or(io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Mapped { part, writes_back, has_failed: false })
    }

    /// Looks whether all that was stored is in the file, and says so if not.
    fn look(&mut self) {
        let part = &self.part;
        if !self.has_failed && (part.failed() || part.faults() > 0 || part.media_errors() > 0) {
            self.has_failed = true;
            tracing::warn!("The file with the end of the stream does not take what is written");
        }
    }
}

impl Medium for Mapped {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        for (number, part) in bytes.chunks(PART).enumerate() {
            if self.has_failed {
                return;
            }
            self.part.store(at + (number * PART) as u64, part);
            self.look();
        }
    }

    fn has_failed(&self) -> bool {
        self.has_failed
    }

    fn write_back(&mut self, at: u64, len: usize) {
        if self.writes_back {
            self.part.flush(at, len);
        }
    }

    fn fence(&mut self) {
        if self.writes_back {
            self.part.fence();
            self.look();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_cut_short_is_said_to_take_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ring");
        let size = 16 << 20;
        let mut options = MapOptions::new(size);
        options.domain = DomainRequest::Process;
        let mut mapped = Mapped::make(&path, size, &options, false).expect("a file");
        mapped.write(1000, &[1; 100_000]);
        assert!(!mapped.has_failed());
        assert_eq!(fs::read(&path).expect("a file")[1000..101_000], [1; 100_000]);
        File::create(&path).expect("a file");
        mapped.write(0, &vec![2; 4 << 20]);
        assert!(mapped.has_failed());
        mapped.write(8 << 20, &[2; 100]);
    }

    #[test]
    fn only_a_ring_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool.stream");
        for (bytes, is_ring) in [(&b"PERDRING and more"[..], true), (b"my stream", false)] {
            fs::write(&path, bytes).expect("a file");
            assert_eq!(has_ring(&path), is_ring);
        }
        assert!(!has_ring(folder.path()) && read(folder.path()).is_none());
    }
}
