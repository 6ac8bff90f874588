//! The last reserves of a full heap: sparsely used spans are emptied for blocks of other sizes, and
//! larger blocks are used when none of the right size is left.
//!
//! The layer that knows the content of the blocks moves them, in ordinary transactions: the heap
//! tells it which ([`Shard::is_sparse`], [`Shard::evacuated_blocks`]). A crash at any moment leaves
//! each block where it was or where it was moved to, and no plan.

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
    /// callers that have tried everything else. Returns true if this was not allowed before.
    pub fn allow_larger_blocks(&self) -> bool {
        !self.larger_blocks.swap(true, Relaxed)
    }

    /// Returns about how many bytes shards may still take, including the emergency reserve: the
    /// spans that are free or were never used. Takes no lock of a shard.
    pub fn available(&self) -> u64 {
        self.spans.available()
    }
}

impl Heap {
    /// Returns how many spans must be free for a writer that wants this many bytes, including those
    /// kept for deletes.
    pub fn spans_for(&self, bytes: usize) -> usize {
        2 * bytes.div_ceil(SPAN as usize) + self.spans.kept
    }

    /// Sets about how many bytes the pool may grow to, limited by the addresses that are reserved
    /// for it; at least its present size. Returns the actual limit.
    pub fn set_largest_size(&self, bytes: u64) -> u64 {
        if !self.region.is_device() {
            let bytes = bytes.min(self.region.reserved());
            self.spans.set_max_zones(self.geometry.zones_in(bytes));
        }
        self.largest_size()
    }

    /// Returns the number of bytes in spans that belong to no shard and take space in the pool.
    pub fn free_space(&self) -> u64 {
        self.spans.free_space()
    }

    /// Returns true if no span is left except those kept for deletes, and the pool may not grow, or
    /// could not at the last attempt.
    pub fn has_no_space(&self) -> bool {
        let ends = self.is_scarce() || self.spans.cannot_grow.load(Relaxed);
        ends && self.free_space() <= (self.spans.kept as u64 + 1) * SPAN
    }

    /// Returns true if few spans are left, and there will be no more: a transaction that takes some
    /// may find none. Costs one load.
    #[inline]
    pub fn is_scarce(&self) -> bool {
        self.spans.scarce.load(Relaxed)
    }

    /// Returns true if the heap has less left than an eighth of its limit, so that it pays to empty
    /// sparsely used spans. Takes no lock of a shard.
    pub fn is_short_of_spans(&self) -> bool {
        self.available() < self.limit() / 8
    }
}

impl Shard<'_> {
    /// Takes a bounded step of planning which spans are to be emptied; returns their number once
    /// the plan is complete. Ends an earlier plan. Blocks of those spans are given out only if no
    /// other one can be had. Fails if nothing may be changed now.
    pub fn plan_evacuation(&mut self) -> Result<Option<usize>, CommitError> {
        let heap = self.heap();
        heap.check_open()?;
        Ok(self.state.alloc.plan_evacuation(&heap.region, &heap.spans))
    }

    /// Returns how many spans of the plan have not been emptied yet.
    pub fn evacuated_spans(&self) -> usize {
        self.state.alloc.evacuated_spans()
    }

    /// Returns at most `most` allocated blocks of the spans to be emptied, and the cursor to
    /// continue from; no cursor after the last one.
    pub fn evacuated_blocks(
        &self,
        from: EvacuationCursor,
        most: usize,
    ) -> (Vec<Ptr>, Option<EvacuationCursor>) {
        let (blocks, next) = self.state.alloc.evacuated_blocks(&self.heap().region, from, most);
        (blocks.into_iter().map(Ptr::from_raw).collect(), next)
    }

    /// Takes the span of a block that could not be moved out of the plan: it is filled again.
    pub fn keep_span_of(&mut self, block: Ptr) {
        self.state.alloc.keep_span_at(block.raw());
    }

    /// Ends the plan: spans that are not empty are filled again.
    pub fn end_evacuation(&mut self) {
        self.state.alloc.end_evacuation();
    }

    /// Returns the number of bytes of blocks that were freed since the pool was opened.
    pub fn freed(&self) -> u64 {
        self.state.alloc.freed
    }

    /// Returns a number that grows with the bytes that a plan may not cover: blocks that are freed,
    /// and spans of an earlier incarnation that are found.
    pub fn news(&mut self) -> u64 {
        let heap = self.heap();
        self.state.alloc.news(&heap.spans)
    }

    /// Returns the number of bytes in allocated blocks of this shard.
    pub fn used(&self) -> u64 {
        self.heap().slots[self.id()].used.load(Relaxed)
    }

    /// Takes a larger block of this shard, if that is allowed.
    #[cold]
    pub(crate) fn take_larger_block(&mut self, class: u8) -> Result<BlockPlace, Full> {
        let heap = self.heap();
        if !heap.larger_blocks.load(Relaxed) {
            return Err(Full);
        }
        self.state.alloc.reserve_larger(&heap.region, class).ok_or(Full)
    }
}
