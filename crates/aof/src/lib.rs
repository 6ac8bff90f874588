//! Redis's append-only file (AOF): the log of commands that makes a keyspace in DRAM survive.
//!
//! The format is that of Redis 7: a directory with a manifest, one base file and incremental files,
//! each a sequence of commands as RESP arrays. A redis-server loads what this crate wrote, and the
//! reverse.
//!
//! - [`Loader`] reads a directory, command by command; [`Loader::into_log`] turns it into an
//!   [`Aof`] for appending. Nothing can be appended to a log that was not read: the only other
//!   constructor, [`Aof::open_off`], returns one that takes nothing before a rewrite has replaced
//!   the old log.
//! - [`Aof`] buffers appended commands, writes them out, makes them durable (group commit), and
//!   fails for good if a second try would prove nothing.
//! - [`Rewrite`] replaces base and increments with a new base, while the log is being appended to.
//!
//! Invariants:
//!
//! - The order of appends is the order in the files.
//! - [`Aof::durable`] never exceeds what a successful fdatasync covered, and a file becomes part of
//!   the manifest only when everything before it is durable: a file that is not the last one is
//!   never cut short.
//! - An appended command is in a file at most once, and no later one is there without it: bytes
//!   that a failed write did not take stay in the buffer and are tried again (`everysec`, `no`).
//! - After a failed sync, and with `always` after a failed write, nothing becomes durable any more.
//!
//! Deliberately absent: the meaning of commands (MULTI, EXEC and SELECT are known by name only),
//! keys, sockets, and the choice of when to rewrite. Files are reached through [`Storage`], so that
//! tests can make them fail.
#![forbid(unsafe_code)]

mod buffer;
pub mod chunks;
mod directory;
mod error;
mod everysec;
mod fault_points;
mod growth;
mod health;
mod load;
mod lock;
mod log;
mod manifest;
mod options;
mod parse;
mod record;
mod rewrite;
mod shared;
mod storage;
mod sync_times;
mod writer;

pub use error::{Failure, LoadError, ManifestError, OpenError, Operation, RewriteError};
#[cfg(feature = "sim")]
pub use fault_points::FaultPoint;
pub use growth::Growth;
pub use load::{Dump, Entry, Loaded, Loader, Progress};
pub use log::{Aof, Figures};
pub use manifest::{Kind, Listed, Manifest};
pub use options::{Fsync, Now, Options};
pub use parse::{Command, Parsed, Parser};
pub use record::{EXEC, MULTI, encode, encode_select};
pub use rewrite::{Rewrite, Rewritten};
pub use storage::{Disk, LogFile, Storage};
pub use sync_times::SYNC_TIMES;
