//! A client that is a replica, or says what it wants as one; and a replica's session for what it
//! receives.

use std::sync::Arc;

use replication::{Cursor, Replica};

/// What a client said by REPLCONF, and its place among the replicas.
#[derive(Default)]
pub struct AsReplica {
    /// Whether it wants a dump and nothing after it (`rdb-only`).
    pub wants_dump_only: bool,
    /// Whether it knows the mark that ends a dump (`capa eof`).
    pub knows_mark: bool,
    /// Whether it knows of histories and offsets: it asks by PSYNC, and acknowledges.
    pub knows_offsets: bool,
    /// Whether it takes the ID of a history that is continued (`capa psync2`).
    pub knows_new_id: bool,
    /// The port that it listens on; 0 if it did not say.
    pub port: u16,
    /// The address that others reach it by, if it said so.
    pub host: Option<String>,
    /// Its entry, once it receives a dump or the stream.
    pub entry: Option<Arc<Replica>>,
    /// Its place in the stream; none while it waits for a dump.
    pub cursor: Option<Cursor>,
}

/// What a replica has received from its primary and not yet passed on to its own stream.
#[derive(Default)]
pub struct Received {
    /// Commands as they came.
    pub bytes: Vec<u8>,
    /// The history to which they belong ([`replication::Stream::epoch`]).
    pub epoch: u64,
}
