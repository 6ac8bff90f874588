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
    /// Returns a pool file (or a DAX device), made if it does not exist, up to 4 GiB. On persistent
    /// memory it is changed in place; any other file gets a journal next to it. Both survive power
    /// losses.
    ///
    /// Files that are made can be read and written by their owner alone (mode 0600), whatever the
    /// umask. An empty file that is there already becomes a new pool, or a new journal, and keeps
    /// its owner, group and mode: so an administrator says who else may read it.
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

    /// Keeps the store in DRAM: it ends with the process.
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

    /// Returns how many bytes the pool may grow to. It starts small.
    pub fn limit(self, bytes: u64) -> Options {
        Options { limit: bytes, ..self }
    }

    /// Returns the persistence domain; without this, that of persistent memory, and where there is
    /// none, the journal.
    pub fn domain(self, domain: DomainRequest) -> Options {
        Options { domain, ..self }
    }

    /// Returns when a call returns, where the pool has a journal; when what it wrote is durable by
    /// default.
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

    /// Returns where the journal is, if the pool has one; next to the pool by default, with
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

    /// Returns the size of a journal; 256 MiB by default. The file is written once when it is made.
    /// What changes again while it is in the journal reaches the pool's file once, so a larger one
    /// saves writes; it bounds the time that an opening takes after a crash. An open store keeps
    /// what it has: a new size counts when the store is opened after it was closed.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use perdura::{DomainRequest, Options, Perdura};
    ///
    /// let options = Options::new(dir.path().join("pool"))
    ///     .domain(DomainRequest::Journal)
    ///     .journal_size(1 << 20);
    /// let store = Perdura::open(options)?;
    /// let made = std::fs::metadata(dir.path().join("pool.journal"))?.len();
    /// assert_eq!(made, (1 << 20) + 8192);
    /// # Ok(())
    /// # }
    /// ```
    pub fn journal_size(self, bytes: u64) -> Options {
        Options { journal_size: bytes, ..self }
    }

    /// Runs the instructions of persistent memory on any file: for tests, since a power loss is not
    /// survived.
    pub fn emulate_pmem(self, yes: bool) -> Options {
        Options { emulate: yes, ..self }
    }

    /// Returns whether a pool is made where there is none; yes by default.
    pub fn create(self, yes: bool) -> Options {
        Options { create: yes, ..self }
    }

    /// Bytes of DRAM for copies of values that are read often; 0, as by default, for none. Of use
    /// where the medium is slower than DRAM.
    pub fn read_cache(self, bytes: u64) -> Options {
        Options { read_cache: bytes, ..self }
    }

    /// Bytes that all snapshots together may hold, in DRAM for what changed and in the pool for
    /// what was deleted, before the oldest is ended ([`crate::Error::SnapshotExpired`]); a half of
    /// the limit by default.
    pub fn snapshot_limit(self, bytes: u64) -> Options {
        Options { snapshot_limit: Some(bytes), ..self }
    }

    /// Returns whether a thread deletes expired keys and frees what deletes left; yes by default.
    /// Without it, call [`crate::Perdura::maintain`] periodically.
    pub fn background(self, yes: bool) -> Options {
        Options { background: yes, ..self }
    }

    /// Returns where the store reads the time, in unix milliseconds; the system's clock by default.
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

    /// Maps the file: with a journal if nothing was chosen and it is not on persistent memory.
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
