//! The location and the policy of a log: Redis's `dir`, `appenddirname`, `appendfilename`,
//! `appendfsync`, `aof-load-truncated` and `aof-timestamp-enabled`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::storage::{Disk, Storage};

/// When appended commands are made durable (`appendfsync`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Before the reply.
    Always,
    /// Once a second, in the background.
    #[default]
    EverySecond,
    /// Whenever the kernel does it.
    No,
}

impl Fsync {
    pub(crate) fn from_number(n: u8) -> Fsync {
        match n {
            0 => Fsync::Always,
            1 => Fsync::EverySecond,
            _ => Fsync::No,
        }
    }
}

/// The time since some fixed moment.
pub type Now = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The location and the policy of a log.
#[derive(Clone)]
pub struct Options {
    /// The server's working directory (`dir`); an old single-file log is searched for here.
    pub dir: PathBuf,
    /// The log's directory inside it (`appenddirname`).
    pub dirname: String,
    /// The common prefix of the names of the log's files (`appendfilename`).
    pub filename: String,
    /// The policy to begin with.
    pub fsync: Fsync,
    /// Whether a log whose last command is cut short is loaded without it (`aof-load-truncated`).
    pub load_truncated: bool,
    /// Whether the files contain the times of commands (`aof-timestamp-enabled`).
    pub timestamps: bool,
    /// Whether it is only read: nothing is cut off, moved or deleted.
    pub is_read_only: bool,
    /// The place of the files.
    pub storage: Arc<dyn Storage>,
    /// The clock, for the pace of failing rewrites.
    pub now: Now,
}

impl Options {
    /// The name of the log's directory in Redis, unless set.
    pub const DIRNAME: &str = "appendonlydir";

    /// The beginning of the names of the log's files in Redis, unless set.
    pub const FILENAME: &str = "appendonly.aof";

    /// Returns Redis's defaults for a log under `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Options {
        let start = Instant::now();
        Options {
            dir: dir.into(),
            dirname: Options::DIRNAME.to_owned(),
            filename: Options::FILENAME.to_owned(),
            fsync: Fsync::default(),
            load_truncated: true,
            timestamps: false,
            is_read_only: false,
            storage: Arc::new(Disk),
            now: Arc::new(move || start.elapsed()),
        }
    }

    /// Returns the log's directory.
    pub(crate) fn folder(&self) -> PathBuf {
        self.dir.join(&self.dirname)
    }

    /// Returns the path of one of its files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}.*, {:?}", self.folder().display(), self.filename, self.fsync)
    }
}
