//! Errors of operations; those of opening are in `open_error`.

/// Why a store could not be closed cleanly. Nothing that was acknowledged is lost: the next open
/// recovers it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::{CloseError, Options, Perdura};
///
/// fn end(store: Perdura) {
///     if let Err(error @ CloseError { .. }) = store.close() {
///         eprintln!("the next start recovers the store: {error}");
///     }
/// }
///
/// end(Perdura::open(Options::volatile())?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CloseError(#[from] pub(crate) std::io::Error);

/// Why an operation failed. It changed nothing, except with [`Error::JournalFailed`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Error, Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// store.set("greeting", "hello")?;
/// assert_eq!(store.increment("greeting", 1), Err(Error::NotAnInteger));
/// assert_eq!(store.set_len("greeting"), Err(Error::WrongType));
/// assert_eq!(store.get("greeting")?.as_deref(), Some(&b"hello"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool's limit is reached.
    #[error("the store is full")]
    Full,
    /// The key holds a value of another type.
    #[error("the key holds a value of another type")]
    WrongType,
    /// The value would be longer than 512 MiB.
    #[error("the value would be longer than 512 MiB")]
    TooLong,
    /// The key is longer than 512 MiB.
    #[error("the key is longer than 512 MiB")]
    KeyTooLong,
    /// The value is not an integer of 64 bits.
    #[error("the value is not an integer")]
    NotAnInteger,
    /// The score would not be a number, or an element to be sorted as a number is not one.
    #[error("that is not a number")]
    NotANumber,
    /// The result would not be an integer of 64 bits.
    #[error("the increment would overflow")]
    Overflow,
    /// A complement takes exactly one source key.
    #[error("a complement is made of one key alone")]
    OneSource,
    /// The string is not a HyperLogLog, or a damaged one.
    #[error("the string is not a HyperLogLog")]
    NotHyperLogLog,
    /// A position that cannot be stored, or a length that is negative or not finite.
    #[error("there is no such place")]
    NoSuchPlace,
    /// The member at the centre of the search does not exist.
    #[error("there is no such member")]
    NoSuchMember,
    /// A row of a table is not of the types that the table was opened with, or its value cannot be
    /// written as JSON.
    #[error("that is not a row of the table's types")]
    NotARow,
    /// The transaction used a key that it did not declare.
    #[error("the transaction used a key that it did not declare")]
    Undeclared,
    /// Inside [`crate::Perdura::transact`]: another thread has locked a key that the transaction
    /// needs. The closure runs again after it has returned, whatever it returns.
    #[error("another transaction has the key: this one is run again")]
    Conflict,
    /// The store was called inside one of its own transactions, or by a closure that is shown a
    /// value.
    #[error(
        "the store was called inside of its own transaction: use the transaction's calls, \
         or call the store when it has ended"
    )]
    Reentrant,
    /// The snapshot was ended because it held more memory than the store's limit for all snapshots,
    /// or blocks that a write needed. Take another one.
    #[error("the snapshot was ended: it held too much memory, or space that a write needed")]
    SnapshotExpired,
    /// The maximum of 64 snapshots is open.
    #[error("too many snapshots are open")]
    TooManySnapshots,
    /// There are sixteen databases, 0 to 15.
    #[error("there is no such database")]
    NoSuchDatabase,
    /// The medium lost bytes of the value: delete the key or set it again.
    #[error("the value is damaged (pool offset {0:#x}): delete the key, or set it again")]
    Damaged(u64),
    /// The medium lost bytes while the operation ran. The losses are known now: try again.
    #[error("the medium lost bytes meanwhile: try again")]
    UnresolvedLosses,
    /// The store's journal failed, as [`crate::Perdura::journal_failure`] says: the disk refused a
    /// write or a sync. Whether the writes of the first call that returns this are there when the
    /// store is opened again is unknown; those of calls that returned before are. No more writes
    /// are taken, and only durable data can be read.
    #[error("the store's journal failed; it takes no more writes until it is opened again")]
    JournalFailed,
    /// A durable step failed; the store takes no more writes until it is opened again.
    #[error("a durable step failed; the store takes no more writes until it is opened again")]
    ReadOnly,
}

impl Error {
    pub(crate) fn has_unresolved_losses(&self) -> bool {
        *self == Error::UnresolvedLosses
    }
}

impl From<keyspace::Error> for Error {
    fn from(error: keyspace::Error) -> Error {
        match error {
            keyspace::Error::Full => Error::Full,
            keyspace::Error::WrongType => Error::WrongType,
            keyspace::Error::NotHyperLogLog | keyspace::Error::UnsoundHyperLogLog => {
                Error::NotHyperLogLog
            }
            keyspace::Error::TooLong => Error::TooLong,
            keyspace::Error::KeyTooLong => Error::KeyTooLong,
            keyspace::Error::Damaged(at) => Error::Damaged(at),
            _ => Error::ReadOnly,
        }
    }
}

impl From<keyspace::SnapshotLost> for Error {
    fn from(_: keyspace::SnapshotLost) -> Error {
        Error::SnapshotExpired
    }
}

impl From<keyspace::SnapshotError> for Error {
    fn from(_: keyspace::SnapshotError) -> Error {
        Error::TooManySnapshots
    }
}

impl From<keyspace::CommitError> for Error {
    fn from(error: keyspace::CommitError) -> Error {
        match error {
            keyspace::CommitError::Full => Error::Full,
            keyspace::CommitError::UnresolvedLosses => Error::UnresolvedLosses,
            _ => Error::ReadOnly,
        }
    }
}
