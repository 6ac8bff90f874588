//! A command that takes several steps, between which other clients are served, as its session keeps
//! it.

use keyspace::Db;
use resp::Writer;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::session::Session;

/// A command on its way through the keyspace, which lists what it finds.
pub(crate) struct Walk {
    /// Takes its next step. Returns true if that was the last one.
    pub(crate) step: fn(&Engine, &mut Session, &mut Walk) -> Result<bool, Failure>,
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

impl Walk {
    /// Replies with what was found.
    pub(crate) fn reply(&self, out: &mut Writer) {
        out.array(self.found);
        out.raw(self.elements.as_bytes());
    }
}
