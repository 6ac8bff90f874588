//! The read cache: copies in DRAM of bytes that are often read from a slower medium.
//!
//! Each shard has its own, under its lock: reading, adding or removing a copy requires the lock, so
//! that for everybody else a commit and the invalidation of stale copies are one step. The cache is
//! off by default; then it costs one branch for each read and commit.
//!
//! A copy belongs to a *block*: it is the bytes that one block holds after its words. Names belong
//! to the layer above: a key that is renamed, moved to another database or swapped with it keeps
//! its block; a key that is overwritten, deleted, expired, evicted or defragmented leaves it. So
//! the heap knows what makes a copy stale, whatever the reason: a commit that changes a word of the
//! block, appends to it, frees it, or publishes it again. Every commit knows these blocks.
//!
//! Changes of an open transaction are neither served from the cache nor added to it: a transaction
//! that has changed anything in a shard bypasses the shard's cache. So a rollback has nothing to
//! undo here.
//!
//! Snapshots and readers with a pin bypass it too.

use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use rustc_hash::FxBuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum length of a copy: longer ones would push out many others, and are read in long
/// sequential runs, at which a slow medium is best.
const LONGEST: usize = 32 << 10;
/// A copy takes at most this fraction of a shard's budget; the cache rejects copies that do not fit
/// into its hot part.
const PART: u64 = 8;
/// DRAM that a copy takes in addition to its bytes: its slots in the table and in the queue, and
/// the allocator's overhead.
const OVERHEAD: u64 = 96;
/// Expected size of a copy, for the initial size of the tables; they grow.
const EXPECTED: u64 = 4 << 10;

/// Statistics of the read caches of all shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCacheStats {
    /// The number of bytes that they may take; 0 if disabled.
    pub size: u64,
    /// The maximum length in bytes of a copy.
    pub longest: usize,
    /// About how many bytes they take.
    pub bytes: u64,
    /// The number of copies.
    pub entries: u64,
    /// Reads that found a copy.
    pub hits: u64,
    /// Reads that found none, of lengths that are cached.
    pub misses: u64,
    /// Copies that were evicted for others.
    pub evictions: u64,
}

/// Counts of one shard. The holder of its lock writes them; anybody may read.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    bytes: AtomicU64,
    entries: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

fn subtract(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_sub(n), Relaxed);
}

impl Counts {
    /// Adds these counts to the totals of all shards.
    pub(super) fn add_to(&self, stats: &mut ReadCacheStats) {
        stats.bytes += self.bytes.load(Relaxed);
        stats.entries += self.entries.load(Relaxed);
        stats.hits += self.hits.load(Relaxed);
        stats.misses += self.misses.load(Relaxed);
        stats.evictions += self.evictions.load(Relaxed);
    }

    /// Sets the counts of hits, misses and evictions to zero.
    pub(super) fn reset(&self) {
        for count in [&self.hits, &self.misses, &self.evictions] {
            count.store(0, Relaxed);
        }
    }

    fn came(&self, copy: &[u8]) {
        add(&self.entries, 1);
        add(&self.bytes, weight(copy));
    }

    fn went(&self, copy: &[u8]) {
        subtract(&self.entries, 1);
        subtract(&self.bytes, weight(copy));
    }
}

fn weight(copy: &[u8]) -> u64 {
    copy.len() as u64 + OVERHEAD
}

#[derive(Clone)]
struct Weight;

impl Weighter<u64, Box<[u8]>> for Weight {
    fn weight(&self, _block: &u64, copy: &Box<[u8]>) -> u64 {
        weight(copy)
    }
}

/// Counts the copies that are evicted.
struct Evictions(Arc<Counts>);

impl quick_cache::Lifecycle<u64, Box<[u8]>> for Evictions {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), _block: u64, copy: Box<[u8]>) {
        self.0.went(&copy);
        add(&self.0.evictions, 1);
    }
}

/// The copies of one shard, by the start of their block.
#[derive(Debug)]
pub(crate) struct ReadCache {
    copies: Cache<u64, Box<[u8]>, Weight, FxBuildHasher, Evictions>,
    budget: u64,
    counts: Arc<Counts>,
}

/// Returns the maximum length of a copy for a shard with this budget.
pub(super) fn longest(budget: u64) -> usize {
    (budget / PART).saturating_sub(OVERHEAD).min(LONGEST as u64) as usize
}

impl ReadCache {
    pub(super) fn new(budget: u64, counts: &Arc<Counts>) -> ReadCache {
        let expected = (budget / EXPECTED).max(1) as usize;
        let evictions = Evictions(Arc::clone(counts));
        let copies = Cache::with(expected, budget, Weight, FxBuildHasher, evictions);
        ReadCache { copies, budget, counts: Arc::clone(counts) }
    }

    /// Returns the number of bytes that the copies may take.
    pub(super) fn budget(&self) -> u64 {
        self.budget
    }

    /// Returns true if bytes of this length are cached.
    #[inline]
    pub(super) fn keeps(&self, len: usize) -> bool {
        len <= longest(self.budget)
    }

    /// Returns the `len` bytes of a block: a copy if there is one, else the result of `read`, which
    /// is cached if it is `sound` and `may_keep` allows it. `None` if it is not sound.
    #[inline]
    pub(super) fn bytes<'c>(
        &'c mut self,
        block: u64,
        len: usize,
        read: impl FnOnce() -> &'c [u8],
        sound: impl FnOnce(&[u8]) -> bool,
        may_keep: impl FnOnce() -> bool,
    ) -> Option<&'c [u8]> {
        match self.copies.get_ref_or_guard(&block) {
            Ok(copy) if copy.len() == len => {
                add(&self.counts.hits, 1);
                Some(copy)
            }
            Ok(_) => Some(read()).filter(|bytes| sound(bytes)),
            Err(vacant) => {
                add(&self.counts.misses, 1);
                let bytes = read();
                let copy: Box<[u8]> = bytes.into();
                if !sound(&copy) {
                    return None;
                }
                if copy.len() == len && may_keep() {
                    self.counts.came(&copy);
                    vacant.insert(copy);
                }
                Some(bytes)
            }
        }
    }

    /// Removes the copy of a block.
    pub(super) fn forget(&mut self, block: u64) {
        if let Some((_, copy)) = self.copies.remove(&block) {
            self.counts.went(&copy);
        }
    }
}

impl Drop for ReadCache {
    fn drop(&mut self) {
        self.counts.entries.store(0, Relaxed);
        self.counts.bytes.store(0, Relaxed);
    }
}
