//! How a dump is written, and why writing it failed.

use std::io::{self, Read, Seek, Write};

use ::replication::Id;
use keyspace::SnapshotLost;

/// A temporary file for a part of a large value.
pub trait Spool: Read + Write + Seek + Send {}

impl<T: Read + Write + Seek + Send> Spool for T {}

/// The place of a dump's data in a stream for replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPoint {
    /// The database that is selected there.
    pub db: u32,
    /// The history and the offset; none if the receiver learns them elsewhere.
    pub history: Option<(Id, u64)>,
    /// The history that it continues, and the offset up to which both are the same.
    pub second: Option<(Id, u64)>,
}

/// How a dump is written.
pub struct SaveOptions<'o> {
    /// Whether long strings are compressed (`rdbcompression`).
    pub compresses: bool,
    /// Whether it ends with a checksum (`rdbchecksum`).
    pub has_checksum: bool,
    /// Whether it is the base of an append-only file.
    pub is_base: bool,
    /// Whether it has Valkey's own version of the format, which alone has hashes whose fields
    /// expire for a Valkey.
    pub is_for_valkey: bool,
    /// Returns, after the cut, the place of the data in a stream for replicas.
    pub stream: &'o (dyn Fn() -> Option<StreamPoint> + Sync),
    /// The backend that serves the data, for readers of the file.
    pub backend: &'o str,
    /// Whether clients are served meanwhile, so that most of the processor is left to them: one
    /// thread saves for each four that serve, where otherwise as many save as serve.
    pub is_background: bool,
    /// Makes an empty file for a part of a large value. One thread calls it at a time.
    pub spool: &'o (dyn Fn() -> io::Result<Box<dyn Spool>> + Sync),
    /// Called after each key with the number of keys so far; returns whether to go on.
    pub go_on: &'o (dyn Fn(u64) -> bool + Sync),
}

/// Why a dump was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// Writing it failed.
    #[error("{0}")]
    Write(#[from] io::Error),
    /// As many snapshots as allowed are being read, or a script runs long.
    #[error("too many snapshots of the data are being read, or a script runs long")]
    Busy,
    /// The snapshot cost too much.
    #[error(transparent)]
    Snapshot(#[from] SnapshotLost),
    /// It was given up.
    #[error("it was given up")]
    GivenUp,
}
