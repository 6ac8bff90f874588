//! The threads of the server.
//!
//! - `worker`, `workers`: those that serve connections.
//! - `jobs`: those for commands that take long.
//! - `periodic`: the periodic work of the workers, in `contained` steps.
//! - `housekeeping`: the thread for periodic work that may block.

pub(crate) mod contained;
pub(crate) mod housekeeping;
pub(crate) mod jobs;
pub(crate) mod periodic;
pub(crate) mod worker;
pub(crate) mod workers;
