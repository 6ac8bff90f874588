//! A command that takes several steps, between which other clients are served, as its session keeps
//! it.

use keyspace::Db;
use resp::Writer;

/// A KEYS on its way through the keyspace.
pub(crate) struct Walk {
    pub(crate) command: usize,
    pub(crate) words: Vec<Box<[u8]>>,
    pub(crate) db: Db,
    pub(crate) cursor: u64,
    pub(crate) found: usize,
    pub(crate) elements: Writer,
    pub(crate) durable_at: u64,
    /// Time that its steps took.
    pub(crate) nanos: u64,
}
