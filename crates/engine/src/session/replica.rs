//! A client that is a replica, or says what it wants as one; and a replica's session for what it
//! receives.

use std::sync::Arc;

use replication::{Cursor, Replica};

/// The facts that a client gave by REPLCONF, and its place among the replicas.
#[derive(Default)]
pub struct AsReplica {
    /// Whether it wants a dump and nothing after it (`rdb-only`).
    pub wants_dump_only: bool,
    /// Whether it knows the mark that ends a dump (`capa eof`).
    pub knows_mark: bool,
    /// Whether it takes the ID of a history that is continued (`capa psync2`).
    pub knows_new_id: bool,
    /// Whether it reads dumps of Valkey's own version of the format, those of Valkey 9.
    pub reads_valkey: bool,
    /// Whether it is a Perdura, which reads all versions (`capa perdura`).
    pub is_perdura: bool,
    /// Whether it has come by SYNC: it gets no reply before its dump, and acknowledges nothing.
    pub is_old: bool,
    /// The port that it listens on; 0 if it did not say.
    pub port: u16,
    /// The address that others reach it by, if it said so.
    pub host: Option<String>,
    /// Its entry, once it receives a dump or the stream.
    pub entry: Option<Arc<Replica>>,
    /// Its place in the stream; none while it waits for a dump.
    pub cursor: Option<Cursor>,
}

/// Bytes of memory that are kept for the next commands.
const KEPT: usize = 1 << 20;

/// Commands that a replica has received from its primary, to be passed on to its own stream as they
/// came.
#[derive(Default)]
pub struct Received {
    /// The history to which they belong ([`replication::Stream::epoch`]).
    pub epoch: u64,
    bytes: Vec<u8>,
    /// The end of each command in `bytes`.
    ends: Vec<usize>,
    /// How many commands, from the front, the next commit executes.
    covered: usize,
    /// Bytes that were passed on.
    passed: usize,
}

impl Received {
    /// Returns nothing, of the history of `epoch`.
    pub(crate) fn new(epoch: u64) -> Received {
        Received { epoch, ..Received::default() }
    }

    /// Adds a command as it came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.passed == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
            self.ends.clear();
            (self.covered, self.passed) = (0, 0);
        }
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    /// Notes that `count` more commands belong to the next commit.
    pub fn cover(&mut self, count: usize) {
        self.covered = (self.covered + count).min(self.ends.len());
    }

    /// Takes back the last [`Received::cover`]: the commit has failed.
    pub(crate) fn uncover(&mut self, count: usize) {
        self.covered -= count;
    }

    /// Returns the number of bytes of the commands that belong to this commit.
    pub(crate) fn to_pass_on(&self) -> usize {
        self.covered_end() - self.passed
    }

    /// Returns the bytes of the commands that belong to this commit, once.
    pub(crate) fn take(&mut self) -> &[u8] {
        let begin = self.passed;
        self.passed = self.covered_end();
        &self.bytes[begin..self.passed]
    }

    fn covered_end(&self) -> usize {
        let end = self.covered.checked_sub(1).map_or(0, |last| self.ends[last]);
        end.max(self.passed)
    }
}
