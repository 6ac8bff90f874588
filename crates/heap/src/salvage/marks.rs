//! The blocks of a salvaged pool that have been reached: one bit each, allocated span by span as
//! needed.

use super::reader::Salvage;
use crate::layout::size_class::MOST_BLOCKS;
use crate::ptr::Ptr;

type Bits = Box<[u64; MOST_BLOCKS.div_ceil(64)]>;

/// The blocks that were reached.
#[derive(Debug, Default)]
pub struct Marks {
    spans: Vec<Option<Bits>>,
}

impl Marks {
    /// Marks the block that begins at `at`. Returns true if one can begin there and it was not
    /// marked before.
    pub fn mark(&mut self, pool: &Salvage, at: Ptr) -> bool {
        let Some((span, number, _)) = pool.block(at) else { return false };
        let span = span as usize;
        if self.spans.len() <= span {
            self.spans.resize_with(span + 1, || None);
        }
        let bits = self.spans[span].get_or_insert_with(|| Box::new([0; MOST_BLOCKS.div_ceil(64)]));
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        let is_new = bits[word] & bit == 0;
        bits[word] |= bit;
        is_new
    }

    /// Returns true if the block that begins at `at` is marked.
    pub fn has(&self, pool: &Salvage, at: Ptr) -> bool {
        let Some((span, number, _)) = pool.block(at) else { return false };
        let bits = self.spans.get(span as usize).and_then(Option::as_ref);
        bits.is_some_and(|bits| bits[number as usize / 64] & 1 << (number % 64) != 0)
    }
}
