//! Observation of commands as they are executed.
//!
//! - [`state`]: what is kept: slow log, latencies, histograms, who monitors, pauses.
//! - [`stats`]: how often commands were called, and failed.
//! - [`hooks`]: what is recorded of each execution.
//! - [`monitors`]: clients that monitor.

pub mod hooks;
pub mod monitors;
pub mod state;
pub mod stats;
