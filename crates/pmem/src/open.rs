//! Creates regions: from a file or device, from anonymous memory, or simulated.
//!
//! A file is locked before anything about it is examined, so that two processes never work on one
//! pool. The kernel is asked whether it is persistent memory, by mapping it with `MAP_SYNC`; no
//! file system's name is trusted.

use crate::calls::{self, Call};
#[cfg(feature = "sim")]
use crate::clock::Clock;
use crate::cpu;
use crate::domain::{Domain, Refusal, choose, every_region_is_eadr};
use crate::error::MapError;
use crate::journal::{Journal, JournalPlace, PoolFile};
#[cfg(feature = "sim")]
use crate::journal::{Storage, simulate_files};
use crate::lines::LINE;
use crate::locked::LockedFile;
use crate::mapping::{HUGE, Mapping, PAGE, accepts_sync, dax_device, file_flags};
use crate::media::{Mapped, Watch};
use crate::options::{DomainRequest, MapOptions};
use crate::preload::preload;
use crate::readable;
#[cfg(feature = "sim")]
use crate::recorder::Recorder;
use crate::region::{Parts, Region};
use rustix::fd::AsRawFd;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

impl Region {
    /// Maps a file or a DAX device and locks it against other processes.
    pub fn open(path: impl AsRef<Path>, options: &MapOptions) -> Result<Region, MapError> {
        let path = path.as_ref();
        check_machine(path, rustix::param::page_size() as u64, cpu::line_len())?;
        let file = LockedFile::exclusive(path, options.create)?;
        let (len, align, device) = extent(path, &file, options)?;
        let found = match options.domain {
            DomainRequest::Msync => "a DAX device, which has no msync",
            _ => "a DAX device, which needs no journal",
        };
        if device && matches!(options.domain, DomainRequest::Msync | DomainRequest::Journal) {
            return Err(MapError::WrongKind { path: path.to_owned(), found });
        }
        let reserve = if device { len } else { options.reserve.max(len) };
        let mapping = Mapping::reserve(reserve, align)
            .map_err(|source| MapError::Reserve { reserve, source })?;
        let (domain, emulated) = map(path, &file, &mapping, device, options)?;
        let watch = if device { Watch::none() } else { watch(&file, &mapping, domain, emulated) };
        let journal = match domain {
            Domain::Journal => Some(journal_of(path, &file, options)?),
            _ => None,
        };
        let file = Some(file);
        let parts = Parts { watch, mapping, len, domain, emulated, device, file };
        let region = Region::from_parts(parts);
        Ok(match journal {
            Some(journal) => region.with_journal(journal),
            None => region,
        })
    }

    /// Creates a region in anonymous memory, of length 0: it can grow to `reserve` bytes, and takes
    /// memory when touched.
    pub fn anonymous(reserve: usize) -> Result<Region, MapError> {
        let reserve = reserve as u64;
        let refused = |source| MapError::Reserve { reserve, source };
        let mapping = Mapping::reserve(reserve, HUGE).map_err(refused)?;
        mapping.put_anonymous().map_err(refused)?;
        Ok(Region::from_parts(Parts {
            watch: Watch::none(),
            mapping,
            len: 0,
            domain: Domain::Volatile,
            emulated: false,
            device: false,
            file: None,
        }))
    }
}

#[cfg(feature = "sim")]
impl Region {
    /// Creates a region of `len` zeros whose stores, flushes and fences are reported to `recorder`,
    /// with the rules of its domain.
    ///
    /// # Panics
    /// If there is no memory: this is for tests.
    pub fn simulated(len: usize, recorder: Arc<dyn Recorder>) -> Region {
        Region::simulated_in(Mapping::simulated(len), len as u64, recorder)
    }

    /// Like [`Region::simulated`], of length 0, which may grow to `reserve`.
    pub fn simulated_growing(reserve: usize, recorder: Arc<dyn Recorder>) -> Region {
        Region::simulated_in(Mapping::simulated(reserve), 0, recorder)
    }

