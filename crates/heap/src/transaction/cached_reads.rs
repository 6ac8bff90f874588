//! Reading through the read cache, its size and its statistics.

#![allow(unsafe_code, reason = "published bytes are read")]

use super::heap::Heap;
use super::read_cache::{ReadCacheStats, longest};
use super::shard::Shard;
use super::shard_waits::ANY_TURN;
use super::state::ShardState;
use crate::ptr::Ptr;
use std::sync::atomic::Ordering::Relaxed;

impl Heap {
    /// Sets how many bytes all shards together may keep as copies in DRAM; 0 disables the cache. A
    /// shard that is locked now follows when it is next locked; a shard whose share changes starts
    /// with an empty cache.
    pub fn set_read_cache(&self, bytes: u64) {
        if self.read_cache.swap(bytes, Relaxed) != bytes {
            for shard in 0..self.shards() {
                self.defer_to_next_holder(shard);
                drop(self.try_lock_state(shard, ANY_TURN));
            }
        }
    }

    /// Returns statistics of the read caches of all shards. Takes no lock.
    pub fn read_cache_stats(&self) -> ReadCacheStats {
        let size = self.read_cache.load(Relaxed);
        let longest = longest(self.read_cache_share());
        let mut stats = ReadCacheStats { size, longest, ..ReadCacheStats::default() };
        for slot in &self.slots {
            slot.cached.add_to(&mut stats);
        }
        stats
    }

    /// Resets the counts of hits, misses and evictions.
    pub fn reset_read_cache_stats(&self) {
        self.slots.iter().for_each(|slot| slot.cached.reset());
    }
}

impl Shard<'_> {
    /// Returns true if there is a read cache, and the shard reads the present state, not a
    /// snapshot.
    #[inline]
    pub fn has_read_cache(&self) -> bool {
        self.state.cache.is_some() && self.state.as_of.is_none()
    }

    /// Returns bytes `from..from + len` of a block of this shard, after its words: from a copy in
    /// DRAM if there is one, else from the pool. Bytes from the pool are cached if they are
    /// `sound`; `None` if they are not.
    ///
    /// Every call for a block must ask for the same range, and the range must be published: the
    /// cache holds one range for each block.
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
        // Lost bytes read as zeros until the loss is resolved.
        cache.bytes(block.raw(), len, read, sound, || !heap.region.has_unresolved_losses())
    }
}
