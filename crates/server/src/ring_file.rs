//! The file with the end of a primary's stream, beside the pool: see [`replication::ring`].
//!
//! Its name is that of the pool with `.stream` after it. A new one is written under another name
//! and gets its own when the pool names its history, so that a crash at any moment leaves the one
//! that belongs to the pool. On a pool whose commits are durable at their fence, the lines of this
//! file are written back before that fence by the thread that commits. Elsewhere the file is an
//! ordinary shared mapping: it outlives the process, as does what the pool's journal was given, and
//! is not believed after another boot.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use pmem::{Domain, DomainRequest, MapOptions, Partition, Region};
use replication::Id;
use replication::ring::{self, LEAST_SIZE, Medium};

use crate::config::Values;
use crate::store::Report;

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RingError {
    #[error("{0}")]
    Map(#[from] pmem::MapError),
    #[error("{0}")]
    Grow(#[from] pmem::GrowError),
    #[error("{0}")]
    Io(#[from] io::Error),
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

    /// Returns the ring with this history, whose place began there.
    pub(crate) fn find(&self, id: Id, begun: u64) -> Option<FoundRing> {
        [&self.path, &self.next].into_iter().find_map(|path| {
            let bytes = read(path)?;
            let found =
                ring::find(&bytes).filter(|found| (found.id, found.begun) == (id, begun))?;
            Some(FoundRing { bytes, boot: found.boot })
        })
    }

    /// Makes a file of `size` bytes for a new ring.
    pub(crate) fn create(&self, size: u64) -> Result<Box<dyn Medium>, RingError> {
        remove(&self.next)?;
        let mut options = MapOptions::new(size);
        options.domain = match self.store.domain {
            Domain::Clwb => DomainRequest::Clwb,
            Domain::Eadr => DomainRequest::Eadr,
            _ => DomainRequest::Process,
        };
        options.emulate = self.store.emulated;
        let region = Region::open(&self.next, &options)?;
        region.grow(size)?;
        self.sync_folder()?;
        let part = region.into_partitions(1).pop();
        let part = part.filter(|part| part.len() >= size);
        let part = part.ok_or(io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Box::new(Mapped { part, writes_back: self.writes_back() }))
    }

    /// Gives the new file the name of the ring.
    pub(crate) fn keep(&self) -> io::Result<()> {
        fs::rename(&self.next, &self.path)?;
        self.sync_folder()
    }

    /// Removes all files, as far as that is possible: nobody needs them any more.
    pub(crate) fn remove(&self) {
        for path in [&self.path, &self.next] {
            if let Err(error) = remove(path) {
                tracing::debug!("{} is not removed: {error}", path.display());
            }
        }
    }

    fn sync_folder(&self) -> io::Result<()> {
        if !self.writes_back() {
            return Ok(());
        }
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let is_small = fs::metadata(path).is_ok_and(|metadata| metadata.len() <= ring::MOST_SIZE);
    fs::read(path).ok().filter(|_| is_small)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The mapped file.
struct Mapped {
    part: Partition,
    writes_back: bool,
}

impl Medium for Mapped {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.part.store(at, bytes);
    }

    fn write_back(&mut self, at: u64, len: usize) {
        if self.writes_back {
            self.part.flush(at, len);
        }
    }

    fn fence(&mut self) {
        if self.writes_back {
            self.part.fence();
        }
    }
}
