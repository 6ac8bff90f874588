//! The library as a module for Python: `perdura.open(path)`, a store that is used like a dictionary
//! of bytes, transactions as functions, iteration, exceptions.
//!
//! Every call releases Python's global lock (GIL) while it is in the store: it may wait there for a
//! lock or a sync, and another thread of Python may be needed to release that lock. A transaction
//! takes it again for the function that it calls.
//!
//! Keys and values are `bytes`; `str` is encoded as UTF-8. This crate knows the library's interface
//! and nothing below it.

#![forbid(unsafe_code)]

mod arguments;
mod errors;
mod keys;
mod store;
mod transaction;

use pyo3::prelude::*;

/// A crash-consistent key-value store in the program's own memory: the writes of a call that
/// returned survive a crash, without a server.
#[pymodule]
#[pyo3(name = "perdura")]
fn perdura_module(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(store::open, module)?)?;
    module.add_class::<store::Store>()?;
    module.add_class::<transaction::Transaction>()?;
    module.add_class::<keys::Keys>()?;
    errors::add_to(module)
}
