//! A crash-consistent persistent heap.
//!
//! A pool is a file of shards. A shard has a lock, a redo log, roots and blocks of its own. A transaction on a
//! locked shard reserves blocks, fills them, stages changes of words, and commits with one fence: see `commit`.
//! `docs/format/pool.md` has the layout, the invariants and the recovery argument.
//!
//! This crate is the only writer of persistent words. It knows nothing of keys, types or time.

mod ptr;
mod shard;

pub use ptr::{Ptr, View};
pub use shard::*;
