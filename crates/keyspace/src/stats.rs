//! What a shard counted since the start, in DRAM.
//!
//! Only whoever holds the shard's lock counts, so a plain load and store is enough; anybody may
//! read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts since the start or the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Keys deleted because their time had come.
    pub expired: u64,
    /// Fields of hashes deleted because their time had come.
    pub expired_fields: u64,
    /// Keys deleted to make space.
    pub evicted: u64,
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
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) expired: Counter,
    pub(crate) expired_fields: Counter,
    pub(crate) evicted: Counter,
}

impl Counters {
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        stats.hits += self.hits.get();
        stats.misses += self.misses.get();
        stats.expired += self.expired.get();
        stats.expired_fields += self.expired_fields.get();
        stats.evicted += self.evicted.get();
    }

    pub(crate) fn reset(&self) {
        let all = [&self.hits, &self.misses, &self.expired, &self.expired_fields, &self.evicted];
        all.into_iter().for_each(Counter::reset);
    }
}
