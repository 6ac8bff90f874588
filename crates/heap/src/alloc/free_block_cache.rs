//! The free-block cache, or magazine, of a shard: blocks that were freed a moment ago and are
//! reserved next.
//!
//! A transaction that overwrites a value frees a block of the size that the next one asks for, and
//! has just read it: its lines are in the CPU cache, and its place is known. So a few such blocks
//! of each class are kept. The alternative, to find the first free block of a span, costs a search,
//! and a store into that block waits for the medium.
//!
//! A cached block stays taken in the copy of its span's bitmap, as a reserved one does: it keeps
//! its span from being released. So few blocks are cached, none of a span that is mostly empty,
//! which a defragmenter may be emptying, and a transaction that frees more than it reserves gives
//! them back ([`super::allocator::BlockAllocator::reuse`]).

use super::place::BlockPlace;
use crate::layout::size_class::{CLASSES, TABLE};

/// The maximum number of cached blocks of a class: as many as a run of commands frees.
const MOST: usize = 16;
/// The largest block that is cached.
const LONGEST: u32 = 512;

/// The cached blocks, by class.
#[derive(Debug)]
pub(crate) struct FreeBlockCache {
    kept: [Vec<BlockPlace>; CLASSES],
}

impl FreeBlockCache {
    pub(crate) fn new() -> FreeBlockCache {
        FreeBlockCache { kept: [const { Vec::new() }; CLASSES] }
    }

    /// Caches a block; returns false if the cache has no space for it.
    #[inline]
    pub(crate) fn keep(&mut self, block: BlockPlace) -> bool {
        let kept = &mut self.kept[block.class as usize];
        let fits = kept.len() < MOST && TABLE[block.class as usize].size <= LONGEST;
        if fits {
            kept.push(block);
        }
        fits
    }

    /// Returns true if a block is cached. A damaged structure that leads to a block twice frees it
    /// twice; it must not be given out twice.
    #[inline]
    pub(crate) fn has(&self, block: &BlockPlace) -> bool {
        self.kept[block.class as usize].iter().any(|kept| kept.at == block.at)
    }

    /// Takes the block of a class that was cached last.
    #[inline(always)]
    pub(crate) fn take(&mut self, class: u8) -> Option<BlockPlace> {
        self.kept[class as usize].pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(class: u8, index: u16) -> BlockPlace {
        BlockPlace { at: u64::from(index) * 64, bitmap: 0, span: 1, index, class, published: true }
    }

    #[test]
    fn the_block_kept_last_is_taken_first_and_few_are_kept() {
        let mut cache = FreeBlockCache::new();
        let kept = (0..100).filter(|&n| cache.keep(block(3, n))).count();
        assert_eq!(kept, MOST);
        assert!(cache.keep(block(4, 7)), "another class has room of its own");
        assert_eq!(cache.take(3), Some(block(3, MOST as u16 - 1)));
        assert_eq!(cache.take(3), Some(block(3, MOST as u16 - 2)));
        assert_eq!(cache.take(5), None);
    }

    #[test]
    fn long_blocks_are_not_kept() {
        let longer = TABLE.partition_point(|class| class.size <= LONGEST) as u8;
        let mut cache = FreeBlockCache::new();
        assert!(cache.keep(block(longer - 1, 0)));
        assert!(!cache.keep(block(longer, 0)));
    }
}
