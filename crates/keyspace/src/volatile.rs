//! The state that a shard keeps in DRAM in addition to its persistent words.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use crate::eviction::Candidates;
use crate::eviction::access::AccessTable;
use crate::key::DATABASES;
use crate::mean_ttl::MeanTtl;
use crate::stats::Counters;
use crate::watch::Watches;

/// The DRAM state of a shard. It is kept in `CachePadded`, so that two shards never share a cache
/// line.
pub(crate) struct VolatileShard {
    pub(crate) access: AccessTable,
    pub(crate) counters: Counters,
    pub(crate) watches: Watches,
    /// The number of listeners that want every change to be listed.
    pub(crate) listeners: AtomicUsize,
    /// Candidates for eviction.
    pub(crate) candidates: Mutex<Candidates>,
    /// The cursor from which the search for expired keys continues, per logical database.
    pub(crate) expire_cursors: [AtomicU64; DATABASES],
    /// Mean times to live, per logical database.
    pub(crate) mean_ttls: [MeanTtl; DATABASES],
}

impl VolatileShard {
    pub(crate) fn new(now: u64, seed: u64) -> VolatileShard {
        VolatileShard {
            access: AccessTable::new(now, seed),
            counters: Counters::default(),
            watches: Watches::default(),
            listeners: AtomicUsize::new(0),
            candidates: Mutex::default(),
            expire_cursors: Default::default(),
            mean_ttls: Default::default(),
        }
    }
}
