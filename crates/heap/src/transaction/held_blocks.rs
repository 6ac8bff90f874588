//! Held blocks: freed, but not to be reused while an older pin or snapshot exists.
//!
//! A queue in pieces: holding one more block never moves those that are held already.

use crate::alloc::place::BlockPlace;
use std::collections::LinkedList;

/// Blocks of one piece.
const PIECE: usize = 256;
/// DRAM that a piece takes.
const PIECE_BYTES: u64 = (PIECE * size_of::<(u64, BlockPlace)>()) as u64;

/// The held blocks of a shard, in the order in which they were freed, each with its mark
/// ([`super::pins::Pins::mark`]).
#[derive(Debug, Default)]
pub(crate) struct HeldBlocks {
    pieces: LinkedList<Vec<(u64, BlockPlace)>>,
    /// How many blocks of the first piece have been taken.
    gone: usize,
    /// Bytes of the blocks.
    bytes: u64,
}

impl HeldBlocks {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the number of bytes of the blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of bytes of DRAM that their list takes.
    pub(crate) fn list_bytes(&self) -> u64 {
        self.pieces.len() as u64 * PIECE_BYTES
    }

    pub(crate) fn push(&mut self, mark: u64, block: BlockPlace) {
        self.bytes += u64::from(block.size());
        match self.pieces.back_mut() {
            Some(last) if last.len() < PIECE => last.push((mark, block)),
            _ => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push((mark, block));
                self.pieces.push_back(piece);
            }
        }
    }

    /// Takes the block that was freed first, if its mark is less than `before`.
    pub(crate) fn pop(&mut self, before: u64) -> Option<BlockPlace> {
        let first = self.pieces.front()?;
        let (_, block) = *first.get(self.gone).filter(|(mark, _)| *mark < before)?;
        self.gone += 1;
        if self.gone == first.len() {
            self.gone = 0;
            self.pieces.pop_front();
        }
        self.bytes -= u64::from(block.size());
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn blocks_come_back_in_the_order_in_which_they_were_freed() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut held, mut model) = (HeldBlocks::default(), VecDeque::new());
        for mark in 0..5000 {
            for _ in 0..random.u32(..3) {
                let block = BlockPlace::whole(random.u64(..));
                held.push(mark, block);
                model.push_back((mark, block));
            }
            let before = random.u64(mark.saturating_sub(600)..=mark);
            for _ in 0..random.u32(..4) {
                let expected = model.pop_front_if(|(mark, _)| *mark < before);
                assert_eq!(held.pop(before), expected.map(|(_, block)| block));
            }
            let bytes: u64 = model.iter().map(|(_, block)| u64::from(block.size())).sum();
            assert_eq!((held.bytes(), held.is_empty()), (bytes, model.is_empty()));
            assert!(held.list_bytes() <= (model.len() as u64 / PIECE as u64 + 2) * PIECE_BYTES);
        }
    }
}
