//! Reading through the read cache, and what is set and counted of it.

#![allow(unsafe_code, reason = "published bytes are read")]

use super::heap::Heap;
use super::read_cache::{ReadCacheStats, longest};
use super::shard::Shard;
use super::shard_waits::ANY_TURN;
use super::state::ShardState;
use crate::ptr::Ptr;
use std::sync::atomic::Ordering::Relaxed;

impl Heap {
    /// Lets all shards together keep copies of up to `bytes` in DRAM; 0 keeps none. A shard that is
    /// locked now follows when it is locked next; a shard whose share changes begins with none.
    pub fn set_read_cache(&self, bytes: u64) {
        if self.read_cache.swap(bytes, Relaxed) != bytes {
            for shard in 0..self.shards() {
                self.defer_to_next_holder(shard);
                drop(self.try_lock_state(shard, ANY_TURN));
            }
        }
    }

    /// Returns what the read caches of all shards did and hold. Takes no lock.
    pub fn read_cache_stats(&self) -> ReadCacheStats {
        let size = self.read_cache.load(Relaxed);
        let longest = longest(self.read_cache_share());
        let mut stats = ReadCacheStats { size, longest, ..ReadCacheStats::default() };
        for slot in &self.slots {
            slot.cached.add_to(&mut stats);
        }
        stats
    }

    /// Counts hits, misses and evictions again.
    pub fn reset_read_cache_stats(&self) {
        self.slots.iter().for_each(|slot| slot.cached.reset());
    }
}

impl Shard<'_> {
    /// Returns true if there is a read cache, and what is read is of now.
    #[inline]
    pub fn has_read_cache(&self) -> bool {
        self.state.cache.is_some() && self.state.as_of.is_none()
    }

    /// Bytes `from..from + len` of a block of this shard, after its words: a copy in DRAM if there
    /// is one, else those in the pool, which are kept if they are `sound`. None if they are not.
    ///
    /// Of one block always the same bytes, from its published ones: what is there is the block's
    /// alone.
    pub fn bytes_by_cache(
        &mut self,
        block: Ptr,
        from: usize,
        len: usize,
        sound: impl FnOnce(&[u8]) -> bool,
    ) -> Option<&[u8]> {
        let heap = self.heap();
        let ShardState { cache, tx, .. } = &mut *self.state;
        let read = || {
            // SAFETY: published bytes of a block change only through this guard, by methods that
            // borrow it mutably, so not while the slice lives.
            unsafe { heap.region.bytes(block.raw() + from as u64, len) }
        };
        let Some(cache) = cache.as_mut().filter(|cache| cache.keeps(len) && !tx.is_dirty()) else {
            return Some(read()).filter(|bytes| sound(bytes));
        };
        // What the medium lost reads as zeros until that is looked into.
        cache.bytes(block.raw(), len, read, sound, || !heap.region.has_unresolved_losses())
    }
}
