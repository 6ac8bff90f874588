//! An open store.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use perdura::prelude::*;
use perdura::{DomainRequest, Durability, Options, Perdura};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::{Bytes, seconds};
use crate::keys::Keys;
use crate::{errors, transaction};

/// Opens a store in a file, which is created if it does not exist; in memory alone if `path` is
/// None.
///
/// `limit` is how many bytes it may grow to. A call returns when its writes are durable; if the
/// store has a journal, `sync_every` lets calls return earlier, and syncs after this many seconds
/// (0: when flush() is called, and in the background). `domain` is "auto", "journal", or "process",
/// which survives kill -9 but no power loss, on any file.
#[pyfunction]
#[pyo3(signature = (path, *, limit=None, sync_every=None, domain="auto", create=true))]
pub(crate) fn open(
    py: Python<'_>,
    path: Option<PathBuf>,
    limit: Option<u64>,
    sync_every: Option<f64>,
    domain: &str,
    create: bool,
) -> PyResult<Store> {
    let options = path.map_or_else(Options::volatile, Options::new).create(create);
    let mut options = options.domain(match domain {
        "auto" => DomainRequest::Auto,
        "journal" => DomainRequest::Journal,
        "process" => DomainRequest::Process,
        _ => return Err(PyValueError::new_err("domain is \"auto\", \"journal\" or \"process\"")),
    });
    if let Some(limit) = limit {
        options = options.limit(limit);
    }
    options = match sync_every.map(seconds).transpose()? {
        None => options,
        Some(Duration::ZERO) => options.durability(Durability::Os),
        Some(every) => options.durability(Durability::Interval(every)),
    };
    let store = py.detach(|| Perdura::open(options)).map_err(errors::of_opening)?;
    Ok(Store(RwLock::new(Some(Arc::new(store)))))
}

/// An open store, used like a dictionary of bytes. Any number of threads may use it.
#[pyclass(frozen, module = "perdura")]
pub(crate) struct Store(RwLock<Option<Arc<Perdura>>>);

impl Store {
    fn store(&self) -> PyResult<Arc<Perdura>> {
        let store = self.0.read().unwrap_or_else(PoisonError::into_inner);
        store.clone().ok_or_else(|| errors::Closed::new_err("the store is closed"))
    }

    /// Runs a call of the store, in which it may wait.
    fn call<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Perdura) -> Result<R, perdura::Error> + Send,
    ) -> PyResult<R> {
        let store = self.store()?;
        py.detach(|| call(&store)).map_err(errors::of)
    }

    fn read(&self, py: Python<'_>, key: &Bytes) -> PyResult<Option<Vec<u8>>> {
        self.call(py, |store| store.get(key))
    }
}

#[pymethods]
impl Store {
    /// Returns a value as bytes; `default` if there is no such key.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.read(py, &key)?;
        Ok(value.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    /// Sets a value. The key expires after `ttl` seconds, if that is given.
    #[pyo3(signature = (key, value, ttl=None))]
    fn set(&self, py: Python<'_>, key: Bytes, value: Bytes, ttl: Option<f64>) -> PyResult<()> {
        let ttl = ttl.map(seconds).transpose()?;
        self.call(py, |store| match ttl {
            None => store.set(&key, &value),
            Some(ttl) => store.set_for(&key, &value, ttl),
        })
    }

    /// Deletes a key, whatever it holds. Returns True if there was one.
    fn delete(&self, py: Python<'_>, key: Bytes) -> PyResult<bool> {
        self.call(py, |store| store.delete(&key))
    }

    /// Adds to an integer, 0 if there is no key, and returns the sum.
    #[pyo3(signature = (key, by=1))]
    fn incr(&self, py: Python<'_>, key: Bytes, by: i64) -> PyResult<i64> {
        self.call(py, |store| store.increment(&key, by))
    }

    /// Calls `work` with a transaction, and returns its result. Its changes are made all or
    /// nothing: an exception undoes them, and is raised.
    ///
    /// The keys that it uses are locked until it returns. If another thread has locked one of them,
    /// `work` runs again, so its other effects must tolerate that. Inside `work` the store's own
    /// calls are refused.
    fn transaction(&self, py: Python<'_>, work: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let store = self.store()?;
        py.detach(|| transaction::run(&store, &work))
    }

    /// Returns an iterator over the keys that begin with `prefix`.
    #[pyo3(signature = (prefix=None))]
    fn keys(&self, prefix: Option<Bytes>) -> PyResult<Keys> {
        let prefix = prefix.as_ref().map_or(&[][..], AsRef::as_ref);
        Ok(Keys::new(self.store()?, prefix))
    }

    /// Waits until all earlier writes are durable.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, Perdura::flush)
    }

    /// Closes the store: further calls raise Closed. If other threads, or iterators, still use it,
    /// it ends with the last of them. A program that ends without closing it loses nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.0.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(store) = store.and_then(Arc::into_inner) else { return Ok(()) };
        py.detach(|| store.close()).map_err(|error| errors::Error::new_err(error.to_string()))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.read(py, &key.extract()?)?;
        let value = value.ok_or_else(|| PyKeyError::new_err(key.unbind()))?;
        Ok(PyBytes::new(py, &value))
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes, value: Bytes) -> PyResult<()> {
        self.set(py, key, value, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: Bound<'_, PyAny>) -> PyResult<()> {
        let deleted = self.delete(py, key.extract()?)?;
        if deleted { Ok(()) } else { Err(PyKeyError::new_err(key.unbind())) }
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes) -> PyResult<bool> {
        self.call(py, |store| store.exists(&key))
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.store()?.len() as usize)
    }

    fn __iter__(&self) -> PyResult<Keys> {
        self.keys(None)
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: Bound<'_, PyAny>,
        _error: Bound<'_, PyAny>,
        _trace: Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        self.close(py)?;
        Ok(false)
    }
}
