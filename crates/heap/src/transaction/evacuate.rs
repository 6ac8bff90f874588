//! What a full heap can still give: spans that are sparsely used are emptied for blocks of other
//! sizes, and blocks larger than they need to be serve where nothing else is left.
//!
//! Whoever knows what is in the blocks moves them, in ordinary transactions: it is told which
//! ([`Shard::is_sparse`], [`Shard::evacuated_blocks`]). A crash at any moment leaves each block
//! where it was or where it went, and no plan.

use super::heap::Heap;
use super::shard::Shard;
use crate::alloc::evacuation::EvacuationCursor;
use crate::alloc::place::BlockPlace;
use crate::error::{CommitError, Full};
use crate::layout::SPAN;
use crate::ptr::Ptr;
use std::sync::atomic::Ordering::Relaxed;

impl Heap {
    /// Lets reservations that find no block take a larger one, until spans become free again. For
    /// who has tried everything else. Returns true if they could not before.
    pub fn allow_larger_blocks(&self) -> bool {
        !self.larger_blocks.swap(true, Relaxed)
    }

    /// Returns about how many bytes shards may still take, with those of the emergency reserve:
    /// of spans that are free or were never used. Takes no lock of a shard.
    pub fn available(&self) -> u64 {
        self.spans.available()
    }
}

impl Heap {
    /// Returns how many spans must be free for a writer that wants this many bytes, with those that
    /// are kept for deletes.
    pub fn spans_for(&self, bytes: usize) -> usize {
        2 * bytes.div_ceil(SPAN as usize) + self.spans.kept
    }

    /// Lets the pool grow up to about this many bytes from now on, as far as addresses are reserved
    /// for it, and not less than it takes already. Returns how far it may.
    pub fn set_largest_size(&self, bytes: u64) -> u64 {
        if !self.region.is_device() {
            let bytes = bytes.min(self.region.reserved());
            self.spans.set_max_zones(self.geometry.zones_in(bytes));
        }
        self.largest_size()
    }

    /// Returns the number of bytes of spans that belong to no shard and take space in the pool.
    pub fn free_space(&self) -> u64 {
        self.spans.free_space()
    }

    /// Returns true if no span is left but those that are kept for deletes, and the pool may not
    /// grow, or could not when it was tried last.
    pub fn has_no_space(&self) -> bool {
        let ends = self.is_scarce() || self.spans.cannot_grow.load(Relaxed);
        ends && self.free_space() <= (self.spans.kept as u64 + 1) * SPAN
    }

    /// Returns true if few spans are left, and there will be no more: a transaction that takes some
    /// may find none. A load.
    #[inline]
    pub fn is_scarce(&self) -> bool {
        self.spans.scarce.load(Relaxed)
    }

    /// Returns true if the heap cannot grow and has so little left that it pays to empty spans that
    /// are sparsely used: an eighth of what it may become. Takes no lock of a shard.
    pub fn is_short_of_spans(&self) -> bool {
        self.available() < self.limit() / 8
    }
}

impl Shard<'_> {
    /// Takes a bounded step of planning which spans are to be emptied; how many, once it is
    /// complete. The plan before it ends. No block is given out of those spans while another one
    /// can be had. An error where nothing is to be changed now.
    pub fn plan_evacuation(&mut self) -> Result<Option<usize>, CommitError> {
        let heap = self.heap();
        heap.check_open()?;
        Ok(self.state.alloc.plan_evacuation(&heap.region, &heap.spans))
    }

    /// Returns how many spans of the plan are not empty yet.
    pub fn evacuated_spans(&self) -> usize {
        self.state.alloc.evacuated_spans()
    }

    /// Returns about `most` allocated blocks of the spans that are to be emptied, and where to go
    /// on; none after the last.
    pub fn evacuated_blocks(
        &self,
        from: EvacuationCursor,
        most: usize,
    ) -> (Vec<Ptr>, Option<EvacuationCursor>) {
        let (blocks, next) = self.state.alloc.evacuated_blocks(&self.heap().region, from, most);
        (blocks.into_iter().map(Ptr::from_raw).collect(), next)
    }

    /// Takes the span of a block, which could not be moved, out of the plan: it is filled again.
    pub fn keep_span_of(&mut self, block: Ptr) {
        self.state.alloc.keep_span_at(block.raw());
    }

    /// Ends the plan: spans that are not empty are filled again.
    pub fn end_evacuation(&mut self) {
        self.state.alloc.end_evacuation();
    }

    /// Returns the bytes of blocks that were freed since the pool was opened.
    pub fn freed(&self) -> u64 {
        self.state.alloc.freed
    }

    /// Returns a number that grows by the bytes that are new to a plan: those of blocks that are
    /// freed, and of spans of an earlier incarnation that are found.
    pub fn news(&mut self) -> u64 {
        let heap = self.heap();
        self.state.alloc.news(&heap.spans)
    }

    /// Returns the bytes in allocated blocks of this shard.
    pub fn used(&self) -> u64 {
        self.heap().slots[self.id()].used.load(Relaxed)
    }

    /// Takes a larger block of this shard, where that is allowed.
    #[cold]
    pub(crate) fn take_larger_block(&mut self, class: u8) -> Result<BlockPlace, Full> {
        let heap = self.heap();
        if !heap.larger_blocks.load(Relaxed) {
            return Err(Full);
        }
        self.state.alloc.reserve_larger(&heap.region, class).ok_or(Full)
    }
}
