//! The state of administration between commands: slow log, latency samples, histograms, clients in
//! MONITOR mode, and whether clients are paused.
//!
//! Everything here is shared by all threads. A command costs a handful of relaxed loads; locks are
//! taken only for slow or monitored commands and for queries.

mod histogram;
mod latency;
mod monitors;
mod pause;
mod slow_log;

use std::sync::atomic::{AtomicBool, AtomicU64};

use histogram::Histograms;
use monitors::Monitors;
use pause::Pauses;

pub use latency::{Sample, Series};

pub use latency::Latency;
pub use pause::Hold;
pub(crate) use pause::Paused;
pub use slow_log::SlowBlock;
pub use slow_log::SlowLog;

/// State of the administrative commands of an engine.
pub struct State {
    /// Slow commands.
    pub slow_log: SlowLog,
    /// Commands with large requests.
    pub large_requests: SlowLog,
    /// Commands with large replies.
    pub large_replies: SlowLog,
    /// Samples of slow events.
    pub latency: Latency,
    /// Latencies of each command.
    pub histograms: Histograms,
    pub(crate) monitors: Monitors,
    /// Whether latency histograms are kept (`latency-tracking`).
    pub tracking: AtomicBool,
    pauses: Pauses,
    /// Unix seconds of the last save, or of the start before there is one.
    pub last_save_s: AtomicU64,
    /// Bytes that the process took before it served clients, if they count as used.
    pub startup_memory: AtomicU64,
}

impl State {
    /// Makes the state for this many commands and threads.
    pub fn new(commands: usize, threads: usize, now_ms: u64) -> State {
        State {
            slow_log: SlowLog::default(),
            large_requests: SlowLog::of_sizes(),
            large_replies: SlowLog::of_sizes(),
            latency: Latency::default(),
            histograms: Histograms::new(commands, threads),
            monitors: Monitors::default(),
            tracking: AtomicBool::new(true),
            pauses: Pauses::default(),
            last_save_s: AtomicU64::new(now_ms / 1000),
            startup_memory: AtomicU64::new(0),
        }
    }
}
