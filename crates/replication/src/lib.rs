//! Redis's replication (PSYNC): what a primary and its replicas say to each other.
//!
//! A primary appends what changed its data to a stream of commands, in Redis's protocol. A byte's
//! distance from the beginning of the history is its *offset*; a history has an [`Id`]. A replica
//! that was away asks for the stream from its own offset on, under the ID that it knows. If the
//! primary still has these bytes it continues, else it sends a dump and the stream after it.
//!
//! - [`id`]: the name of a history.
//! - [`stream`]: the bytes, as many as replicas may still need.
//! - [`ring`]: the end of the stream, on a medium that outlives a primary's process; [`padding`]
//!   takes the place of commands whose commit failed.
//! - [`replicas`]: the replicas of a primary, as its administration sees them.
//! - [`handshake`], [`dump`], [`commands`]: the replica's side of the link, in the order of their
//!   use, over the traits of `std::io`.
//!
//! This crate must not know sockets, clocks, threads, or what a command means.
#![forbid(unsafe_code)]

mod buffer;
pub mod commands;
pub mod dump;
mod fault_points;
pub mod handshake;
pub mod id;
mod line;
mod mark;
pub mod padding;
pub mod replicas;
pub mod ring;
pub mod stream;

#[cfg(feature = "sim")]
pub use fault_points::FaultPoint;
pub use id::Id;
pub use replicas::{Begun, Replica, Replicas, Stage};
pub use stream::{Cursor, Lost, Position, Stream};

/// The command by which a primary asks its replicas how far they are.
pub const GET_ACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";
/// The command by which a primary shows that it is alive.
pub const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
