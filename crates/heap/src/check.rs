//! Which blocks are allocated, by the bitmaps alone; and whether spans and counters agree with them.
//!
//! The layer above knows which blocks it can reach: allocated and reachable are the same set in an intact pool.
//! This goes through the whole span table, with every shard locked.

use crate::class::{BITMAP_AT, TABLE, WHOLE};
use crate::heap::Heap;
use crate::ptr::Ptr;
use crate::shard::Shard;
use crate::spans::split_span_word;

/// An allocated block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Where it lies.
    pub ptr: Ptr,
    /// How many bytes it holds.
    pub capacity: usize,
    /// The shard that owns it.
    pub shard: usize,
}

/// What is wrong with a pool's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// A word of the span table says nothing sensible.
    #[error(
        "span {span}: its word in the span table is {found:#x}, which names no class and shard"
    )]
    SpanWord {
        /// Span number.
        span: u32,
        /// The word.
        found: u64,
    },
    /// A span's header is not that of its class.
    #[error("span {span}: its header is not that of class {class}, which the span table says")]
    SpanHeader {
        /// Span number.
        span: u32,
        /// Class by the span table.
        class: u8,
    },
    /// Bits of blocks that a span cannot have are set.
    #[error("span {span}: its bitmap marks blocks behind the last one")]
    Bitmap {
        /// Span number.
        span: u32,
    },
    /// The counter of a shard differs from its blocks.
    #[error("shard {shard}: {counted} bytes are counted as allocated, its blocks have {found}")]
    Used {
        /// Shard number.
        shard: usize,
        /// The logged counter.
        counted: u64,
        /// Sum over the allocated blocks.
        found: u64,
    },
}

impl Heap {
    /// All allocated blocks, in the order of their places. Locks every shard: the caller holds none.
    pub fn allocated(&self) -> Result<Vec<Block>, CheckError> {
        let _shards: Vec<Shard<'_>> = (0..self.shards()).map(|shard| self.lock(shard)).collect();
        let mut blocks = Vec::new();
        let spans = self.spans.zones() * self.geometry.zone_spans as u64;
        for span in (0..spans as u32).filter(|span| !self.geometry.is_table(*span)) {
            self.blocks_of(span, &mut blocks)?;
        }
        for shard in 0..self.shards() {
            let own = blocks.iter().filter(|block| block.shard == shard);
            let found = own.map(|block| block.capacity as u64).sum();
            let counted = self.region.load(self.area(shard).used());
            if counted != found {
                return Err(CheckError::Used { shard, counted, found });
            }
        }
        Ok(blocks)
    }

    fn blocks_of(&self, span: u32, blocks: &mut Vec<Block>) -> Result<(), CheckError> {
        let found = self.region.load(self.geometry.span_word(span));
        if found == 0 {
            return Ok(());
        }
        let Some((class, shard)) = split_span_word(found, self.shards()) else {
            return Err(CheckError::SpanWord { span, found });
        };
        let shape = &TABLE[class as usize];
        let base = self.geometry.span_at(span);
        let block = |offset: u32| Block {
            ptr: Ptr::from_raw(base + u64::from(offset)),
            capacity: shape.size as usize,
            shard,
        };
        if class == WHOLE {
            blocks.push(block(0));
            return Ok(());
        }
        let header = crate::alloc::header(class, shape);
        let intact = header
            .chunks_exact(8)
            .enumerate()
            .all(|(i, bytes)| self.region.load(base + 8 * i as u64).to_le_bytes() == bytes);
        if !intact {
            return Err(CheckError::SpanHeader { span, class });
        }
        for word in 0..shape.words() as u32 {
            let bits = self.region.load(base + BITMAP_AT + 8 * u64::from(word));
            for bit in (0..64).filter(|bit| bits & 1 << bit != 0) {
                let index = word * 64 + bit;
                if index >= shape.count {
                    return Err(CheckError::Bitmap { span });
                }
                blocks.push(block(shape.offset(index)));
            }
        }
        Ok(())
    }
}
