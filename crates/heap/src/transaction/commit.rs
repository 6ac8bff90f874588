//! The commit of a transaction on one shard: one fence.
//!
//! 1. New bytes are where no reader looks; they are flushed.
//! 2. One record names them with their checksums and says which words change; it is flushed.
//! 3. The fence: the commit point.
//! 4. The words are stored in place, not flushed; the shard's lock is released by the caller.
//!
//! Words reach the medium when their part of the ring is retired ([`crate::log::ring`]), or are
//! stored again by recovery ([`crate::recovery`]). A volatile heap needs only step 4. If no
//! snapshot needs the old values, [`super::shard::Shard::set`] does it immediately: the holder of
//! the lock sees the new values, and they are undone if the transaction does not commit.

#![allow(unsafe_code, reason = "words are stored in the pool")]

use super::heap::Heap;
use super::plan;
use super::read_cache::ReadCache;
use super::release;
use super::state::{ShardState, SnapshotPart, Tx};
use super::write_record;
use crate::alloc::place::BlockPlace;
use crate::error::CommitError;
use crate::fault_points::{self, FaultPoint};
use crate::layout::size_class::TABLE;
use crate::log::record::{self, RecordKind, Word};
use std::sync::atomic::Ordering;

/// Commits the open transaction of one shard.
#[inline]
pub(crate) fn one(heap: &Heap, shard: usize, state: &mut ShardState) -> Result<(), CommitError> {
    if !state.tx.is_dirty() {
        abandon(heap, shard, state);
        return Ok(());
    }
    debug_assert!(state.as_of.is_none(), "a transaction that reads the past changes nothing");
    if let Err(refused) = heap.check_open() {
        abandon(heap, shard, state);
        return Err(refused);
    }
    or_poison(heap, || {
        state.committing = true;
        plan::make(heap, shard, state, RecordKind::default());
        planned(heap, shard, state)
    })
}

/// Commits a record without changes. No transaction is open.
pub(crate) fn nothing(
    heap: &Heap,
    shard: usize,
    state: &mut ShardState,
) -> Result<(), CommitError> {
    or_poison(heap, || {
        state.committing = true;
        state.plan.begin(RecordKind::default());
        planned(heap, shard, state)
    })
}

/// Runs a part of a commit. A panic in it poisons the heap before any lock is released: the shard
/// may be half changed, and only recovery can tell whether its record counts.
#[inline]
pub(crate) fn or_poison<R>(heap: &Heap, part: impl FnOnce() -> R) -> R {
    struct Poison<'h>(&'h Heap);
    impl Drop for Poison<'_> {
        fn drop(&mut self) {
            self.0.poison();
        }
    }
    let unless_done = Poison(heap);
    let done = part();
    std::mem::forget(unless_done);
    done
}

/// Commits a transaction that `plan::make` has planned.
#[inline]
pub(crate) fn planned(
    heap: &Heap,
    shard: usize,
    state: &mut ShardState,
) -> Result<(), CommitError> {
    if !heap.volatile {
        if let Err(full) = write_record::draft(heap, state) {
            undo(heap, shard, state);
            return Err(full);
        }
        write_record::write(heap, state, heap.take_lsn(), None);
        if !FaultPoint::StoreAfterFence.is_enabled() {
            store_words(heap, shard, state);
        }
        fault_points::fence(&heap.region, FaultPoint::FenceCommit);
        if heap.region.failed() {
            let poisoned = heap.poison();
            abandon(heap, shard, state);
            return Err(poisoned);
        }
    }
    store_words(heap, shard, state);
    finish(heap, shard, state);
    Ok(())
}

/// Stores the words in place. They are already durable in the record.
#[inline]
pub(crate) fn store_words(heap: &Heap, shard: usize, state: &mut ShardState) {
    let region = &heap.region;
    if state.is_in_snapshot() && FaultPoint::SaveOverlay.is_enabled() {
        save_words(heap, shard, state);
    }
    let ShardState { plan, ring, .. } = state;
    for word in &plan.words {
        // SAFETY: words of this shard, whose lock the caller holds; logged words are never read as
        // bytes.
        unsafe { region.change(word.at, |old| word.applied_to(old)) };
    }
    if heap.volatile {
        return;
    }
    ring.changes(region, plan.words.iter().map(|word| word.at));
    let fenced = record::fenced_word(heap.epoch, ring.seq - 1);
    // SAFETY: as above.
    unsafe { region.store(heap.area(shard).fenced(), fenced) };
}

/// Saves the old values of the words that are about to change, in each snapshot that has not saved
/// them yet. Words that only the allocator reads are skipped: bits of bitmaps, the span table, the
/// count of bytes.
#[cold]
fn save_words(heap: &Heap, shard: usize, state: &mut ShardState) {
    let ShardState { plan, snapshots, .. } = state;
    let (geometry, used) = (&heap.geometry, heap.area(shard).used());
    let is_table = |at| geometry.span_of(at).is_some_and(|span| geometry.is_table(span));
    let is_read = |word: &&Word| !word.is_bit() && word.at != used && !is_table(word.at);
    let skipped = usize::from(!FaultPoint::SaveEachWord.is_enabled());
    let parts = if FaultPoint::SaveInEach.is_enabled() { snapshots.len() } else { 1 };
    let mut grown = 0;
    for SnapshotPart { overlay, .. } in &mut snapshots[..parts] {
        let bytes = overlay.bytes();
        for word in plan.words.iter().filter(is_read).skip(skipped) {
            let value = heap.region.load(word.at);
            overlay.save(word.at, value, !FaultPoint::SaveFirstValue.is_enabled());
        }
        grown += overlay.bytes() - bytes;
    }
    if grown > 0 {
        let is_over = heap.snapshots.add(0, grown);
        release::limit(heap, state, is_over);
    }
}

