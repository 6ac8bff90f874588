//! Why a medium could not be measured.

use std::io;
use std::path::PathBuf;

/// Why a study of a medium ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DeviceError {
    /// `--dir` names something else.
    #[error("{}: not a directory", path.display())]
    NoDirectory {
        /// What was named.
        path: PathBuf,
    },
    /// The file system has less space than the file needs.
    #[error("{}: the file of {wanted} bytes does not fit, {free} are free: choose a smaller --size", dir.display())]
    NoSpace {
        /// The directory.
        dir: PathBuf,
        /// Bytes that are needed.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The file could not be mapped.
    #[error("{cause}")]
    Map {
        /// Why.
        cause: pmem::MapError,
    },
    /// The file could not be made as long as asked.
    #[error("{}: {cause}", dir.display())]
    Grow {
        /// The directory.
        dir: PathBuf,
        /// Why.
        cause: pmem::GrowError,
    },
    /// A system call failed.
    #[error("{}: {step}: {cause}", dir.display())]
    Io {
        /// The directory.
        dir: PathBuf,
        /// What was attempted.
        step: &'static str,
        /// The kernel's answer.
        cause: io::Error,
    },
}
