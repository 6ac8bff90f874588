//! Errors, by operation. The texts of loading are Redis's, since people search for them.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The durable step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// write(2) of appended commands.
    Write,
    /// fdatasync of a file.
    Sync,
    /// The switch to another set of files.
    Manifest,
}

/// Why the log takes no more commands.
#[derive(Clone, Debug, Error)]
#[error("{text}")]
pub struct Failure {
    /// The step that failed.
    pub operation: Operation,
    /// The operating system's words.
    pub text: String,
    /// Its error number, if there is one.
    pub code: Option<i32>,
}

impl Failure {
    pub(crate) fn new(operation: Operation, error: &io::Error) -> Failure {
        Failure { operation, text: text(error), code: error.raw_os_error() }
    }
}

/// Returns the words of strerror(3), without the number that Rust adds.
pub(crate) fn text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Why a manifest is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Its content is wrong.
    #[error("{reason} (AOF manifest, line {line}: '{text}')")]
    Content {
        /// What is wrong.
        reason: &'static str,
        /// The line's number, from 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// It cannot be read.
    #[error("can't open the AOF manifest file {path} for reading: {}", text(.source))]
    Read {
        /// The manifest.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Why a log cannot be loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The manifest is refused.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A listed file is missing.
    #[error("The append log file {file} doesn't exist: No such file or directory")]
    Missing {
        /// Its name.
        file: String,
    },
    /// A listed file cannot be opened.
    #[error("can't open the append log file {file} for reading: {}", text(.source))]
    Open {
        /// Its name.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// A listed file cannot be read to its end.
    #[error("Unrecoverable error reading the append only file {file}: {}", text(.source))]
    Read {
        /// Its name.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// Bytes that are not a command.
    #[error(
        "Bad file format reading the append only file {file}: make a backup of your AOF file, then \
         use ./redis-check-aof --fix <filename.manifest> (at offset {offset}: {expected} expected)"
    )]
    Format {
        /// Its name.
        file: String,
        /// The position in the file.
        offset: u64,
        /// The expected text.
        expected: &'static str,
    },
    /// The last command is cut short, and the options do not accept that.
    #[error(
        "Unexpected end of file reading the append only file {file}. You can: 1) Make a backup of \
         your AOF file, then use ./redis-check-aof --fix <filename.manifest>. 2) Alternatively you \
         can set the 'aof-load-truncated' configuration option to yes and restart the server."
    )]
    UnexpectedEnd {
        /// Its name.
        file: String,
    },
    /// A file other than the last one is cut short.
    #[error("the truncated file {file} is not the last file")]
    TruncatedNotLast {
        /// Its name.
        file: String,
    },
    /// The broken tail could not be cut off.
    #[error("Error truncating the AOF file {file}: {}", text(.source))]
    Truncate {
        /// Its name.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// An old-style log could not be moved into the log's directory.
    #[error("Error trying to move the old AOF file {file} into dir {dir}: {}", text(.source))]
    Upgrade {
        /// The old file.
        file: String,
        /// The directory.
        dir: String,
        /// Why.
        source: io::Error,
    },
}

/// Why a log cannot be opened for appending.
#[derive(Debug, Error)]
#[error("Can't open or create {}: {}", path.display(), text(.source))]
pub struct OpenError {
    /// The file or directory.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Why a rewrite failed. The log goes on as before.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RewriteError {
    /// Another one is running.
    #[error("a rewrite of the append only file is already in progress")]
    Busy,
    /// A file could not be made, written or renamed.
    #[error("{}: {}", path.display(), text(.source))]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The log itself has failed.
    #[error(transparent)]
    Log(#[from] Failure),
    /// The log could not switch to its next file.
    #[error("the next incremental file could not be begun")]
    NotCut,
}
