//! Copies of an open store, of one moment, and verification of the whole store.
//!
//! A copy is made key by key from a snapshot, as `perdura backup` makes one, in a new pool under
//! another name: its index is as dense as that of a store that was filled at once, and nothing of
//! the store's own damage or free space is in it. It is closed, read again as a whole, and only
//! then given its name ([`pmem::NewFile`]).

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use heap::{CreateOptions, Heap};
use keyspace::{Checked, Db, Item, Keyspace, RestoreError};
use pmem::{DomainRequest, MapOptions, NewFile, NewFileError, Region};

use crate::{Error, OpenError, Perdura, reentry};

/// The first bytes of a pool, and of a file that was about to become one.
const BEGINS: [&[u8]; 2] = [b"PERDURA\0", &[0; 8]];
/// How much longer the copy may be than the store: the store starts small.
const GROWTH: u64 = 2;

/// The figures of a finished copy.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use perdura::prelude::*;
/// use perdura::{Backup, Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// store.set("name", "Ada")?;
/// let Backup { keys, bytes, .. } = store.backup(dir.path().join("copy.pool"))?;
/// assert_eq!((keys, bytes), (1, std::fs::metadata(dir.path().join("copy.pool"))?.len()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Keys of all databases.
    pub keys: u64,
    /// Function libraries, which a server stored.
    pub libraries: u64,
    /// Hashes whose fields had all expired: they are left out.
    pub expired: u64,
    /// Bytes of the copy's file.
    pub bytes: u64,
}

/// Why there is no copy. Nothing of a failed copy is left.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use perdura::{BackupError, Options, Perdura};
///
/// let path = dir.path().join("copy.pool");
/// let store = Perdura::open(Options::volatile())?;
/// store.backup(&path)?;
/// assert!(matches!(store.backup(&path), Err(BackupError::Exists(_))));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// A file of the copy's name exists.
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    /// The store could not be read: its medium lost bytes meanwhile, or so much was written that
    /// the snapshot expired.
    #[error(transparent)]
    Store(#[from] Error),
    /// The new pool could not be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file system has no space for the copy, or the copy is longer than twice the store's
    /// limit.
    #[error("there is no space for the copy")]
    NoSpace,
    /// The system refused an operation.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The store's medium has lost data that is not repaired: a copy would lack it. Delete the
    /// damaged keys or set them again, or see `perdura check --repair`.
    #[error("the store has damaged keys: repair it before it is copied")]
    Damaged,
    /// The copy does not equal the store.
    #[error("the copy is not sound: {0}")]
    Unsound(String),
}

impl From<NewFileError> for BackupError {
    fn from(error: NewFileError) -> BackupError {
        match error {
            NewFileError::Exists(path) => BackupError::Exists(path),
            NewFileError::System { error, .. } => BackupError::Io(error),
            other => BackupError::Io(io::Error::other(other)),
        }
    }
}

impl From<RestoreError> for BackupError {
    fn from(error: RestoreError) -> BackupError {
        match error {
            RestoreError::Write(keyspace::Error::Full)
            | RestoreError::Commit(keyspace::CommitError::Full) => BackupError::NoSpace,
            other => BackupError::Unsound(other.to_string()),
        }
    }
}

impl From<keyspace::SnapshotLost> for BackupError {
    fn from(error: keyspace::SnapshotLost) -> BackupError {
        BackupError::Store(error.into())
    }
}

/// What is wrong with a store: from [`Perdura::check`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::{Options, Perdura, Unsound};
///
/// let store = Perdura::open(Options::volatile())?;
/// if let Err(Unsound { problems }) = store.check()? {
///     problems.iter().for_each(|problem| eprintln!("{problem}"));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} problems, the first of them: {}", problems.len(), problems.first().map_or("", |p| p))]
pub struct Unsound {
    /// Each problem, in words.
    pub problems: Vec<String>,
}

/// Verifies all of a keyspace, shard by shard, each under its lock.
fn check(keyspace: &Keyspace) -> Result<Checked, Unsound> {
    let heap = keyspace.heap();
    let mut problems: Vec<String> = heap.check_spans().iter().map(ToString::to_string).collect();
    let mut checked = Checked::default();
    for shard in 0..keyspace.shards() {
        let problem = &mut |problem: keyspace::CheckError| problems.push(problem.to_string());
        checked.add(keyspace.inspect(shard, &|_| {}, problem));
    }
    if problems.is_empty() { Ok(checked) } else { Err(Unsound { problems }) }
}

/// Opens a pool to read it.
fn open(pool: &Path) -> Result<Heap, OpenError> {
    Ok(Heap::open(Region::inspect(pool)?, pmem::boot_id())?.0)
}

/// Returns how many keys there are in all databases.
fn count(keyspace: &Keyspace) -> u64 {
    Db::all().map(|db| keyspace.count(db).0).sum()
}

/// Counts the keys of which nothing was written, from the parts in which a snapshot returns them:
/// those of one key are consecutive.
#[derive(Default)]
struct Gone {
    last: Option<(Db, Vec<u8>)>,
    is_gone: bool,
    keys: u64,
}

impl Gone {
    fn add(&mut self, item: Item, is_there: bool) {
        let of = Some((item.db, item.key));
        if self.last != of {
            self.keys += u64::from(self.is_gone);
            (self.last, self.is_gone) = (of, true);
        }
        self.is_gone &= !is_there;
    }

    fn finish(self) -> u64 {
        self.keys + u64::from(self.is_gone)
    }
}

