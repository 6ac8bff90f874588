//! The state of administration between commands: slow log, latency samples, histograms, clients in
//! MONITOR mode, and whether clients are paused.
//!
//! Everything here is shared by all threads. A command costs a handful of relaxed loads; locks are
//! taken only for slow or monitored commands and for queries.

mod histogram;
mod latency;
mod monitors;
mod slow_log;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use histogram::Histograms;
use monitors::Monitors;

pub use latency::{Sample, Series};

pub use latency::Latency;
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
    pause_until_ms: AtomicU64,
    pub(crate) pause_all: AtomicBool,
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
            pause_until_ms: AtomicU64::new(0),
            pause_all: AtomicBool::new(false),
            last_save_s: AtomicU64::new(now_ms / 1000),
            startup_memory: AtomicU64::new(0),
        }
    }

    /// Returns the end of the pause of clients, unix ms; 0 if there is none.
    pub fn paused_until_ms(&self) -> u64 {
        self.pause_until_ms.load(Relaxed)
    }

    /// Pauses clients. A running pause is only ever made longer and stricter.
    pub fn pause(&self, until_ms: u64, all: bool) {
        self.pause_until_ms.fetch_max(until_ms, Relaxed);
        self.pause_all.fetch_or(all, Relaxed);
    }

    /// Ends a pause.
    pub fn unpause(&self) {
        self.pause_until_ms.store(0, Relaxed);
        self.pause_all.store(false, Relaxed);
    }
}
