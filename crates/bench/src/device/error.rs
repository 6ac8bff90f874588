//! Why a medium could not be measured.

use std::io;
use std::path::{Path, PathBuf};

/// Why a study of a medium ended.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", dir.display())]
pub(crate) struct DeviceError {
    dir: PathBuf,
    why: String,
}

impl DeviceError {
    /// The study of a directory ended for this reason.
    pub(crate) fn new(dir: &Path, why: impl ToString) -> DeviceError {
        DeviceError { dir: dir.to_owned(), why: why.to_string() }
    }

    /// A step failed, as the kernel says.
    pub(crate) fn of<'a, E: Into<io::Error>>(
        dir: &'a Path,
        step: &'static str,
    ) -> impl Fn(E) -> DeviceError + use<'a, E> {
        move |cause| DeviceError::new(dir, format!("{step}: {}", cause.into()))
    }
}
