//! Blocks for a blob that is written while its shard is not locked.
//!
//! A value of many kilobytes would keep the lock for as long as its bytes take to the medium. So
//! its blocks are reserved under the lock, filled and fenced without it, and adopted under it
//! again, in the transaction that refers to them. A reservation that is dropped, or never adopted
//! because of a crash, was never allocated.

use std::collections::VecDeque;

use heap::{Detached, Full, Ptr, Shard};

use super::{Blob, MAX_BLOCK_LEN, block, table};
use crate::Fill;

/// Reserved blocks for one blob of a length that is known.
#[derive(Debug)]
pub struct Reservation<'h> {
    len: u64,
    /// Sizes still to be reserved, in the order in which the blob is made.
    sizes: VecDeque<u32>,
    blocks: Vec<Detached<'h>>,
    /// Published lengths of the blocks that are filled, in the same order.
    filled: Vec<usize>,
}

impl<'h> Reservation<'h> {
    /// Makes a reservation for a blob of `len` bytes, at most [`super::MAX_LEN`]. Nothing is
    /// reserved yet.
    pub fn new(len: u64) -> Reservation<'h> {
        let mut sizes = VecDeque::new();
        match len {
            0 => {}
            1..=MAX_BLOCK_LEN => sizes.push_back(block::size(len as usize) as u32),
            _ => table::sizes(len, |size| sizes.push_back(size as u32)),
        }
        Reservation { len, sizes, blocks: Vec::new(), filled: Vec::new() }
    }

    /// Reserves up to `budget` blocks more; answers whether all are reserved.
    pub fn reserve(&mut self, shard: &mut Shard<'h>, budget: usize) -> Result<bool, Full> {
        for _ in 0..budget {
            let Some(size) = self.sizes.front() else { break };
            self.blocks.push(shard.reserve_detached(*size as usize)?);
            self.sizes.pop_front();
        }
        Ok(self.sizes.is_empty())
    }

    /// Fills the blocks from a source, as [`Blob::create_with`] does, and makes them durable. No
    /// lock is needed.
    ///
    /// `Full` if not all blocks are reserved. The blob may be referred to by a transaction that
    /// adopts it.
    pub fn fill(&mut self, source: impl FnMut(u64, &mut [u8])) -> Result<Blob, Full> {
        let blob = Blob::create_with(self, self.len, source)?;
        Detached::persist(&self.blocks);
        Ok(blob)
    }

    /// Makes the filled blocks part of the open transaction of the shard that reserved them.
    pub fn adopt(self, shard: &mut Shard<'h>) {
        for (block, len) in self.blocks.into_iter().zip(self.filled) {
            let fresh = shard.adopt(block);
            shard.publish(fresh, len);
        }
    }
}

/// Hands out the reserved blocks in order: the blob asks for them in the order in which `new`
/// listed them.
impl Fill for Reservation<'_> {
    type Fresh = usize;

    fn reserve(&mut self, len: usize) -> Result<usize, Full> {
        let next = self.filled.len();
        self.blocks.get(next).filter(|block| block.capacity() >= len).map(|_| next).ok_or(Full)
    }

    fn fresh_capacity(&self, fresh: &usize) -> usize {
        self.blocks[*fresh].capacity()
    }

    fn write(&mut self, fresh: &usize, at: usize, bytes: &[u8]) {
        self.blocks[*fresh].write(at, bytes);
    }

    fn write_word(&mut self, fresh: &usize, at: usize, value: u64) {
        self.blocks[*fresh].write(at, &value.to_le_bytes());
    }

    fn publish(&mut self, fresh: usize, len: usize) -> Ptr {
        self.filled.push(len);
        self.blocks[fresh].ptr()
    }
}
