//! Arguments from Python: bytes or text, and times.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};

/// A key or a value: `bytes`, `bytearray`, or `str`, which is encoded as UTF-8. Only a `bytearray`,
/// which others may change, is copied.
#[derive(FromPyObject)]
pub(crate) enum Bytes {
    Text(PyBackedStr),
    Raw(PyBackedBytes),
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Bytes::Text(text) => text.as_bytes(),
            Bytes::Raw(bytes) => bytes,
        }
    }
}

/// Returns a time that is given in seconds.
pub(crate) fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))
}
