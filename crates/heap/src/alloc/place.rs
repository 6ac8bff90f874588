//! Where a block is: what the allocator knows of a block that it gave out.

use crate::layout::size_class::{self, WHOLE};

/// Where a block is. Valid while the block is taken: its span is not forgotten before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    /// The block's offset in the pool.
    pub(crate) at: u64,
    /// The word of the pool with the bit that says whether it is allocated; none for a whole span.
    pub(crate) bitmap: u64,
    /// Its span, by the allocator's list, and its number there; 0 for a whole span, which is in no
    /// list.
    pub(crate) span: u32,
    pub(crate) index: u16,
    pub(crate) class: u8,
    /// Whether its span is published.
    pub(crate) published: bool,
}

impl BlockPlace {
    /// Returns a whole span.
    pub(crate) fn whole(at: u64) -> BlockPlace {
        BlockPlace { at, bitmap: 0, span: 0, index: 0, class: WHOLE, published: true }
    }

    /// Returns the number of bytes of the block.
    #[inline]
    pub(crate) fn size(&self) -> u32 {
        size_class::TABLE[self.class as usize].size
    }

    /// Returns the number of its bit in the word `bitmap`.
    #[inline]
    pub(crate) fn bit(&self) -> u32 {
        u32::from(self.index % 64)
    }

    /// Returns the word of the bitmap that has its bit.
    pub(crate) fn word(&self) -> usize {
        self.index as usize / 64
    }
}
