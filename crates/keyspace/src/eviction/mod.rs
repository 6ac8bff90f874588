//! The basis of eviction decisions: Redis's policies, the uses of keys, and sampled
//! candidates. `evict` makes space with them.

pub(crate) mod access;
use crate::Db;

/// Which keys are evicted when memory is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// None: writes are refused.
    #[default]
    NoEviction,
    /// The least recently used of all keys.
    AllkeysLru,
    /// The least recently used of the keys with an expiry time.
    VolatileLru,
    /// The least frequently used of all keys.
    AllkeysLfu,
    /// The least frequently used of the keys with an expiry time.
    VolatileLfu,
    /// Any key.
    AllkeysRandom,
    /// Any key with an expiry time.
    VolatileRandom,
    /// The key that expires first.
    VolatileTtl,
}

impl Policy {
    /// Returns true if the policy needs frequencies instead of access times.
    pub fn is_lfu(self) -> bool {
        matches!(self, Policy::AllkeysLfu | Policy::VolatileLfu)
    }

    /// Returns true if the policy decides by access times or frequencies.
    pub fn is_by_access(self) -> bool {
        self.is_lfu() || matches!(self, Policy::AllkeysLru | Policy::VolatileLru)
    }

    /// Returns true if only keys with an expiry time may be evicted.
    pub fn is_volatile(self) -> bool {
        matches!(
            self,
            Policy::VolatileLru
                | Policy::VolatileLfu
                | Policy::VolatileRandom
                | Policy::VolatileTtl
        )
    }
}

/// How space is made: the settings of Redis's directives of the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Bytes that may be in use, by the heap's blocks and by the memory outside the heap that
    /// counts toward the limit; 0 for no limit other than the heap's own.
    pub maxmemory: u64,
    /// `maxmemory-policy`
    pub policy: Policy,
    /// `maxmemory-samples`
    pub samples: u32,
    /// `lfu-log-factor`
    pub lfu_log_factor: u32,
    /// `lfu-decay-time`, in minutes
    pub lfu_decay_time: u32,
}

impl Eviction {
    /// Redis's defaults.
    pub const DEFAULT: Eviction = Eviction {
        maxmemory: 0,
        policy: Policy::NoEviction,
        samples: 5,
        lfu_log_factor: 10,
        lfu_decay_time: 1,
    };
}

impl Default for Eviction {
    fn default() -> Eviction {
        Eviction::DEFAULT
    }
}

impl Eviction {
    /// Returns the number of bytes that blocks may take in a heap with this limit.
    pub(crate) fn eviction_limit(&self, heap_limit: u64) -> u64 {
        // Blocks of one size are no use for another size: this leaves the allocator some space.
        let evict_from = heap_limit - heap_limit / 16;
        match (self.maxmemory, self.policy) {
            (0, Policy::NoEviction) => u64::MAX,
            (0, _) => evict_from,
            (max, Policy::NoEviction) => max,
            (max, _) => max.min(evict_from),
        }
    }
}

/// The number of candidates that are kept in a shard; Redis's `EVPOOL_SIZE`.
const KEPT: usize = 16;

pub(crate) struct Candidate {
    /// The candidate with the highest score is evicted first.
    pub(crate) score: u64,
    pub(crate) db: Db,
    pub(crate) key: Box<[u8]>,
}

/// The best candidates sampled so far in a shard; the best one is last.
#[derive(Default)]
pub(crate) struct Candidates {
    candidates: Vec<Candidate>,
}

impl Candidates {
    pub(crate) fn add_candidate(&mut self, score: u64, db: Db, key: &[u8]) {
        if self.candidates.iter().any(|c| c.db == db && *c.key == *key) {
            return;
        }
        let at = self.candidates.partition_point(|c| c.score < score);
        if self.candidates.len() == KEPT {
            if at == 0 {
                return;
            }
            self.candidates.remove(0);
            self.candidates.insert(at - 1, Candidate { score, db, key: key.into() });
        } else {
            self.candidates.insert(at, Candidate { score, db, key: key.into() });
        }
        debug_assert!(self.candidates.len() <= KEPT);
        debug_assert!(self.candidates.is_sorted_by_key(|c| c.score), "the best one is last");
    }

    pub(crate) fn take(&mut self) -> Option<Candidate> {
        self.candidates.pop()
    }

    pub(crate) fn clear(&mut self) {
        self.candidates.clear();
    }
}

/// A small random number generator for one step.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}