    /// Like [`Region::simulated`], with the bytes of a crash image, which may grow to `reserve`.
    pub fn simulated_from(image: &[u8], reserve: usize, recorder: Arc<dyn Recorder>) -> Region {
        let mapping = Mapping::simulated(reserve.max(image.len()));
        // SAFETY: the mapping is new, writable, and at least as long as the image.
        unsafe { std::ptr::copy_nonoverlapping(image.as_ptr(), mapping.base(), image.len()) };
        Region::simulated_in(mapping, image.len() as u64, recorder)
    }

    /// Returns a working memory over simulated files of a pool and its journal, which may grow to
    /// `reserve`.
    ///
    /// # Panics
    /// If the pool's file cannot be read: this is for tests.
    pub fn simulated_journaled(
        reserve: usize,
        pool: Arc<dyn Storage>,
        journal: Arc<dyn Storage>,
        journal_size: u64,
    ) -> Region {
        simulate_files();
        let len = pool.size().expect("the length of the pool's file");
        let mapping = Mapping::simulated(reserve.max(len as usize));
        // SAFETY: the mapping is new, writable, full of zeros and at least as long as the file.
        let image = unsafe { std::slice::from_raw_parts_mut(mapping.base(), len as usize) };
        pool.read_at(image, 0).expect("the pool's file");
        let parts = Parts {
            watch: Watch::none(),
            mapping,
            len,
            domain: Domain::Journal,
            emulated: false,
            device: false,
            file: None,
        };
        let place = JournalPlace::Given(journal);
        Region::from_parts(parts).with_journal(Journal::new(place, journal_size, pool))
    }

    /// Makes the region's journal use another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Region {
        if let Some(journal) = &mut self.journal {
            journal.go_by(clock);
        }
        self
    }

    pub(crate) fn simulated_in(mapping: Mapping, len: u64, recorder: Arc<dyn Recorder>) -> Region {
        Region::from_parts(Parts {
            watch: Watch::none(),
            mapping,
            len,
            domain: recorder.domain(),
            emulated: true,
            device: false,
            file: None,
        })
        .with_recorder(recorder)
    }
}

/// Returns the journal of a file. The journal's own file is opened when it is needed.
fn journal_of(path: &Path, file: &File, options: &MapOptions) -> Result<Journal, MapError> {
    let place = match &options.journal {
        Some(journal) => JournalPlace::file(journal.clone(), options.emulate),
        None => JournalPlace::file(JournalPlace::of_pool(path), false),
    };
    if let JournalPlace::File { path: journal, .. } = &place
        && is_same(journal, file)
    {
        return Err(MapError::OwnJournal { path: journal.clone() });
    }
    let pool = file.try_clone().map_err(|source| MapError::Io {
        path: path.to_owned(),
        step: "open once more",
        source,
    })?;
    Ok(Journal::new(place, options.journal_size, Arc::new(PoolFile::new(pool))))
}

/// Returns true if a path leads to an open file.
fn is_same(path: &Path, file: &File) -> bool {
    let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let found = rustix::fs::stat(path).map(identity);
    found.is_ok() && found == rustix::fs::fstat(file).map(identity)
}

/// Refuses a machine whose kernel syncs, protects and replaces units other than pages of [`PAGE`]
/// bytes, as arm64 can be configured, or whose write-backs cover less than a line of a pool.
fn check_machine(path: &Path, page: u64, line: u64) -> Result<(), MapError> {
    let wrong = |unit, found, needed| {
        Err(MapError::WrongMachine { path: path.to_owned(), unit, found, needed })
    };
    match (page, line) {
        (PAGE, LINE..) => Ok(()),
        (PAGE, _) => wrong("cache lines", line, "64 or more"),
        _ => wrong("pages", page, "4096"),
    }
}

