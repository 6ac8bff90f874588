//! Copies in DRAM of bytes that are read often from a medium that is slower: the read cache.
//!
//! Each shard has one of its own, after its lock: who reads, keeps or forgets a copy holds the
//! lock, so that a commit and the end of the copies that it makes stale are one step for everybody
//! else. It is off unless somebody asks for it; then it costs one branch a read and one a commit.
//!
//! A copy belongs to a *block*: the bytes that one block holds after its words. Names are above
//! this: a key that is renamed, moved to another database or swapped with it keeps its block, and
//! one that is overwritten, deleted, expired, evicted or defragmented leaves it. So what makes a
//! copy stale is known here, whatever the reason: a commit that changes a word of the block,
//! appends to it, frees it, or publishes it again. Every commit says which blocks those are.
//!
//! What an open transaction changed is neither served nor kept: a transaction that has changed
//! anything in a shard reads past the shard's cache. Hence a rollback has nothing to take back.
//!
//! A snapshot and a reader with a pin read past it, too.

use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use rustc_hash::FxBuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Longer bytes are not kept: they would push out many others, and are read in long strides, which
/// a slow medium is best at.
const LONGEST: usize = 32 << 10;
/// A copy is at most this part of a shard's budget; the cache refuses what does not fit into its
/// hot part.
const PART: u64 = 8;
/// DRAM that a copy takes in addition to its bytes: its place in the table and in the queue, and
/// the allocator's.
const OVERHEAD: u64 = 96;
/// What a copy is expected to take when the tables are made; they grow.
const EXPECTED: u64 = 4 << 10;

/// What the read caches of all shards did, and hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCacheStats {
    /// Bytes that they may take; 0 when there are none.
    pub size: u64,
    /// The longest bytes that are kept.
    pub longest: usize,
    /// Bytes that they take, about.
    pub bytes: u64,
    /// Copies that they hold.
    pub entries: u64,
    /// Reads that found a copy.
    pub hits: u64,
    /// Reads that found none and might have.
    pub misses: u64,
    /// Copies that were evicted for others.
    pub evictions: u64,
}

/// Counts of one shard. Whoever holds its lock writes; anybody reads.
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
    /// Adds these counts to those of all shards.
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

/// Returns the longest bytes that a shard with this budget keeps.
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

    /// Returns true if bytes of this length are kept.
    #[inline]
    pub(super) fn keeps(&self, len: usize) -> bool {
        len <= longest(self.budget)
    }

    /// Returns the `len` bytes of a block: a copy if there is one, else those that `read` returns,
    /// which are kept if they are `sound` and `may_keep` allows it. None if they are not sound.
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

    /// Forgets the copy of a block.
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