impl Perdura {
    /// Copies the store, as it is at this moment, into a new pool, while others write: all
    /// databases, expiry times and function libraries. The copy is verified as a whole, synced, and
    /// gets its name only then; a copy that fails, or is killed, leaves nothing under that name.
    /// [`Perdura::open`] opens it, `perdura check` verifies it, and `perdura-server` serves it. A
    /// store in DRAM is copied in the same way.
    ///
    /// It holds what a [`crate::Snapshot`] holds, until the last key was read; for each part of the
    /// store no longer than until that part was read.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    ///
    /// let store = Perdura::open(Options::new(dir.path().join("orders.pool")))?;
    /// store.set("order:1", "paid")?;
    /// store.backup(dir.path().join("monday.pool"))?;
    /// store.delete("order:1")?;
    ///
    /// let monday = Perdura::open(Options::new(dir.path().join("monday.pool")))?;
    /// assert_eq!(monday.get("order:1")?.as_deref(), Some(&b"paid"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BackupError::Exists`] if a file has the name; [`BackupError::Damaged`] if the store's
    /// medium has lost data that was not repaired; [`BackupError::Store`] inside a transaction.
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<Backup, BackupError> {
        reentry::refuse(&self.keyspace)?;
        let file = NewFile::new(path.as_ref(), &BEGINS)?;
        let backup = self.copy_to(file.part())?;
        file.publish()?;
        Ok(backup)
    }

    /// As [`Perdura::backup`], but writes the pool to `to`: written to a file it is the same. The
    /// copy is first made completely, and verified, in the system's folder for temporary files,
    /// since a pool is not written from start to end.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// store.set("order:1", "paid")?;
    /// let mut bytes = Vec::new(); // or a socket, or a compressor
    /// store.backup_to(&mut bytes)?;
    ///
    /// std::fs::write(dir.path().join("copy.pool"), &bytes)?;
    /// let copy = Perdura::open(Options::new(dir.path().join("copy.pool")))?;
    /// assert!(copy.exists("order:1")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Perdura::backup`]; [`BackupError::Io`] also if `to` fails, which may have received a
    /// part by then.
    pub fn backup_to(&self, mut to: impl Write) -> Result<Backup, BackupError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        reentry::refuse(&self.keyspace)?;
        let name = format!("perdura-backup-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let file = NewFile::new(&std::env::temp_dir().join(name), &BEGINS)?;
        let backup = self.copy_to(file.part())?;
        io::copy(&mut File::open(file.part())?, &mut to)?;
        to.flush()?;
        Ok(backup)
    }

    /// Verifies all of the store: every checksum, every count, and that what is reachable is what
    /// is allocated. Each shard is locked while it is verified, which takes long for a large one:
    /// writers of its keys wait. Returns the counts, or the problems in words.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// store.set("name", "Ada")?;
    /// assert_eq!(store.check()??.keys, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Reentrant`] inside a transaction.
    pub fn check(&self) -> Result<Result<Checked, Unsound>, Error> {
        reentry::refuse(&self.keyspace)?;
        Ok(check(&self.keyspace))
    }

    /// Makes a pool of a snapshot, closes it, and verifies it.
    fn copy_to(&self, part: &Path) -> Result<Backup, BackupError> {
        let mut backup = Backup::default();
        self.attempt(|losses| {
            let copied = self.fill(part, &mut backup);
            self.keyspace.check_losses(losses)?;
            Ok(copied)
        })??;
        let again = Keyspace::new(open(part)?, self.now());
        let checked = check(&again).map_err(|error| BackupError::Unsound(error.to_string()))?;
        if (checked.keys, checked.libraries) != (backup.keys, backup.libraries) {
            let text = format!("of {} keys {} are in it", backup.keys, checked.keys);
            return Err(BackupError::Unsound(text));
        }
        backup.bytes = part.metadata()?.len();
        Ok(backup)
    }

    /// Fills a new pool and closes it.
    fn fill(&self, part: &Path, backup: &mut Backup) -> Result<(), BackupError> {
        let own = self.keyspace.heap();
        if self.keyspace.has_media_errors() {
            return Err(BackupError::Damaged);
        }
        let mut options = MapOptions::new(own.largest_size().saturating_mul(GROWTH));
        // The file is synced as a whole when it is closed.
        options.domain = DomainRequest::Process;
        let region = Region::open(part, &options).map_err(OpenError::from)?;
        let options = CreateOptions::random(own.geometry())?;
        let copy =
            Keyspace::new(Heap::create(region, &options).map_err(OpenError::from)?, self.now());

        let shards = 0..self.keyspace.shards();
        let at_cut = || {
            (
                count(&self.keyspace),
                self.journaled.as_ref().map_or(0, |journaled| journaled.seen(shards)),
            )
        };
        let (snapshot, (keys, seen)) = self.keyspace.snapshot(at_cut).map_err(Error::from)?;
        self.acknowledge(seen)?;
        let now = self.now();
        snapshot.for_each_named_library(|name, code| {
            backup.libraries += 1;
            Ok::<_, BackupError>(copy.restore_library(name, code, now)?)
        })?;
        let (mut walk, mut items, mut gone) = (snapshot.walk(), Vec::new(), Gone::default());
        while walk.next(&mut items)? {
            for item in items.drain(..) {
                let is_there = copy.restore(&item, now)?;
                gone.add(item, is_there);
            }
        }
        drop(walk);
        (backup.keys, backup.expired) = (count(&copy), gone.finish());
        copy.heap().close()?;
        if backup.keys + backup.expired != keys {
            let text = format!("of {keys} keys {} could be read", backup.keys);
            return Err(BackupError::Unsound(text));
        }
        Ok(())
    }
}
