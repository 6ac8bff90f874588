//! The place of a block: what the allocator knows about a block that it gave out.

use crate::layout::size_class::{self, WHOLE};

/// The place of a block. Valid while the block is taken: until then its span is not forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    /// The block's offset in the pool.
    pub(crate) at: u64,
    /// The word of the pool with the bit that says whether it is allocated; 0 for a whole span.
    pub(crate) bitmap: u64,
    /// The index of its span in the allocator's list, and the block's number in that span; 0 for a
    /// whole span, which is in no list.
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

    /// Returns its bit number in the word `bitmap`.
    #[inline]
    pub(crate) fn bit(&self) -> u32 {
        u32::from(self.index % 64)
    }

    /// Returns the index of the bitmap's word that contains its bit.
    pub(crate) fn word(&self) -> usize {
        self.index as usize / 64
    }
}
