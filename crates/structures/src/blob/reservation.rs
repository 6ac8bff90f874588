//! Blocks for a blob that is written while its shard is not locked.
//!
//! Writing a value of many kilobytes would hold the lock for as long as the medium takes. So its
//! blocks are reserved under the lock, filled and fenced without it, and adopted under the lock in
//! the transaction that refers to them. A reservation that is dropped, or never adopted because of
//! a crash, was never allocated.

use std::collections::VecDeque;

use heap::{Detached, Full, Ptr, Shard};

use super::{Blob, MAX_BLOCK_LEN, block, table};
use crate::Fill;

/// Reserved blocks for one blob of a known length.
#[derive(Debug)]
pub struct Reservation<'h> {
    len: u64,
    /// Sizes still to be reserved, in the order in which the blob is created.
    sizes: VecDeque<u32>,
    blocks: Vec<Detached<'h>>,
    /// Published lengths of the filled blocks, in the same order.
    filled: Vec<usize>,
}

impl<'h> Reservation<'h> {
    /// Creates a reservation for a blob of `len` bytes, at most [`super::MAX_LEN`]. It reserves
    /// nothing yet.
    pub fn new(len: u64) -> Reservation<'h> {
        let mut sizes = VecDeque::new();
        match len {
            0 => {}
            1..=MAX_BLOCK_LEN => sizes.push_back(block::size(len as usize) as u32),
            _ => table::sizes(len, |size| sizes.push_back(size as u32)),
        }
        Reservation { len, sizes, blocks: Vec::new(), filled: Vec::new() }
    }

    /// Reserves up to `budget` more blocks; returns true if all are reserved.
    pub fn reserve(&mut self, shard: &mut Shard<'h>, budget: usize) -> Result<bool, Full> {
        for _ in 0..budget {
            let Some(size) = self.sizes.front() else { break };
            self.blocks.push(shard.reserve_detached(*size as usize)?);
            self.sizes.pop_front();
        }
        Ok(self.sizes.is_empty())
    }

    /// Fills the blocks from a source, like [`Blob::create_with`], and makes them durable. Needs no
    /// lock.
    ///
    /// Returns `Full` if not all blocks are reserved. The transaction that adopts the blob may
    /// refer to it.
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

/// Hands out the reserved blocks in order: the blob requests them in the order in which `new`
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
