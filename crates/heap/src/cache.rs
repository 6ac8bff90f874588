//! Copies in DRAM of bytes that are read often from a medium that is slower: the read cache.
//!
//! Each shard has one of its own, behind its lock: who reads, keeps or forgets a copy holds the lock, so that a commit
//! and the end of the copies that it makes stale are one step for everybody else. It is off unless somebody asks for it;
//! then it costs one branch a read and one a commit.
//!
//! A copy belongs to a *block*: the bytes that one block holds behind its words. Names are above this: a key that is
//! renamed, moved to another database or swapped with it keeps its block, and one that is overwritten, deleted, expired,
//! evicted or defragmented leaves it. So what makes a copy stale is known here, whatever the reason: a commit that
//! changes a word of the block, appends to it, frees it, or publishes it anew. Every commit says which blocks those are.
//!
//! What an open transaction changed is neither served nor kept: a transaction that has changed anything in a shard
//! reads past the shard's cache. Hence a rollback has nothing to take back.
//!
//! A snapshot and a reader with a pin read past it, too.

#![allow(unsafe_code, reason = "published bytes are read")]

use crate::heap::Heap;
use crate::ptr::Ptr;
use crate::shard::Shard;
use crate::state::State;
use crate::step::Step;
use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use rustc_hash::FxBuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Longer bytes are not kept: they would push out many others, and are read in long strides, which a slow medium is
/// best at.
const LONGEST: usize = 32 << 10;
/// A copy is at most this part of a shard's budget; the cache refuses what does not fit into its hot part.
const PART: u64 = 8;
/// DRAM that a copy takes beside its bytes: its place in the table and in the queue, and the allocator's.
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
    /// Copies that made room for others.
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

/// Counts the copies that make room.
struct Evictions(Arc<Counts>);

impl quick_cache::Lifecycle<u64, Box<[u8]>> for Evictions {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), _block: u64, copy: Box<[u8]>) {
        self.0.went(&copy);
        add(&self.0.evictions, 1);
    }
}

/// The copies of one shard, by the begin of their block.
#[derive(Debug)]
pub(crate) struct ReadCache {
    copies: Cache<u64, Box<[u8]>, Weight, FxBuildHasher, Evictions>,
    budget: u64,
    counts: Arc<Counts>,
}

/// The longest bytes that a shard with this budget keeps.
fn longest(budget: u64) -> usize {
    (budget / PART).saturating_sub(OVERHEAD).min(LONGEST as u64) as usize
}

impl ReadCache {
    fn new(budget: u64, counts: &Arc<Counts>) -> ReadCache {
        let expected = (budget / EXPECTED).max(1) as usize;
        let evictions = Evictions(Arc::clone(counts));
        let copies = Cache::with(expected, budget, Weight, FxBuildHasher, evictions);
        ReadCache { copies, budget, counts: Arc::clone(counts) }
    }

    fn forget(&mut self, block: u64) {
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

impl Heap {
    /// Lets all shards together keep copies of up to `bytes` in DRAM; 0 keeps none. A shard that is locked now follows
    /// when it is locked next; a shard whose share changes begins with none.
    pub fn set_read_cache(&self, bytes: u64) {
        if self.read_cache.swap(bytes, Relaxed) != bytes {
            for shard in 0..self.shards() {
                self.ask_next_holder(shard);
                drop(self.try_lock(shard));
            }
        }
    }

    /// What the read caches of all shards did and hold. Takes no lock.
    pub fn read_cache_stats(&self) -> ReadCacheStats {
        let size = self.read_cache.load(Relaxed);
        let longest = longest(self.read_cache_share());
        let mut stats = ReadCacheStats { size, longest, ..ReadCacheStats::default() };
        for slot in &self.slots {
            stats.bytes += slot.cached.bytes.load(Relaxed);
            stats.entries += slot.cached.entries.load(Relaxed);
            stats.hits += slot.cached.hits.load(Relaxed);
            stats.misses += slot.cached.misses.load(Relaxed);
            stats.evictions += slot.cached.evictions.load(Relaxed);
        }
        stats
    }

    /// Counts hits, misses and evictions anew.
    pub fn reset_read_cache_stats(&self) {
        for counts in self.slots.iter().map(|slot| &slot.cached) {
            for count in [&counts.hits, &counts.misses, &counts.evictions] {
                count.store(0, Relaxed);
            }
        }
    }

    fn read_cache_share(&self) -> u64 {
        self.read_cache.load(Relaxed) / self.shards() as u64
    }
}

impl Shard<'_> {
    /// Whether there is a read cache.
    #[inline]
    pub fn has_read_cache(&self) -> bool {
        self.state.cache.is_some()
    }

    /// Bytes `from..from + len` of a block of this shard, behind its words: a copy in DRAM if there is one, else those in
    /// the pool, which are kept if they are `sound`. None if they are not.
    ///
    /// Of one block always the same bytes, from its published ones: what lies there is the block's alone.
    pub fn bytes_by_cache(
        &mut self,
        block: Ptr,
        from: usize,
        len: usize,
        sound: impl FnOnce(&[u8]) -> bool,
    ) -> Option<&[u8]> {
        let heap = self.heap();
        let State { cache, tx, .. } = &mut *self.state;
        let read = || {
            // SAFETY: published bytes of a block change only through this guard, by methods that borrow it mutably, so not
            // while the slice lives.
            unsafe { heap.region.bytes(block.raw() + from as u64, len) }
        };
        let Some(cache) = cache.as_mut().filter(|c| len <= longest(c.budget) && !tx.is_dirty())
        else {
            return Some(read()).filter(|bytes| sound(bytes));
        };
        match cache.copies.get_ref_or_guard(&block.raw()) {
            Ok(copy) if copy.len() == len => {
                add(&cache.counts.hits, 1);
                Some(copy)
            }
            Ok(_) => Some(read()).filter(|bytes| sound(bytes)),
            Err(room) => {
                add(&cache.counts.misses, 1);
                let bytes = read();
                let copy: Box<[u8]> = bytes.into();
                if !sound(&copy) {
                    return None;
                }
                // What the medium lost reads as zeros until that is looked into.
                if copy.len() == len && !heap.region.is_unsettled() {
                    cache.counts.came(&copy);
                    room.insert(copy);
                }
                Some(bytes)
            }
        }
    }
}

/// Forgets the copies of all blocks that the open transaction, which is in effect now, changes in any way.
#[inline]
pub(crate) fn forget_changed(state: &mut State) {
    if state.cache.is_some() && Step::ForgetCached.done() {
        forget_all_changed(state);
    }
}

#[cold]
fn forget_all_changed(state: &mut State) {
    let State { tx, alloc, cache: Some(cache), .. } = state else { return };
    tx.freed.iter().for_each(|freed| cache.forget(freed.place.at));
    tx.reserved.iter().for_each(|reserved| cache.forget(reserved.place.at));
    let words = tx.staged.iter().map(|(at, _)| at);
    let appended = tx.appended.iter().map(|range| range.at);
    words.chain(appended).filter_map(|at| alloc.block_begin(at)).for_each(|at| cache.forget(at));
}

/// Gives a shard the cache that is asked for.
pub(crate) fn resize(heap: &Heap, shard: usize, state: &mut State) {
    let share = heap.read_cache_share();
    if state.cache.as_ref().map_or(0, |cache| cache.budget) != share {
        // The old one goes first: both count in the same place.
        state.cache = None;
        let counts = &heap.slots[shard].cached;
        state.cache = (share > 0).then(|| Box::new(ReadCache::new(share, counts)));
    }
}
