//! Returns blocks and words that a snapshot or a pin held, in bounded steps.
//!
//! A block that is freed while somebody without the lock could read it is held. When nobody can
//! read it any more, it returns to the free blocks: some with each commit of the shard, some with
//! each step of the background task, some whenever a writer finds no block. They are never all
//! returned under one lock: a snapshot may have held millions.

use super::heap::Heap;
use super::shard_waits::ANY_TURN;
use super::snapshot_memory::{Cut, SnapshotLost, SnapshotStats};
use super::state::ShardState;
use crate::fault_points::FaultPoint;

/// The number of blocks that a commit returns; if it frees many, twice as many as it frees.
const BY_COMMIT: usize = 32;
/// The number of blocks that a background step, or a writer that finds no block, returns under one
/// lock.
pub(crate) const AT_ONCE: usize = 256;
/// The number of blocks of a shard that are returned to get a span.
pub(crate) const FOR_SPANS: usize = 1024;

impl Heap {
    /// Returns what snapshots hold, and how many were given up. Takes no lock.
    pub fn snapshot_stats(&self) -> SnapshotStats {
        self.snapshots.stats()
    }

    /// Sets how many bytes, of DRAM and of freed blocks, all snapshots together may hold before the
    /// oldest is given up. The default is half of the pool's limit.
    pub fn set_snapshot_limit(&self, bytes: u64) {
        self.snapshots.set_limit(bytes);
    }

    /// Gives up the oldest snapshot if blocks are held, for a writer that found none. Returns true
    /// if [`Heap::return_held_step`] may then return some.
    pub fn give_snapshot_up(&self) -> bool {
        let gives = self.snapshots.held() > 0 && FaultPoint::GiveUpFull.is_enabled();
        gives && self.give_up(SnapshotLost::Full)
    }

    /// Returns some of the held blocks that nobody can read any more to the free blocks, in each
    /// shard that is not locked; returns their number. Never waits for a lock.
    pub fn return_held_step(&self) -> usize {
        self.snapshots.free_discarded();
        match self.snapshots.held() {
            0 => 0,
            _ => (0..self.shards()).map(|shard| self.return_held_of(shard)).sum(),
        }
    }

    /// Returns some of the held blocks of one shard, unless it is locked, to the free blocks;
    /// returns their number.
    pub(crate) fn return_held_of(&self, shard: usize) -> usize {
        let Some(mut state) = self.try_lock_state(shard, ANY_TURN) else { return 0 };
        return_held(self, shard, &mut state, AT_ONCE)
    }

    /// Gives up the oldest snapshot: each shard's next holder releases its part.
    pub(crate) fn give_up(&self, why: SnapshotLost) -> bool {
        let is_new = self.snapshots.give_up(why);
        if is_new {
            (0..self.shards()).for_each(|shard| self.defer_to_next_holder(shard));
        }
        is_new
    }
}

/// Makes freed blocks that no reader can see any more reusable: those of the open transaction,
/// which is in effect, and some of the held ones.
#[inline]
pub(crate) fn reuse_freed(heap: &Heap, shard: usize, state: &mut ShardState) {
    let freed = state.tx.freed.len();
    if freed > 0 {
        match heap.slots[shard].pins.mark() {
            Some(mark) if FaultPoint::ReuseAfterPins.is_enabled() => hold(heap, state, mark),
            _ => {
                let ShardState { tx, alloc, .. } = state;
                alloc.reuse(tx.freed.iter().map(|freed| freed.place), tx.reserved.len());
            }
        }
    }
    if !state.held.is_empty() {
        return_held(heap, shard, state, BY_COMMIT.max(2 * freed));
    }
}

/// Holds the blocks that the open transaction frees.
#[cold]
fn hold(heap: &Heap, state: &mut ShardState, mark: u64) {
    let ShardState { tx, held, .. } = state;
    let (bytes, list) = (held.bytes(), held.list_bytes());
    tx.freed.iter().for_each(|freed| held.push(mark, freed.place));
    let (bytes, list) = (held.bytes() - bytes, held.list_bytes() - list);
    let is_over = heap.snapshots.add(bytes, list);
    limit(heap, state, is_over);
}

/// Gives up a snapshot if more is held than the limit allows.
pub(crate) fn limit(heap: &Heap, state: &mut ShardState, is_over: bool) {
    if is_over && state.is_in_snapshot() && FaultPoint::GiveUpOverLimit.is_enabled() {
        heap.give_up(SnapshotLost::OverLimit);
        release_given_up(heap, state);
    }
}

/// Releases the shard's parts of snapshots that were given up.
pub(crate) fn release_given_up(heap: &Heap, state: &mut ShardState) {
    if state.is_in_snapshot() {
        release(heap, state, |cut| cut.lost().is_some());
    }
}

/// Releases some of the shard's parts of snapshots: the saved words are left to be freed without a
/// lock, and blocks that no other part holds can return. Returns true if there were any parts.
pub(crate) fn release(heap: &Heap, state: &mut ShardState, which: impl Fn(&Cut) -> bool) -> bool {
    let mut any = false;
    for part in state.snapshots.extract_if(.., |part| which(&part.cut)) {
        heap.snapshots.discard(part.overlay);
        any = true;
    }
    any
}

/// Returns at most `most` held blocks that nobody can read any more to the free blocks; returns
/// their number.
#[cold]
pub(crate) fn return_held(heap: &Heap, shard: usize, state: &mut ShardState, most: usize) -> usize {
    let ShardState { alloc, held, .. } = state;
    let (bytes, list) = (held.bytes(), held.list_bytes());
    let before = match FaultPoint::ReturnAfterPins.is_enabled() {
        true => heap.slots[shard].pins.oldest(),
        false => u64::MAX,
    };
    let most = if FaultPoint::ReturnInSteps.is_enabled() { most } else { usize::MAX };
    let mut returned = 0;
    while returned < most
        && let Some(block) = held.pop(before)
    {
        alloc.release(block);
        returned += 1;
    }
    if returned > 0 {
        heap.snapshots.subtract(bytes - held.bytes(), list - held.list_bytes());
    }
    returned
}
