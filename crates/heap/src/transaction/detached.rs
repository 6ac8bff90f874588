//! Blocks for large values: reserved under the lock, filled without it, and published under it.

#![allow(unsafe_code, reason = "reserved blocks are written here")]

use super::heap::Heap;
use super::shard::{Fresh, Shard};
use super::state::Reserved;
use crate::alloc::place::BlockPlace;
use crate::error::Full;
use crate::fault_points::{self, FaultPoint};
use crate::layout::size_class::{self, WHOLE};
use crate::ptr::Ptr;
use std::sync::PoisonError;

/// A reserved block that belongs to no transaction yet. If dropped, it is returned.
#[derive(Debug)]
pub struct Detached<'h> {
    heap: &'h Heap,
    shard: usize,
    place: BlockPlace,
    adopted: bool,
}

impl<'h> Detached<'h> {
    /// Returns the block's size in bytes.
    pub fn capacity(&self) -> usize {
        self.place.size() as usize
    }

    /// Returns the block's place.
    pub fn ptr(&self) -> Ptr {
        Ptr::from_raw(self.place.at)
    }

    /// Writes `bytes` at offset `at` of the block.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.capacity(), "a write past the block's end");
        let to = self.place.at + at as u64;
        // SAFETY: the block is reserved: it is reached through this value alone, which is borrowed
        // mutably.
        unsafe { self.heap.region.write_streaming(to, bytes) };
    }

    /// Makes the bytes that this thread wrote into detached blocks durable, so that no record needs
    /// to verify them.
    pub fn persist(blocks: &[Detached<'h>]) {
        if let Some(first) = blocks.first() {
            fault_points::fence(&first.heap.region, FaultPoint::FenceDetached);
        }
    }
}

impl Drop for Detached<'_> {
    fn drop(&mut self) {
        if !self.adopted {
            let slot = &self.heap.slots[self.shard];
            slot.returned.lock().unwrap_or_else(PoisonError::into_inner).push(self.place);
            self.heap.defer_to_next_holder(self.shard);
        }
    }
}

impl<'h> Shard<'h> {
    /// Reserves a block that outlives this lock, to be filled without it.
    pub fn reserve_detached(&mut self, len: usize) -> Result<Detached<'h>, Full> {
        let class = size_class::for_len(len).ok_or(Full)?;
        let heap = self.heap();
        let shard = self.id();
        let place = self.take_block(class)?;
        Ok(Detached { heap, shard, place, adopted: false })
    }

    /// Takes a filled and persisted block into the open transaction.
    pub fn adopt(&mut self, mut block: Detached<'h>) -> Fresh {
        assert!(block.shard == self.id(), "a block belongs to the shard that reserved it");
        block.adopted = true;
        // Its span may have been published since the block was reserved.
        let span = self.state.alloc.span(block.place.span);
        let published = match FaultPoint::AskSpanAgain.is_enabled() {
            true => block.place.class == WHOLE || span.is_some_and(|span| span.published),
            false => block.place.published,
        };
        let place = BlockPlace { published, ..block.place };
        self.enter(Reserved { fenced: true, ..Reserved::new(place) })
    }
}
