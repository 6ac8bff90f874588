//! Redis's data types as persistent structures over the heap.
//!
//! The caller gives a structure one word. The caller owns that word; the structure owns every block
//! below it. Each change of a structure is part of the transaction that is open on the shard: it
//! becomes durable and visible with that transaction's commit, or not at all. An operation that
//! returns [`heap::Full`] may have staged a part of its changes; the caller rolls the transaction
//! back to its savepoint.
//!
//! No operation touches more than a fixed number of blocks, whatever the structure's size: larger
//! work is done in steps.
//!
//! This crate knows nothing of fences, flushes, keys, types, clocks or clients.

#![forbid(unsafe_code)]

pub mod blob;
pub mod chunks;
mod damaged;
pub mod dict;
mod fault_points;
pub mod index;
pub mod list;
pub mod listpack;
pub mod reclaim;
pub mod self_checksummed;
pub mod sorted_set;
mod store;
pub mod stream;
pub mod tree;

pub use damaged::{Damaged, Error};
pub use fault_points::FaultPoint;
pub use store::{Fill, Store};
