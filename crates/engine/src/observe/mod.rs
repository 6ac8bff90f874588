//! Observation of commands as they are executed.
//!
//! - [`state`]: slow log, latencies, histograms, clients in MONITOR mode, pauses.
//! - [`stats`]: how often commands were called, and failed.
//! - [`hooks`]: records of each execution.
//! - [`monitors`]: lines for clients in MONITOR mode.

pub mod hooks;
pub mod monitors;
pub mod state;
pub mod stats;
