//! Exceptions: one for each kind of failure that a program treats differently.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(perdura, Error, PyException, "What all failures of the store are.");
create_exception!(perdura, Full, Error, "The store's limit, or the file system, is reached.");
create_exception!(perdura, WrongType, Error, "The key holds a value of another type.");
create_exception!(perdura, Damaged, Error, "The medium lost bytes of the key: set it again.");
create_exception!(perdura, ReadOnly, Error, "A durable step failed: open the store again.");
create_exception!(perdura, Closed, Error, "The store was closed, or the transaction has ended.");
create_exception!(
    perdura,
    Conflict,
    Error,
    "Inside of a transaction: another thread has the key. The function runs again."
);
create_exception!(perdura, OpenError, Error, "The store cannot be opened.");
create_exception!(perdura, Locked, OpenError, "Another process has the store open.");

/// Returns the exception for an error of the store.
pub(crate) fn of(error: perdura::Error) -> PyErr {
    use perdura::Error as E;
    let text = error.to_string();
    match error {
        E::Full => Full::new_err(text),
        E::WrongType | E::NotAnInteger | E::NotANumber | E::NotARow => WrongType::new_err(text),
        E::Damaged(_) => Damaged::new_err(text),
        E::ReadOnly | E::JournalFailed => ReadOnly::new_err(text),
        E::Conflict => Conflict::new_err(text),
        _ => Error::new_err(text),
    }
}

/// Returns the exception for a store that could not be opened.
pub(crate) fn of_opening(error: perdura::OpenError) -> PyErr {
    let text = error.to_string();
    match error {
        perdura::OpenError::Locked { .. } => Locked::new_err(text),
        _ => OpenError::new_err(text),
    }
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("Full", py.get_type::<Full>())?;
    module.add("WrongType", py.get_type::<WrongType>())?;
    module.add("Damaged", py.get_type::<Damaged>())?;
    module.add("ReadOnly", py.get_type::<ReadOnly>())?;
    module.add("Closed", py.get_type::<Closed>())?;
    module.add("Conflict", py.get_type::<Conflict>())?;
    module.add("OpenError", py.get_type::<OpenError>())?;
    module.add("Locked", py.get_type::<Locked>())
}
