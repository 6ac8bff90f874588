//! Span transfer: free spans move from a shard that has too many to one that has none.
//!
//! A span's word in the span table is logged by its owner. Before another shard may log it, the
//! first owner's log is retired past the release: its tail is durable, so that recovery never
//! stores the old word over the new one. The same is done before the space of a span is given back
//! ([`crate::alloc::punch`]).

use super::commit;
use super::heap::Heap;
use super::plan;
use super::release;
use super::shard_waits::ANY_TURN;
use super::state::ShardState;
use crate::fault_points::{self, FaultPoint};
use crate::log::record::RecordKind;
use std::sync::atomic::Ordering;

impl Heap {
    /// Makes the free spans of all unlocked shards available to all. For a transaction over several
    /// shards that found no space, since while it holds them none can have the others' spans.
    /// Returns true if there were any.
    pub fn share_free_spans(&self) -> bool {
        from_others(self, usize::MAX)
    }

    /// Makes the free spans of one shard available to all, unless the shard is locked. Returns
    /// their number.
    pub fn share_free_spans_of(&self, shard: usize) -> Option<usize> {
        let mut state = self.try_lock_state(shard, ANY_TURN)?;
        let spans = take(self, shard, &mut state, Which::All);
        let count = spans.len();
        give(self, spans);
        Some(count)
    }
}

/// Collects free spans of all shards except `needy` whose locks are free. Returns true if there
/// were any.
pub(crate) fn from_others(heap: &Heap, needy: usize) -> bool {
    if heap.check_open().is_err() {
        return false;
    }
    let others = (0..heap.shards()).filter(|&shard| shard != needy);
    let collected: Vec<u32> = others
        .filter_map(|shard| {
            let mut state = if FaultPoint::TryOthers.is_enabled() || !pmem::is_scheduled() {
                heap.try_lock_state(shard, ANY_TURN)?
            } else {
                heap.lock_state(shard)
            };
            Some(take(heap, shard, &mut state, Which::All))
        })
        .flatten()
        .collect();
    let any = !collected.is_empty();
    give(heap, collected);
    any
}

/// Collects all free spans of one shard; waits for its lock.
pub(crate) fn from_one(heap: &Heap, shard: usize) {
    if heap.check_open().is_ok() {
        let mut state = heap.lock_state(shard);
        let spans = take(heap, shard, &mut state, Which::All);
        heap.spans.give(spans);
    }
}

/// Collects the free spans of one shard that it has not needed since the previous call, unless it
/// is locked.
pub(crate) fn rested(heap: &Heap, shard: usize) {
    if heap.check_open().is_ok()
        && let Some(mut state) = heap.try_lock_state(shard, ANY_TURN)
    {
        let spans = take(heap, shard, &mut state, Which::Rested);
        heap.spans.give_rested(spans);
    }
}

/// Makes spans available to all. Then nobody needs to take too large a block, unless all are kept
/// for deletes.
fn give(heap: &Heap, spans: Vec<u32>) {
    let is_any = !spans.is_empty();
    if heap.spans.give(spans) && is_any {
        heap.larger_blocks.store(false, Ordering::Relaxed);
    }
}

fn take(heap: &Heap, shard: usize, state: &mut ShardState, which: Which) -> Vec<u32> {
    commit::or_poison(heap, || collect(heap, shard, state, which))
}

/// Which free spans of a shard are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// Spans that were not needed for a while, if there are many.
    Rested,
}

/// The number of spans of a shard that is worth the fences of a collection.
const MANY: usize = 16;
/// The maximum number of records in which a shard releases its empty spans: a full pool has no
/// space for one long record.
const RECORDS: usize = 64;

/// Releases the empty spans of a shard, retires its log, and takes its free spans.
fn collect(heap: &Heap, shard: usize, state: &mut ShardState, which: Which) -> Vec<u32> {
    // The last holder of the lock may have left a commit half done.
    if heap.check_open().is_err() {
        return Vec::new();
    }
    release::return_held(heap, shard, state, release::FOR_SPANS);
    if which == Which::All {
        state.alloc.stop_filling_empty();
    }
    let least = if which == Which::All { 1 } else { MANY };
    for _ in 0..RECORDS {
        if state.alloc.emptied.len() < least {
            break;
        }
        plan::make(heap, shard, state, RecordKind::default());
        if state.plan.releasing.is_empty() {
            continue;
        }
        if commit::planned(heap, shard, state).is_err() {
            return Vec::new();
        }
    }
    let mut spans = match which {
        Which::All => state.alloc.release_free_spans(),
        Which::Rested => state.alloc.release_rested_spans(MANY),
    };
    let gives = !spans.is_empty() || which == Which::All && state.ring.holds_long();
    if gives && !heap.volatile && FaultPoint::RetireBeforeTransfer.is_enabled() {
        state.ring.retire_all(&heap.region);
        fault_points::fence(&heap.region, FaultPoint::FenceTransfer);
        spans.append(&mut state.ring.released);
    }
    if heap.region.failed() {
        heap.poison();
        return Vec::new();
    }
    spans
}
