//! Why a store could not be opened, by what its owner can do about it.
//!
//! The layers below know dozens of causes, each with a text that says what was found and what to
//! do. They are sorted here into the few kinds that a program treats differently; the text is kept.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use pmem::{GrowError, JournalError, MapError};

/// Why a store could not be opened. Nothing was changed.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use perdura::{DomainRequest, OpenError, Options, Perdura};
///
/// let path = dir.path().join("notes.txt");
/// std::fs::write(&path, "no pool".repeat(10_000))?;
/// let options = Options::new(&path).domain(DomainRequest::Process);
/// match Perdura::open(options) {
///     Err(OpenError::NotAPool(why)) => println!("another file is needed: {why}"),
///     Err(OpenError::Locked { process, .. }) => println!("it is open in {process:?}"),
///     Err(error) => return Err(error.into()),
///     Ok(_) => panic!("those are notes"),
/// }
/// // The file is as it was.
/// assert_eq!(std::fs::read(&path)?.len(), 70_000);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has the file open, or this one has it open already. The call waited for a
    /// second, or for three if that process was about to end.
    #[error("{}: {}", path.display(), locked_by(*process))]
    Locked {
        /// The file.
        path: PathBuf,
        /// The process, if the system says which.
        process: Option<u32>,
    },
    /// There is no such file, or no such folder.
    #[error(transparent)]
    NotFound(Cause),
    /// The file system has no space for the pool or its journal.
    #[error(transparent)]
    NoSpace(Cause),
    /// The limit is too small for a pool.
    #[error(transparent)]
    LimitTooSmall(Cause),
    /// The medium, or the machine, does not support the requested domain.
    #[error(transparent)]
    Unsupported(Cause),
    /// The file is something else.
    #[error(transparent)]
    NotAPool(Cause),
    /// Another version of Perdura made the pool or its journal, and this one cannot use it.
    #[error(transparent)]
    OtherVersion(Cause),
    /// The pool was open when the machine restarted, and its domain does not survive that.
    #[error(transparent)]
    OtherBoot(Cause),
    /// The pool's journal is missing, belongs to another pool, or was not requested.
    #[error(transparent)]
    Journal(Cause),
    /// The pool or its journal is damaged, or the file is shorter than any pool. `perdura salvage`
    /// copies the intact data.
    #[error(transparent)]
    Damaged(Cause),
    /// The pool is that of a replica: a server that starts with it follows its primary, which
    /// replaces what anybody else has written. `perdura backup` copies it; a server that is started
    /// with it without `replicaof`, or is told `REPLICAOF NO ONE`, makes it one of its own.
    #[error(
        "{}: the pool is a replica's, whose primary would replace what is written here. Copy it with `perdura backup`, or start a server with it without `replicaof`, which makes it one of its own",
        path.display()
    )]
    Replica {
        /// The pool's file.
        path: PathBuf,
    },
    /// The operating system refused an operation.
    #[error(transparent)]
    Io(Cause),
}

/// The finding and the advice, as text.
///
/// ```
/// use perdura::{OpenError, Options, Perdura};
///
/// let opened = Perdura::open(Options::new("/nowhere/at/all/pool"));
/// let Err(OpenError::NotFound(cause)) = opened else { panic!("there is no such folder") };
/// assert!(cause.to_string().contains("/nowhere/at/all/pool"));
/// ```
#[derive(Debug)]
pub struct Cause(Box<dyn Error + Send + Sync>);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

fn cause(error: impl Error + Send + Sync + 'static) -> Cause {
    Cause(Box::new(error))
}

fn locked_by(process: Option<u32>) -> String {
    match process {
        Some(process) if process == std::process::id() => "this process has it open already".into(),
        Some(process) => format!("another process has locked it (process {process})"),
        None => "another process has locked it".into(),
    }
}

impl From<MapError> for OpenError {
    fn from(error: MapError) -> OpenError {
        match error {
            MapError::Locked { path, holder } => OpenError::Locked { path, process: holder },
            MapError::NoMapSync { .. }
            | MapError::NoEadr { .. }
            | MapError::WrongKind { .. }
            | MapError::OwnJournal { .. }
            | MapError::WrongMachine { .. } => OpenError::Unsupported(cause(error)),
            MapError::Io { ref source, .. } => match source.kind() {
                io::ErrorKind::NotFound => OpenError::NotFound(cause(error)),
                io::ErrorKind::StorageFull => OpenError::NoSpace(cause(error)),
                _ => OpenError::Io(cause(error)),
            },
            _ => OpenError::Io(cause(error)),
        }
    }
}

/// Returns the kind of a journal's error.
fn of_journal(error: &JournalError) -> fn(Cause) -> OpenError {
    match error {
        JournalError::NoSpace { .. } => OpenError::NoSpace,
        JournalError::Version { .. } => OpenError::OtherVersion,
        JournalError::Superblock
        | JournalError::Cut { .. }
        | JournalError::Damaged { .. }
        | JournalError::Senseless { .. } => OpenError::Damaged,
        _ => OpenError::Journal,
    }
}

impl From<heap::CreateError> for OpenError {
    fn from(error: heap::CreateError) -> OpenError {
        use heap::CreateError as Create;
        let sort = match &error {
            Create::Geometry(_) | Create::TooSmall { .. } => OpenError::LimitTooSmall,
            Create::Grow { source: GrowError::NoSpace { .. }, .. } => OpenError::NoSpace,
            Create::Journal(error) => of_journal(error),
            _ => OpenError::Io,
        };
        sort(cause(error))
    }
}

impl From<heap::OpenError> for OpenError {
    fn from(error: heap::OpenError) -> OpenError {
        use heap::OpenError as Open;
        let sort = match &error {
            Open::Magic { .. } | Open::NoHeader => OpenError::NotAPool,
            Open::Version { .. }
            | Open::Features { .. }
            | Open::ReadOnly { .. }
            | Open::Reserved { .. }
            | Open::Geometry(_) => OpenError::OtherVersion,
            Open::OtherBoot { .. } => OpenError::OtherBoot,
            Open::NeedsJournal { .. } => OpenError::Journal,
            Open::Journal(error) => of_journal(error),
            Open::Failed => OpenError::Io,
            // Lost headers, logs, zones, and media errors that cannot be resolved.
            _ => OpenError::Damaged,
        };
        sort(cause(error))
    }
}

impl From<heap::PoolError> for OpenError {
    fn from(error: heap::PoolError) -> OpenError {
        match error {
            heap::PoolError::Create(error) => error.into(),
            heap::PoolError::Open(error) => error.into(),
            heap::PoolError::Random(error) => error.into(),
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        OpenError::Io(cause(error))
    }
}
