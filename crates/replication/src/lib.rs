//! Redis's replication (PSYNC): what a primary and its replicas say to each other.
//!
//! A primary appends what changed its data to a stream of commands, in Redis's protocol. A byte's
//! distance from the beginning of the history is its *offset*; a history has an [`Id`]. A replica
//! that was away asks for the stream from its own offset on, under the ID that it knows. If the
//! primary still has these bytes it continues, else it sends a dump and the stream after it.
//!
//! - [`id`]: the name of a history.
//! - [`handshake`], [`dump`], [`commands`]: the replica's side of the link, in the order of their
//!   use, over the traits of `std::io`.
//!
//! This crate must not know sockets, clocks, threads, or what a command means.
#![forbid(unsafe_code)]

mod buffer;
pub mod commands;
pub mod dump;
pub mod handshake;
pub mod id;
mod line;
mod mark;

pub use id::Id;
