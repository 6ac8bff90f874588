//! Making room: Redis's eviction policies over a sampled pool of candidates.

/// Which keys go when memory is short.
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
    /// Whether frequencies are kept in place of access times.
    pub fn is_lfu(self) -> bool {
        matches!(self, Policy::AllkeysLfu | Policy::VolatileLfu)
    }
}

/// How room is made; Redis's directives of the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Bytes that the heap's blocks may take; 0 for no limit but the heap's own.
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

impl Default for Eviction {
    fn default() -> Eviction {
        Eviction {
            maxmemory: 0,
            policy: Policy::NoEviction,
            samples: 5,
            lfu_log_factor: 10,
            lfu_decay_time: 1,
        }
    }
}
