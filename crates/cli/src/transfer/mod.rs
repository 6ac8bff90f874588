//! Moving keys: out of a dump, a pool, a log or a running server, into a running server, a pool, a
//! dump or a text.
//!
//! A source returns one [`Record`] after the other, each key with its value in the form that DUMP
//! answers and RESTORE takes, so that a value passes through without being taken apart. Memory is
//! that of one batch of keys, and of the largest value. What is read from a file is verified on
//! the way, a value of another server by whoever takes it apart.

mod backup;
pub(crate) mod commands;
mod connection;
mod export;
pub(crate) mod import;
mod json_lines;
mod local;
mod origin;
mod rdb_file;
mod refused;
pub(crate) mod running;
mod socket;
mod sync;
mod valkey;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use backup::{restore, run as backup};
pub(crate) use export::run as export;
pub(crate) use import::run as import;

use connection::{Connection, ConnectionError};
use origin::Origin;

use crate::arguments::TlsOptions;
use crate::pool::PoolError;

/// What is moved.
pub(crate) enum Record {
    /// The source of a function library.
    Library(Vec<u8>),
    /// A key.
    Key(Key),
}

/// A key with its value.
pub(crate) struct Key {
    pub(crate) database: u64,
    pub(crate) name: Vec<u8>,
    /// When it expires, in unix ms.
    pub(crate) expires: Option<u64>,
    /// What DUMP answers for it.
    pub(crate) payload: Vec<u8>,
}

/// How much of a source was read, and of how much, in bytes or keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) done: u64,
    pub(crate) total: u64,
}

/// Where keys come from.
pub(crate) trait Source {
    /// Returns the next record, or none at the end.
    fn next(&mut self) -> Result<Option<Record>, TransferError>;

    /// Returns how far it has come.
    fn progress(&self) -> Progress;

    /// Returns true if progress is counted in bytes, and not in keys.
    fn counts_bytes(&self) -> bool;
}

/// Why moving keys failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    /// A file cannot be opened or created.
    #[error("{}: {error}", path.display())]
    File {
        /// Its name.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A dump cannot be read to its end.
    #[error("{}: {error}", path.display())]
    Dump {
        /// Its name.
        path: PathBuf,
        /// Why.
        error: rdb::Error,
    },
    /// A server cannot be talked to.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// A value of a server is none that is known.
    #[error("database {database}, key \"{key}\": {error}")]
    Value {
        /// The key's database.
        database: u64,
        /// The key's name, escaped.
        key: String,
        /// What its bytes are not.
        error: rdb::Error,
    },
    /// The server refuses to take a key.
    #[error("database {database}, key \"{key}\": {reply}")]
    Refused {
        /// The key's database.
        database: u64,
        /// The key's name, escaped.
        key: String,
        /// The server's error.
        reply: String,
    },
    /// The server refuses to take a function library.
    #[error("function library: {0}")]
    Library(String),
    /// The text cannot be written.
    #[error("writing failed: {0}")]
    Output(#[from] io::Error),
    /// The new file cannot be made.
    #[error(transparent)]
    NewFile(#[from] pmem::NewFileError),
    /// The pool cannot be opened.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A journal of what has none.
    #[error("{0} is no pool: --journal belongs to one")]
    NoPool(String),
    /// A directory or a file without a log.
    #[error("{}: no append-only file is there, nor a manifest of one, nor a dump.rdb", .0.display())]
    NoLog(PathBuf),
    /// Data that cannot be read, or not be stored.
    #[error("{}: {text}", path.display())]
    Unsound {
        /// The file.
        path: PathBuf,
        /// Why.
        text: String,
    },
}

/// Why a key was not written.
#[derive(Debug)]
enum WriteError {
    /// Its value is none that is known.
    Value(rdb::Error),
    /// The text cannot be written.
    Output(io::Error),
}

impl From<rdb::Error> for WriteError {
    fn from(error: rdb::Error) -> WriteError {
        WriteError::Value(error)
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> WriteError {
        WriteError::Output(error)
    }
}

/// Opens what a name on the command line means. A server's keys are asked for one by one: not
/// every server sends a dump to whoever asks for it.
fn open(
    name: &str,
    journal: Option<&Path>,
    tls: &TlsOptions,
) -> Result<Box<dyn Source>, TransferError> {
    Ok(match Origin::with_journal(name, journal, tls)? {
        Origin::Server(address) => {
            Box::new(running::RunningServer::new(Connection::open(&address)?)?)
        }
        origin => Box::new(rdb_file::RdbFile::open(&origin)?),
    })
}

/// Returns bytes as a person can read them on one line.
fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
