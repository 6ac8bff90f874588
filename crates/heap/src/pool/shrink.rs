//! Gives the space of free spans back to the file system, in the background or by a purge.
//!
//! The background gives back spans that became free in this incarnation and were not needed for a
//! while: only whole huge pages, since a smaller hole would split one that others use, and never
//! the last zone of free space. A purge gives back all free spans except those that deletes may
//! need. [`crate::alloc::punch`] explains what may be given back, and how.

use crate::alloc::punch::{Punched, Which};
use crate::layout::SPAN;
use crate::transaction::heap::Heap;
use crate::transaction::release;
use crate::transaction::span_transfer;
use std::sync::atomic::Ordering::Relaxed;

/// Numbers of spans in a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// All spans of the pool.
    pub all: u64,
    /// Spans that belong to no shard, as far as is known.
    pub free: u64,
}

impl Heap {
    /// Returns the number of bytes that the pool takes on its medium: less than [`Heap::size`] if
    /// space was given back.
    pub fn space_taken(&self) -> u64 {
        let holes = || self.spans.lock().holes.len() as u64 * SPAN;
        self.region.allocated().unwrap_or_else(|| self.size().saturating_sub(holes()))
    }

    /// Returns the number of bytes of the pool that take no space because it was given back.
    pub fn given_back(&self) -> u64 {
        self.size().saturating_sub(self.space_taken())
    }

    /// Returns how many spans the pool has now, and how many of them certainly belong to no shard.
    pub fn spans(&self) -> SpanCounts {
        let inner = self.spans.lock();
        SpanCounts { all: u64::from(inner.total), free: inner.certain() as u64 }
    }

    /// Returns true if free space can be given back, as far as is known.
    pub fn gives_space_back(&self) -> bool {
        !self.keeps_space.load(Relaxed) && self.region.may_be_punched()
    }

    /// Marks free space that was not needed since the previous call: [`Heap::give_back`] will give
    /// it back, except that of one zone. Called periodically by a background thread. Skips shards
    /// that are locked.
    pub fn rest(&self) {
        if !self.may_give_back() {
            return;
        }
        (0..self.shards()).for_each(|shard| span_transfer::rested(self, shard));
        self.spans.rest();
    }

    /// Gives back a bounded part of the space that was not needed for a while; returns true if
    /// there is more. For a background thread.
    pub fn give_back(&self) -> bool {
        self.may_give_back() && self.give_back_step(Which::Idle)
    }

    /// Asks the background for a purge, for a caller that cannot wait or holds shards.
    pub fn ask_purge(&self) {
        self.purge_asked.store(true, Relaxed);
    }

    /// Returns true if a requested purge has not finished.
    pub fn is_purging(&self) -> bool {
        self.purge_asked.load(Relaxed) || self.purge_stage.load(Relaxed) != 0
    }

    /// Returns the shard whose free spans the next step of a purge takes.
    pub fn shard_to_purge(&self) -> Option<usize> {
        let shard = self.purge_stage.load(Relaxed).checked_sub(1)?;
        (shard < self.shards()).then_some(shard)
    }

    /// Does a bounded step of a requested purge; returns true if there is more to do at once. A
    /// later call does what cannot be done now, because a shard is locked, the store is paused or a
    /// loss is unresolved. For one thread, which holds no shard.
    pub fn purge_step(&self) -> bool {
        if !self.gives_space_back() {
            // It can be done neither now nor later: the request is finished.
            self.purge_asked.store(false, Relaxed);
            self.purge_stage.store(0, Relaxed);
            return false;
        }
        if !self.may_give_back() {
            return false;
        }
        let shards = self.shards();
        // 0: no purge; then one shard after the other gives its spans away.
        let next = match self.purge_stage.load(Relaxed) {
            0 if self.purge_asked.swap(false, Relaxed) => 1,
            0 => return false,
            shard if shard <= shards => {
                if self.return_held_of(shard - 1) >= release::AT_ONCE {
                    return true;
                }
                if self.share_free_spans_of(shard - 1).is_none() || self.check_open().is_err() {
                    return false;
                }
                if shard == shards {
                    self.spans.begin_purge(&self.region);
                }
                shard + 1
            }
            stage if stage == shards + 1 => stage + usize::from(!self.give_back_step(Which::All)),
            stage if self.sweep_step() || self.check_open().is_err() => stage,
            _ => 0,
        };
        self.purge_stage.store(next, Relaxed);
        next != 0
    }

    /// Gives back the space of all free spans now, except what deletes may need if the medium is
    /// full. Returns the number of bytes given back. Locks one shard after the other; the caller
    /// must hold none.
    pub fn purge(&self) -> u64 {
        if !self.may_give_back() {
            return 0;
        }
        let before = self.given_back();
        for shard in 0..self.shards() {
            let lock = || self.lock_state(shard);
            while release::return_held(self, shard, &mut lock(), release::FOR_SPANS) > 0 {}
            span_transfer::from_one(self, shard);
        }
        self.spans.begin_purge(&self.region);
        while self.may_give_back() && self.give_back_step(Which::All) {}
        while self.sweep_step() {}
        self.given_back().saturating_sub(before)
    }

    fn may_give_back(&self) -> bool {
        self.gives_space_back() && self.check_open().is_ok()
    }

    fn give_back_step(&self, which: Which) -> bool {
        self.went_on(self.spans.punch(&self.region, which))
    }

    fn sweep_step(&self) -> bool {
        // Read before the store's state is checked: a loss that is resolved by then may have
        // stopped the store, and its bytes read as zeros.
        let resolutions = self.region.resolutions();
        self.may_give_back() && self.went_on(self.spans.sweep(&self.region, resolutions))
    }

    /// Returns true if a step did something, so that another one is worthwhile.
    fn went_on(&self, step: Punched) -> bool {
        match step {
            Punched::More => true,
            Punched::Nothing => false,
            Punched::Unsupported => {
                self.keeps_space.store(true, Relaxed);
                false
            }
        }
    }
}
