//! The errors of operations on keys. The crate `commands` makes the texts that clients see.

pub use heap::CommitError;
use heap::Ptr;

/// The reason why an operation on keys failed. The caller must roll back to its savepoint, since
/// the operation may have staged changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The heap has no space for it.
    #[error("the heap is full")]
    Full,
    /// The key holds a value of another type.
    #[error("the key holds a value of another type")]
    WrongType,
    /// The string at the key is not a HyperLogLog.
    #[error("the string is not a HyperLogLog")]
    NotHyperLogLog,
    /// The string at the key has the header of a HyperLogLog, but is not a valid one.
    #[error("the string is not a sound HyperLogLog")]
    UnsoundHyperLogLog,
    /// The value would be longer than [`crate::Keyspace::MAX_STRING`].
    #[error("the value would be longer than a string may be")]
    TooLong,
    /// The key is longer than [`crate::Keyspace::MAX_KEY`].
    #[error("the key is longer than a key may be")]
    KeyTooLong,
    /// The value is damaged. Contains the entry's byte offset in the pool.
    #[error("the value of this key is damaged (pool offset {0:#x})")]
    Damaged(u64),
    /// A durable step failed earlier; the store takes no more writes until it is reopened.
    #[error("a durable step failed earlier")]
    ReadOnly,
    /// Every shard that could have a key to evict is locked. Contains one of them.
    #[error("every shard with a key to evict is locked")]
    Locked(usize),
}

impl From<heap::Full> for Error {
    fn from(_: heap::Full) -> Error {
        Error::Full
    }
}

/// Returns the error for a structure of this entry that could not be read or changed.
pub(crate) fn refused(error: structures::Error, entry: Ptr) -> Error {
    match error {
        structures::Error::Full(_) => Error::Full,
        structures::Error::Damaged(_) => Error::Damaged(entry.raw()),
    }
}
