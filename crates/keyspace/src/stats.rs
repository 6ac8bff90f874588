//! Counters of a shard, in DRAM.
//!
//! Only the holder of the shard's lock counts, so a plain load and store is enough; any thread may
//! read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts since the start or the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Keys that were deleted because they had expired.
    pub expired: u64,
    /// Fields of hashes that were deleted because they had expired.
    pub expired_fields: u64,
    /// Keys that were evicted to make space.
    pub evicted: u64,
    /// Values, of deleted or replaced keys, that were freed in the background.
    pub lazily_freed: u64,
    /// Values that are still to be freed in the background. Not reset.
    pub lazy_free_pending: u64,
}

#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Relaxed);
    }

    /// Returns the count, and resets it to zero.
    pub(crate) fn take(&self) -> u64 {
        let counted = self.get();
        self.reset();
        counted
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) expired: Counter,
    pub(crate) expired_fields: Counter,
    pub(crate) evicted: Counter,
    pub(crate) lazily_freed: Counter,
    pub(crate) lazy_free_pending: Counter,
}

impl Counters {
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        stats.hits += self.hits.get();
        stats.misses += self.misses.get();
        stats.expired += self.expired.get();
        stats.expired_fields += self.expired_fields.get();
        stats.evicted += self.evicted.get();
        stats.lazily_freed += self.lazily_freed.get();
        stats.lazy_free_pending += self.lazy_free_pending.get();
    }

    pub(crate) fn reset(&self) {
        let keys = [&self.hits, &self.misses, &self.expired, &self.evicted];
        let parts = [&self.expired_fields, &self.lazily_freed];
        keys.into_iter().chain(parts).for_each(Counter::reset);
    }
}
