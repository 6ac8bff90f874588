//! The journal of a pool with several threads at once: writers, the two background threads that
//! sync and apply, a reader that queries what is durable, and one that copies the files.
//!
//! They run under the deterministic scheduler, which may choose another thread at each lock and
//! each call of the two simulated files. The calls take simulated time, and one of them may fail.
//! What a power loss or the end of the process leaves at each moment is opened, and compared with a
//! model in memory that knows nothing of rings, batches and blocks: so the model need not change
//! with their format.

#![allow(unsafe_code, reason = "stores into a region are unsafe")]
#![allow(dead_code, reason = "no program uses all of it")]

pub(crate) mod crashes;
pub(crate) mod late_syncs;
pub(crate) mod model;
pub(crate) mod paced;
pub(crate) mod pool;
pub(crate) mod threads;