/// Watches a mapped file for media errors. A device is not watched: its pages cannot be replaced
/// one by one.
fn watch(file: &File, mapping: &Mapping, domain: Domain, emulated: bool) -> Watch {
    let synced = !emulated && matches!(domain, Domain::Clwb | Domain::Eadr);
    Watch::new(&Mapped {
        base: mapping.base(),
        len: mapping.len(),
        file: file.as_raw_fd(),
        device: if synced { readable::block_device(file) } else { -1 },
        flags: if domain == Domain::Journal { 0 } else { file_flags(synced).bits() as i32 },
    })
}

/// Returns length, alignment, and whether this is a device.
fn extent(path: &Path, file: &File, options: &MapOptions) -> Result<(u64, u64, bool), MapError> {
    let failed = |step, source| MapError::Io { path: path.to_owned(), step, source };
    let metadata = file.metadata().map_err(|source| failed("stat", source))?;
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok((metadata.len(), HUGE, false));
    }
    let wrong = |found| MapError::WrongKind { path: path.to_owned(), found };
    if !kind.is_char_device() {
        return Err(wrong("neither a regular file nor a character device"));
    }
    match dax_device(&options.sysfs, file).map_err(|source| failed("size of the device", source))? {
        Some(dax) => Ok((dax.size, dax.align, true)),
        None => Err(wrong("a character device that is not DAX")),
    }
}

/// Maps the file in the way its domain needs.
fn map(
    path: &Path,
    file: &File,
    mapping: &Mapping,
    device: bool,
    options: &MapOptions,
) -> Result<(Domain, bool), MapError> {
    let failed =
        |errno: Errno| MapError::Io { path: path.to_owned(), step: "map", source: errno.into() };
    use DomainRequest::{Journal, Msync, Process};
    let wants_sync = !matches!(options.domain, Msync | Process | Journal);
    // A DAX device need not be tested, and has alignments that a test mapping would have to know.
    let refused = match (wants_sync && !device).then(|| accepts_sync(file)) {
        None | Some(Ok(())) => None,
        // Not persistent memory; or a kernel or file system older than MAP_SYNC.
        Some(Err(errno @ (Errno::OPNOTSUPP | Errno::INVAL))) => Some(errno),
        Some(Err(errno)) => return Err(failed(errno)),
    };
    let synced = wants_sync && refused.is_none();
    let eadr = synced && every_region_is_eadr(&options.sysfs);
    let chosen = choose(options.domain, options.emulate, synced, eadr);
    let chosen = chosen.map_err(|refusal| match refusal {
        Refusal::NoEadr => MapError::NoEadr { path: path.to_owned() },
        Refusal::NoMapSync => MapError::NoMapSync {
            path: path.to_owned(),
            requested: options.domain.name(),
            reason: refused.map_or_else(String::new, |errno| io::Error::from(errno).to_string()),
        },
    })?;
    let put = || match chosen.0 {
        Domain::Journal => mapping.put_private(file),
        _ => mapping.put_file(file, synced),
    };
    calls::make(Call::Map, put).map_err(failed)?;
    if options.preload && chosen.0 == Domain::Journal {
        let failed = |source| MapError::Io { path: path.to_owned(), step: "preload", source };
        let len = file.metadata().map_err(failed)?.len();
        // SAFETY: the region is created from the mapping after this.
        unsafe { preload(file, mapping, len) }.map_err(failed)?;
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_of_other_pages_or_shorter_lines_is_refused() {
        let check = |page, line, expect: Option<&str>| {
            let error = check_machine(Path::new("pool"), page, line).err();
            let text = error.map(|error| error.to_string());
            assert_eq!(text.as_deref(), expect, "pages of {page}, lines of {line}");
        };
        check(4096, 64, None);
        check(4096, 128, None);
        let shorter = "pool: cache lines of this machine have 32 bytes, and a pool needs 64 or more; choose the \
                       AOF backend";
        check(4096, 32, Some(shorter));
        let longer = "pool: pages of this machine have 65536 bytes, and a pool needs 4096; choose the AOF \
                      backend";
        check(65_536, 64, Some(longer));
    }
}
