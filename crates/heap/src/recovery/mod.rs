//! Brings a pool to the state that its logs describe, after a crash or a clean close. This is the
//! first thing that [`crate::Heap::open`] does.
//!
//! Each shard's log is read (`scan`), the newest records are validated, since they may not have
//! been fenced (`validate`), logs that may have continued in lost bytes are refused (`lost_logs`),
//! and the changes are applied (`replay`). All of it works on the region alone: there is no
//! [`crate::Heap`] yet.

pub(crate) mod lost_logs;
pub(crate) mod replay;
pub(crate) mod scan;
pub(crate) mod validate;
