//! What a shard counted since the start, in DRAM.

/// Counts since the start or the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Keys deleted because their time had come.
    pub expired: u64,
    /// Keys deleted to make room.
    pub evicted: u64,
}
