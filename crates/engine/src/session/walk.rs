//! The state that a session keeps for a command that takes several steps, between which other
//! clients are served.

use keyspace::Db;
use resp::Writer;

/// A command's walk through the keyspace, which lists what it finds.
pub struct Walk {
    /// The number of the command.
    pub command: usize,
    /// The words of its request.
    pub words: Vec<Box<[u8]>>,
    /// The database.
    pub db: Db,
    /// Where the next step begins.
    pub cursor: u64,
    /// How many elements were found.
    pub found: usize,
    /// The elements, encoded for the reply.
    pub elements: Writer,
    /// How far the log must be settled before the reply is sent.
    pub reply_after: u64,
    /// The time that its steps took so far.
    pub nanos: u64,
}

impl Walk {
    /// Replies with what was found.
    pub fn reply(&self, out: &mut Writer) {
        out.array(self.found);
        out.raw(self.elements.as_bytes());
    }
}
