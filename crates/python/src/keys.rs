//! Iteration over keys.

use std::sync::{Arc, Mutex, PoisonError};

use perdura::{KeyCursor, Perdura};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;

/// An iterator over keys, in no order. It holds no lock between two steps, so that the loop may
/// write: a key that exists from start to end is returned at least once, seldom twice.
#[pyclass(frozen, module = "perdura")]
pub(crate) struct Keys {
    store: Arc<Perdura>,
    cursor: Mutex<KeyCursor>,
}

impl Keys {
    pub(crate) fn new(store: Arc<Perdura>, prefix: &[u8]) -> Keys {
        let cursor = Mutex::new(store.keys().prefix(prefix).into_cursor());
        Keys { store, cursor }
    }
}

#[pymethods]
impl Keys {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let next = py.detach(|| {
            let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
            cursor.next(&self.store)
        });
        let key = next.transpose().map_err(errors::of)?;
        Ok(key.map(|key| PyBytes::new(py, &key)))
    }
}
