//! The progress of the scrub, for INFO.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use commands::admin::ScrubFacts;

/// Counters of the scrub, its only writer.
#[derive(Default)]
pub(crate) struct ScrubProgress {
    pub(crate) running: AtomicBool,
    pub(crate) shard: AtomicU64,
    pub(crate) passes: AtomicU64,
    pub(crate) last_ms: AtomicU64,
    pub(crate) keys: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) found: AtomicU64,
}

impl ScrubProgress {
    pub(crate) fn facts(&self, shards: usize, rate: u64) -> ScrubFacts {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        ScrubFacts {
            rate,
            running: self.running.load(Relaxed),
            percent: get(&self.shard) * 100 / shards.max(1) as u64,
            passes: get(&self.passes),
            last_pass_ms: get(&self.last_ms),
            keys: get(&self.keys),
            bytes: get(&self.bytes),
            found: get(&self.found),
        }
    }
}
