//! Moving keys: out of a dump, a pool, a log or a running server, into a running server, a pool, a
//! dump or a text.
//!
//! A source returns one [`Record`] after the other, each key with its value as DUMP's payload,
//! which RESTORE takes, so that values are not decoded on their way. The memory used is that of one
//! batch of keys, and of the largest value. Data from a file is verified on the way; a value from
//! another server is verified by its decoder.

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

/// An item to be moved.
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
    /// The payload of DUMP.
    pub(crate) payload: Vec<u8>,
}

/// How much of a source was read, of how much in all, in bytes or keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) done: u64,
    pub(crate) total: u64,
}

/// A source of keys.
pub(crate) trait Source {
    /// Returns the next record, or none at the end.
    fn next(&mut self) -> Result<Option<Record>, TransferError>;

    /// Returns the progress.
    fn progress(&self) -> Progress;

    /// Returns true if progress is counted in bytes rather than keys.
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
        /// The system's error.
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
    /// A connection to a server failed.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// A server's value is of an unknown form.
    #[error("database {database}, key \"{key}\": {error}")]
    Value {
        /// The key's database.
        database: u64,
        /// The key's name, escaped.
        key: String,
        /// The error of decoding it.
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
    /// A journal was given for a source that is no pool.
    #[error("{0} is no pool: --journal belongs to one")]
    NoPool(String),
    /// A directory or a file without a log.
    #[error("{}: no append-only file is there, nor a manifest of one, nor a dump.rdb", .0.display())]
    NoLog(PathBuf),
    /// Data that cannot be read, or cannot be stored.
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
    /// Its value is of an unknown form.
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

/// Opens the source that a name on the command line means. A server's keys are read one by one,
/// since not every server sends a dump to every client.
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

/// Returns bytes as readable text on one line.
fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