/// Updates the free blocks after a transaction that is in effect, and opens a new one.
#[inline]
pub(crate) fn finish(heap: &Heap, shard: usize, state: &mut ShardState) {
    forget_copies(state);
    // The transaction is in effect: from here on a panic undoes no word.
    state.tx.forget_replaced();
    let ShardState { tx, plan, alloc, ring, .. } = state;
    for &span in &plan.publishing {
        if let Some(span) = alloc.span_mut(span) {
            span.published = true;
        }
    }
    for block in tx.reserved.iter().filter(|r| r.published.is_none()) {
        alloc.release(block.place);
    }
    for span in ring.released.drain(..) {
        alloc.give_span(span);
    }
    release::reuse_freed(heap, shard, state);
    for &span in &state.plan.releasing {
        state.alloc.forget(span);
    }
    heap.slots[shard].used.store(state.used, Ordering::Relaxed);
    state.tx.clear();
    state.committing = false;
}

/// Invalidates the copies of all blocks that the open transaction, which is in effect now, changes.
#[inline]
fn forget_copies(state: &mut ShardState) {
    if state.cache.is_some() && FaultPoint::ForgetCached.is_enabled() {
        forget_changed(state);
    }
}

#[cold]
fn forget_changed(state: &mut ShardState) {
    let ShardState { tx, alloc, cache: Some(cache), .. } = state else { return };
    tx.freed.iter().for_each(|freed| cache.forget(freed.place.at));
    tx.reserved.iter().for_each(|reserved| cache.forget(reserved.place.at));
    let replaced = tx.replaced.iter().copied();
    let words = tx.staged.iter().chain(replaced).map(|(at, _)| at);
    let appended = tx.appended.iter().map(|range| range.at);
    words.chain(appended).filter_map(|at| alloc.block_start(at)).for_each(|at| cache.forget(at));
}

/// Drops the open transaction. In a poisoned heap its blocks stay taken: its record may have been
/// written and may count after all, so nobody may overwrite what it publishes.
#[cold]
pub(crate) fn abandon(heap: &Heap, shard: usize, state: &mut ShardState) {
    let ShardState { tx, alloc, .. } = state;
    restore_words(heap, tx, 0);
    // Removed from the list before it is released, so that a panic in between cannot release it
    // twice.
    while let Some(block) = tx.reserved.pop() {
        if !heap.is_poisoned() {
            alloc.release(block.place);
        }
    }
    state.tx.clear();
    state.as_of = None;
    state.committing = false;
    run_pending_maintenance(heap, shard, state);
}

/// Restores the old values of the words that were changed in place, except for the first `kept`
/// changes.
#[inline]
pub(crate) fn restore_words(heap: &Heap, tx: &mut Tx, kept: usize) {
    while tx.replaced.len() > kept {
        if let Some((at, old)) = tx.replaced.pop() {
            // SAFETY: a word of a shard whose lock the caller holds; such words are never read as
            // bytes.
            unsafe { heap.region.store(at, old) };
        }
    }
}

/// Runs pending maintenance: returns blocks that were reserved outside a transaction and dropped,
/// resizes the read cache, and releases the parts of snapshots that were given up.
#[cold]
pub(crate) fn run_pending_maintenance(heap: &Heap, shard: usize, state: &mut ShardState) {
    let slot = &heap.slots[shard];
    if slot.maintenance_pending.swap(false, Ordering::AcqRel) {
        resize_read_cache(heap, shard, state);
        release::release_given_up(heap, state);
        let mut returned = slot.returned.lock().unwrap_or_else(|e| e.into_inner());
        let returned: Vec<BlockPlace> = std::mem::take(&mut *returned);
        returned.into_iter().for_each(|block| state.alloc.release(block));
    }
}

/// Gives a shard a read cache of the configured size.
fn resize_read_cache(heap: &Heap, shard: usize, state: &mut ShardState) {
    let share = heap.read_cache_share();
    if state.cache.as_ref().map_or(0, |cache| cache.budget()) != share {
        // The old cache is dropped first: both use the same counters.
        state.cache = None;
        let counts = &heap.slots[shard].cached;
        state.cache = (share > 0).then(|| Box::new(ReadCache::new(share, counts)));
    }
}

/// Drops a planned transaction whose record was not written.
#[cold]
pub(crate) fn undo(heap: &Heap, shard: usize, state: &mut ShardState) {
    for &span in &state.plan.publishing {
        if let Some(span) = state.alloc.span(span) {
            let shape = &TABLE[span.class as usize];
            state.alloc.clear_bitmap(&heap.region, span.number, shape);
        }
    }
    state.alloc.emptied.extend(&state.plan.releasing);
    state.used = heap.slots[shard].used.load(Ordering::Relaxed);
    let unused: Vec<u32> = state.ring.take_next_long();
    unused.into_iter().for_each(|span| state.alloc.give_span(span));
    abandon(heap, shard, state);
}
