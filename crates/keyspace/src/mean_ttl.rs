//! The mean time to live of the keys of a database, for INFO's `avg_ttl`.
//!
//! As in Redis it is a running estimate, to which each step of active expiry contributes 2 %. So
//! reads and writes do not maintain it, and a step pays one addition for each key that it examines.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The estimate for one database in one shard, in milliseconds; 0 before the first step.
#[derive(Default)]
pub(crate) struct MeanTtl(AtomicU64);

impl MeanTtl {
    /// Updates the estimate with what a step saw: the sum of the times to live of this many keys.
    /// Each step holds the lock of its shard.
    pub(crate) fn record(&self, sum: u128, keys: u128) {
        let Some(seen) = sum.checked_div(keys).map(|mean| mean as u64) else { return };
        let mean = match self.0.load(Relaxed) {
            0 => seen,
            old => old / 50 * 49 + seen / 50,
        };
        self.0.store(mean, Relaxed);
    }

    /// Returns the estimate.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
