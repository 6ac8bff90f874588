//! This server as a node of a Redis Cluster.
//!
//! The rules are those of the crate `cluster`, whose machine is owned by one task, on a thread of
//! its own: it may wait for the disk that has the node's file. Everything that happens to the node
//! comes to that task through channels; commands wait there for their answers. What the task must
//! not wait for, such as a change of this server's role, another thread does.
//!
//! - `settings`: what the directives say.
//! - `file`: the node's file.
//! - `links`: connections to other nodes; `unsent`: what waits on them.
//! - `roles`: replicating, being a primary again, pausing writes.
//! - `drop_slots`: deleting the keys of slots that other nodes have.
//! - `pulse`: what is done when the task does not get on.
//! - `bus`: the task.
//! - `node`: the handle by which others reach it.
//! - `start`, `error`: making this server a node, and why that fails.

mod bus;
mod drop_slots;
mod error;
mod file;
mod links;
pub(crate) mod node;
mod pulse;
mod roles;
mod settings;
mod start;
mod unsent;

pub use error::ClusterError;
pub(crate) use start::{OpenNode, open};
