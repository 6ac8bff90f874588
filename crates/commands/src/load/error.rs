//! Why a dump cannot be loaded, in the words that a start or DEBUG RELOAD logs.

use std::io;

use engine::failure::Failure;

/// Why a dump cannot be loaded. The texts are Redis's if it has one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadDumpError {
    /// It ends too early.
    #[error("Short read or OOM loading DB. Unrecoverable error, aborting now. ({0})")]
    Short(rdb::Error),
    /// It is not a dump.
    #[error("Wrong signature trying to load DB from file ({0})")]
    Signature(rdb::Error),
    /// Its version is not known.
    #[error("Can't handle RDB format version {0}")]
    Version(u16),
    /// The checksum does not match.
    #[error(
        "Wrong RDB checksum expected: ({expected:x}) but got ({found:x}). Aborting now. RDB CRC error"
    )]
    Checksum {
        /// The checksum in the file.
        expected: u64,
        /// The checksum of its bytes.
        found: u64,
    },
    /// The data of a module.
    #[error("The RDB file contains module data I can't load: no matching module type '{0}'")]
    Module(String),
    /// Another read error.
    #[error("Internal error in RDB reading: {0}.")]
    Read(rdb::Error),
    /// A duplicate key.
    #[error("RDB has duplicated key '{key}' in DB {db}")]
    Duplicate {
        /// The key.
        key: String,
        /// Its database.
        db: usize,
    },
    /// A database number that does not exist.
    #[error(
        "FATAL: Data file was created with a Redis server configured to handle more than {0} databases. Exiting"
    )]
    Database(usize),
    /// A thread that stored a part of the dump has ended.
    #[error("Internal error in RDB loading: a thread ended")]
    Stopped,
    /// A value or a library that is refused.
    #[error("Internal error in RDB reading, at '{name}': {text}")]
    Refused {
        /// The key.
        name: String,
        /// Why.
        text: String,
    },
}

impl LoadDumpError {
    /// Returns true if the source failed or ended too early.
    pub fn is_cut_off(&self) -> bool {
        matches!(self, LoadDumpError::Short(_) | LoadDumpError::Read(rdb::Error::Io(_)))
    }

    /// Returns why the source failed, if that is what happened.
    pub fn into_io(self) -> Result<io::Error, LoadDumpError> {
        match self {
            LoadDumpError::Read(rdb::Error::Io(error)) => Ok(error),
            error => Err(error),
        }
    }
}

impl From<rdb::Error> for LoadDumpError {
    fn from(error: rdb::Error) -> LoadDumpError {
        match error {
            rdb::Error::Cut { .. } => LoadDumpError::Short(error),
            rdb::Error::Magic { .. } => LoadDumpError::Signature(error),
            rdb::Error::Version { version } => LoadDumpError::Version(version),
            rdb::Error::Checksum { expected, found } => LoadDumpError::Checksum { expected, found },
            rdb::Error::Module { name, .. } => LoadDumpError::Module(name),
            error => LoadDumpError::Read(error),
        }
    }
}

pub(crate) fn refused(name: &[u8], failure: &Failure) -> LoadDumpError {
    let (name, text) = (name.escape_ascii().to_string(), failure.as_bytes());
    LoadDumpError::Refused { name, text: String::from_utf8_lossy(text).into_owned() }
}
