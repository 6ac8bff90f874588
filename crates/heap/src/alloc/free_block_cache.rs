//! Blocks that were freed a moment ago and are reserved next.
//!
//! A transaction that writes a value anew frees a block of the size that the next one asks for, and has just read it: its
//! lines are in the processor's cache, and where it lies is known. So a few such blocks of each class are kept at hand. To
//! look for the first free block of a span instead costs a search, and a store into it waits for the medium.
//!
//! A block that is kept stays taken in the copy of its span's bitmap, as a reserved one does: it keeps its span from
//! being released. So there are few of them, none is of a span that is mostly empty, which a defragmenter may be at work on,
//! and a transaction that frees more than it reserves gives them back ([`super::allocator::Alloc::reuse`]).

use super::place::Place;
use crate::layout::size_class::{CLASSES, TABLE};

/// Blocks of a class that are kept: as many as a run of commands frees.
const MOST: usize = 16;
/// Bytes of a block that is kept.
const LONGEST: u32 = 512;

/// The blocks kept, by class.
#[derive(Debug)]
pub(crate) struct Recycled {
    kept: [Vec<Place>; CLASSES],
}

impl Recycled {
    pub(crate) fn new() -> Recycled {
        Recycled { kept: [const { Vec::new() }; CLASSES] }
    }

    /// Keeps a block, if there is room for it.
    #[inline]
    pub(crate) fn keep(&mut self, block: Place) -> bool {
        let kept = &mut self.kept[block.class as usize];
        let fits = kept.len() < MOST && TABLE[block.class as usize].size <= LONGEST;
        if fits {
            kept.push(block);
        }
        fits
    }

    /// Whether a block is kept. One that a damaged structure led to twice is freed once more, and must not be given out twice.
    #[inline]
    pub(crate) fn has(&self, block: &Place) -> bool {
        self.kept[block.class as usize].iter().any(|kept| kept.at == block.at)
    }

    /// The block of a class that was kept last.
    #[inline(always)]
    pub(crate) fn take(&mut self, class: u8) -> Option<Place> {
        self.kept[class as usize].pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(class: u8, index: u16) -> Place {
        Place { at: u64::from(index) * 64, bitmap: 0, span: 1, index, class, published: true }
    }

    #[test]
    fn the_block_kept_last_is_taken_first_and_few_are_kept() {
        let mut recycled = Recycled::new();
        let kept = (0..100).filter(|&n| recycled.keep(block(3, n))).count();
        assert_eq!(kept, MOST);
        assert!(recycled.keep(block(4, 7)), "another class has room of its own");
        assert_eq!(recycled.take(3), Some(block(3, MOST as u16 - 1)));
        assert_eq!(recycled.take(3), Some(block(3, MOST as u16 - 2)));
        assert_eq!(recycled.take(5), None);
    }

    #[test]
    fn long_blocks_are_not_kept() {
        let longer = TABLE.partition_point(|class| class.size <= LONGEST) as u8;
        let mut recycled = Recycled::new();
        assert!(recycled.keep(block(longer - 1, 0)));
        assert!(!recycled.keep(block(longer, 0)));
    }
}
