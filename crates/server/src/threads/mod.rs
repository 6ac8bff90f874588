//! The threads of the server.
//!
//! - `worker`, `workers`: those that serve connections.
//! - `jobs`: those for commands that take long.
//! - `housekeeping`: periodic work.

pub(crate) mod housekeeping;
pub(crate) mod jobs;
pub(crate) mod worker;
pub(crate) mod workers;
