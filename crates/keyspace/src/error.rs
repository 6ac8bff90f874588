//! Why an operation on keys failed. The texts that clients see are made by `commands`.

pub use heap::CommitError;
use heap::Ptr;

/// Why an operation on keys failed. What it staged must be rolled back by whoever opened the
/// savepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The heap has no space for it.
    #[error("the heap is full")]
    Full,
    /// The key holds a value of another type.
    #[error("the key holds a value of another type")]
    WrongType,
    /// The string at the key is no HyperLogLog.
    #[error("the string is not a HyperLogLog")]
    NotHyperLogLog,
    /// The string at the key begins as a HyperLogLog, and goes on as something else.
    #[error("the string is not a sound HyperLogLog")]
    UnsoundHyperLogLog,
    /// The value would be longer than [`crate::Keyspace::MAX_STRING`].
    #[error("the value would be longer than a string may be")]
    TooLong,
    /// The key is longer than [`crate::Keyspace::MAX_KEY`].
    #[error("the key is longer than a key may be")]
    KeyTooLong,
    /// The value is damaged; the entry's byte offset in the pool.
    #[error("the value of this key is damaged (pool offset {0:#x})")]
    Damaged(u64),
    /// A durable step failed; the store takes no more writes until it is opened again.
    #[error("a durable step failed earlier")]
    ReadOnly,
    /// Every shard that could have a key to evict is locked; this is one of them.
    #[error("every shard with a key to evict is locked")]
    Locked(usize),
}

impl From<heap::Full> for Error {
    fn from(_: heap::Full) -> Error {
        Error::Full
    }
}

/// Returns why a structure of the entry at a place could not be read or changed.
pub(crate) fn refused(error: structures::Error, entry: Ptr) -> Error {
    match error {
        structures::Error::Full(_) => Error::Full,
        structures::Error::Damaged(_) => Error::Damaged(entry.raw()),
    }
}
