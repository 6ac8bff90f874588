//! The mean time to live of the keys of a database, as INFO's `avg_ttl` tells it.
//!
//! As in Redis it is a running estimate: what a step of active expiry sees counts for 2 %. So it
//! takes part in no read or write, and costs a step one addition for each key that it looks at.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The estimate for one database in one shard, in milliseconds; 0 before the first step.
#[derive(Default)]
pub(crate) struct MeanTtl(AtomicU64);

impl MeanTtl {
    /// Takes in what a step saw: the sum of the times to live of this many keys. Steps of a shard
    /// have its lock.
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
