//! What replies wait for, and the append-only file.
//!
//! - `commit_barrier`: where replies wait until the log is settled.
//! - `append_only`, `append_only_watch`: the append-only file, and checks that it is still there.
//! - `unsynced`: the age of the oldest write that a power loss would take.

pub(crate) mod append_only;
pub(crate) mod append_only_watch;
pub(crate) mod commit_barrier;
pub(crate) mod unsynced;
