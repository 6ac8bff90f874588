//! Transactions: a function of Python that gets a handle, whose calls take effect all or nothing.
//!
//! The library lends a transaction for the duration of a closure, but an object of Python has no
//! such lifetime. So the handle is a number, and the transaction itself is in a thread-local slot
//! while the function runs: a handle that is kept longer, or used on another thread, finds none.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use perdura::{Perdura, Strings};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::Bytes;
use crate::errors;

/// The calls of a transaction.
trait Calls {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, perdura::Error>;
    fn set(&self, key: &[u8], value: &[u8]) -> Result<(), perdura::Error>;
    fn delete(&self, key: &[u8]) -> Result<bool, perdura::Error>;
    fn increment(&self, key: &[u8], by: i64) -> Result<i64, perdura::Error>;
}

impl Calls for perdura::Transaction<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, perdura::Error> {
        Strings::get(self, key)
    }

    fn set(&self, key: &[u8], value: &[u8]) -> Result<(), perdura::Error> {
        Strings::set(self, key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, perdura::Error> {
        perdura::Keys::delete(self, key)
    }

    fn increment(&self, key: &[u8], by: i64) -> Result<i64, perdura::Error> {
        Strings::increment(self, key, by)
    }
}

/// A transaction while its function runs.
struct Lent<'a> {
    id: u64,
    calls: &'a (dyn Calls + 'a),
    /// Set during a call; it stays set if the call panicked, and may have left its work half done.
    is_in_call: Cell<bool>,
}

scoped_tls_hkt::scoped_thread_local!(
    /// The transaction whose function runs on this thread.
    static LENT: for<'a> &'a Lent<'a>
);

/// Why a transaction was not committed.
enum Ended {
    Store(perdura::Error),
    Python(PyErr),
    Panicked,
}

impl From<perdura::Error> for Ended {
    fn from(error: perdura::Error) -> Ended {
        Ended::Store(error)
    }
}

/// Runs a function of Python as a transaction. The caller does not hold Python's global lock.
pub(crate) fn run(store: &Perdura, work: &Py<PyAny>) -> PyResult<Py<PyAny>> {
    static IDS: AtomicU64 = AtomicU64::new(1);
    let done = store.try_transact(|tx| {
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let lent = Lent { id, calls: &*tx, is_in_call: Cell::new(false) };
        let call = || Python::attach(|py| work.call1(py, (Transaction { id },)));
        let returned = LENT.set(&lent, call);
        if lent.is_in_call.get() {
            return Err(Ended::Panicked);
        }
        returned.map_err(Ended::Python)
    });
    done.map_err(|ended| match ended {
        Ended::Python(error) => error,
        Ended::Store(error) => errors::of(error),
        Ended::Panicked => errors::Error::new_err("an error inside of a call of the transaction"),
    })
}

/// A transaction, inside the function that got it.
#[pyclass(frozen, module = "perdura")]
pub(crate) struct Transaction {
    id: u64,
}

impl Transaction {
    /// Runs a call of the transaction, in which it may wait for a lock.
    fn call<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&dyn Calls) -> Result<R, perdura::Error> + Send,
    ) -> PyResult<R> {
        let id = self.id;
        let within = |lent: &Lent<'_>| {
            (lent.id == id).then(|| {
                lent.is_in_call.set(true);
                let done = call(lent.calls);
                lent.is_in_call.set(false);
                done
            })
        };
        let done = py.detach(|| if LENT.is_set() { LENT.with(within) } else { None });
        let ended = || errors::Closed::new_err("the transaction has ended, or is another thread's");
        done.ok_or_else(ended)?.map_err(errors::of)
    }
}

#[pymethods]
impl Transaction {
    /// Returns a value as bytes; `default` if there is no such key.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.call(py, |tx| tx.get(key.as_ref()))?;
        Ok(value.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    /// Sets a value; the key does not expire.
    fn set(&self, py: Python<'_>, key: Bytes, value: Bytes) -> PyResult<()> {
        self.call(py, |tx| tx.set(key.as_ref(), value.as_ref()))
    }

    /// Deletes a key, whatever it holds. Returns True if there was one.
    fn delete(&self, py: Python<'_>, key: Bytes) -> PyResult<bool> {
        self.call(py, |tx| tx.delete(key.as_ref()))
    }

    /// Adds to an integer, 0 if there is no key, and returns the sum.
    #[pyo3(signature = (key, by=1))]
    fn incr(&self, py: Python<'_>, key: Bytes, by: i64) -> PyResult<i64> {
        self.call(py, |tx| tx.increment(key.as_ref(), by))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes: Bytes = key.extract()?;
        let value = self.call(py, |tx| tx.get(bytes.as_ref()))?;
        let value = value.ok_or_else(|| PyKeyError::new_err(key.unbind()))?;
        Ok(PyBytes::new(py, &value))
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes, value: Bytes) -> PyResult<()> {
        self.set(py, key, value)
    }

    fn __delitem__(&self, py: Python<'_>, key: Bound<'_, PyAny>) -> PyResult<()> {
        let deleted = self.delete(py, key.extract()?)?;
        if deleted { Ok(()) } else { Err(PyKeyError::new_err(key.unbind())) }
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes) -> PyResult<bool> {
        self.call(py, |tx| Ok(tx.get(key.as_ref())?.is_some()))
    }
}
