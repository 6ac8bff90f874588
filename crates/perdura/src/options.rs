//! How to open a store.

use std::path::{Path, PathBuf};

use heap::{CreateOptions, Heap};
use pmem::{DomainRequest, MapError, MapOptions, Region};

use crate::{Durability, OpenError, machine, trace};

/// How to open a store.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use perdura::{DomainRequest, Options, Perdura};
///
/// let options = Options::new(dir.path().join("pool"))
///     .domain(DomainRequest::Process)
///     .limit(64 << 20)
///     .background(false);
/// let store = Perdura::open(options.clone())?;
/// assert!(store.usage().limit <= 64 << 20);
/// drop(store);
///
/// // It is there now: nothing is made.
/// Perdura::open(options.create(false))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) path: Option<PathBuf>,
    pub(crate) limit: u64,
    pub(crate) domain: DomainRequest,
    pub(crate) durability: Durability,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) journal_size: u64,
    pub(crate) emulate: bool,
    pub(crate) create: bool,
    pub(crate) read_cache: u64,
    pub(crate) snapshot_limit: Option<u64>,
    pub(crate) background: bool,
    pub(crate) clock: fn() -> u64,
}

impl Options {
    /// Returns options for a pool file (or a DAX device), created if it does not exist, of up to 4
    /// GiB. On persistent memory it is changed in place; any other file gets a journal next to it.
    /// Both survive power losses.
    ///
    /// New files can be read and written by their owner alone (mode 0600), whatever the umask. An
    /// existing empty file becomes a new pool, or a new journal, and keeps its owner, group and
    /// mode, so that an administrator can decide who else may read it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use perdura::{Options, Perdura};
    /// use std::fs::{self, Permissions};
    /// use std::os::unix::fs::PermissionsExt;
    ///
    /// let mode = |name| fs::metadata(dir.path().join(name)).map(|file| file.permissions().mode());
    /// Perdura::open(Options::new(dir.path().join("mine.pool")))?;
    /// assert_eq!(mode("mine.pool")? & 0o777, 0o600);
    ///
    /// // As `install -m 640 -g backup /dev/null ours.pool` does.
    /// let ours = dir.path().join("ours.pool");
    /// fs::write(&ours, "")?;
    /// fs::set_permissions(&ours, Permissions::from_mode(0o640))?;
    /// Perdura::open(Options::new(&ours))?;
    /// assert_eq!(mode("ours.pool")? & 0o777, 0o640);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(path: impl Into<PathBuf>) -> Options {
        Options { path: Some(path.into()), ..Options::volatile() }
    }

    /// Returns options for a store in DRAM, which ends with the process.
    pub fn volatile() -> Options {
        Options {
            path: None,
            limit: 4 << 30,
            domain: DomainRequest::Auto,
            durability: Durability::Immediate,
            journal: None,
            journal_size: pmem::DEFAULT_CAPACITY,
            emulate: false,
            create: true,
            read_cache: 0,
            snapshot_limit: None,
            background: true,
            clock: machine::now,
        }
    }

    /// Sets how many bytes the pool may grow to. It starts small.
    pub fn limit(self, bytes: u64) -> Options {
        Options { limit: bytes, ..self }
    }

    /// Sets the persistence domain; by default that of persistent memory, or else the journal.
    pub fn domain(self, domain: DomainRequest) -> Options {
        Options { domain, ..self }
    }

    /// Sets when a call returns, if the pool has a journal; by default when its writes are durable.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use perdura::prelude::*;
    /// use perdura::{Durability, Options, Perdura};
    ///
    /// let options = Options::new(dir.path().join("pool"));
    /// let store = Perdura::open(options.clone())?;
    /// store.set("order", "paid")?; // on the disk
    /// store.close()?;
    ///
    /// // It may be chosen each time that the store is opened.
    /// let store = Perdura::open(options.durability(Durability::Os))?;
    /// assert_eq!(store.get("order")?.as_deref(), Some(&b"paid"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn durability(self, durability: Durability) -> Options {
        Options { durability, ..self }
    }

    /// Sets the path of the journal, if the pool has one; by default it is next to the pool, with
    /// `.journal` after its name. A faster disk makes every write faster.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (data, fast) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// use perdura::prelude::*;
    /// use perdura::{DomainRequest, Options, Perdura};
    ///
    /// let options = Options::new(data.path().join("pool"))
    ///     .domain(DomainRequest::Journal)
    ///     .journal(fast.path().join("pool.journal"))
    ///     .journal_size(16 << 20);
    /// Perdura::open(options)?.set("order", "paid")?;
    /// assert!(fast.path().join("pool.journal").exists());
    /// # Ok(())
    /// # }
    /// ```
    pub fn journal(self, path: impl Into<PathBuf>) -> Options {
        Options { journal: Some(path.into()), ..self }
    }

    /// Sets the size up to which a journal grows; 256 MiB by default. A new one takes 512 KiB, and
    /// grows as it is written. Data that changes again while it is in the journal reaches the
    /// pool's file once, so a larger journal saves writes; its size bounds the time of recovery
    /// after a crash. A smaller size takes effect when the store is opened after it was closed.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use perdura::prelude::*;
    /// use perdura::{DomainRequest, Options, Perdura};
    ///
    /// let options = Options::new(dir.path().join("pool"))
    ///     .domain(DomainRequest::Journal)
    ///     .journal_size(1 << 20);
    /// let store = Perdura::open(options)?;
    /// let len = || std::fs::metadata(dir.path().join("pool.journal")).map(|file| file.len());
    /// assert_eq!(len()?, (512 << 10) + 8192);
    /// store.set("text", vec![1; 2 << 20])?;
    /// assert_eq!(len()?, (1 << 20) + 8192);
    /// # Ok(())
    /// # }
    /// ```
    pub fn journal_size(self, bytes: u64) -> Options {
        Options { journal_size: bytes, ..self }
    }

    /// Runs the instructions of persistent memory on any file: for tests, since this does not
    /// survive a power loss.
    pub fn emulate_pmem(self, yes: bool) -> Options {
        Options { emulate: yes, ..self }
    }

    /// Sets whether a missing pool is created; yes by default.
    pub fn create(self, yes: bool) -> Options {
        Options { create: yes, ..self }
    }

    /// Sets how many bytes of DRAM are used for copies of values that are read often; 0, the
    /// default, for none. Useful if the medium is slower than DRAM.
    pub fn read_cache(self, bytes: u64) -> Options {
        Options { read_cache: bytes, ..self }
    }

    /// Sets how many bytes all snapshots together may hold, in DRAM for changed data and in the
    /// pool for deleted data, before the oldest is ended ([`crate::Error::SnapshotExpired`]); half
    /// of the limit by default.
    pub fn snapshot_limit(self, bytes: u64) -> Options {
        Options { snapshot_limit: Some(bytes), ..self }
    }

    /// Sets whether a thread deletes expired keys and frees the garbage of deletes; yes by default.
    /// Without it, call [`crate::Perdura::maintain`] periodically.
    pub fn background(self, yes: bool) -> Options {
        Options { background: yes, ..self }
    }

    /// Sets the store's source of time, in unix milliseconds; the system's clock by default.
    pub fn clock(self, clock: fn() -> u64) -> Options {
        Options { clock, ..self }
    }

    pub(crate) fn heap(&self) -> Result<Heap, OpenError> {
        let Some(path) = &self.path else {
            return Ok(Heap::volatile(self.limit, &CreateOptions::fitting(self.limit)?)?);
        };
        let region = pmem::when_unlocked(|| self.region(path), |_| ())?;
        let (heap, recovery) = match self.create {
            true => Heap::open_or_create(region)?,
            false => Heap::open(region, pmem::boot_id()).map(|(heap, how)| (heap, Some(how)))?,
        };
        trace::opened(&heap, recovery.as_ref());
        Ok(heap)
    }

    /// Maps the file: with a journal if no domain was chosen and it is not on persistent memory.
    fn region(&self, path: &Path) -> Result<Region, MapError> {
        let options = MapOptions {
            create: self.create,
            domain: self.domain,
            emulate: self.emulate,
            journal: self.journal.clone(),
            journal_size: self.journal_size,
            ..MapOptions::new(self.limit)
        };
        match Region::open(path, &options) {
            Err(MapError::NoMapSync { .. }) if self.domain == DomainRequest::Auto => {
                Region::open(path, &MapOptions { domain: DomainRequest::Journal, ..options })
            }
            other => other,
        }
    }
}
