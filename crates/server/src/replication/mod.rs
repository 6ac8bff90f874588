//! This server as a primary, and as a replica.
//!
//! - `primary_target`, `primary_link`: the server that this one follows, and the link to it.
//! - `replicas`, `last_replicas`: the periodic work for replicas, and the wait for them at the end.
//! - `position`, `ring_file`: the place in the stream, and the end of the stream, over a restart.

pub(crate) mod last_replicas;
pub(crate) mod position;
pub(crate) mod primary_link;
pub(crate) mod primary_target;
pub(crate) mod replicas;
pub(crate) mod ring_file;
