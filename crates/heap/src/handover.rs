//! Free spans go from a shard that has too many to one that has none.
//!
//! A span's word in the span table is logged by its owner. Before another shard may log it, the first owner's log is
//! retired past the release: its tail is durable, so that recovery never stores the old word over the new one.

use crate::commit;
use crate::heap::Heap;
use crate::plan;
use crate::record::Kind;
use crate::state::State;
use crate::step::{self, Step};

/// Collects free spans of all shards but `needy`, as far as their locks are free. Whether there were any.
pub(crate) fn from_others(heap: &Heap, needy: usize) -> bool {
    if heap.check_open().is_err() {
        return false;
    }
    let others = (0..heap.shards()).filter(|&shard| shard != needy);
    let collected: Vec<u32> = others
        .filter_map(|shard| {
            let mut shard = heap.try_lock(shard)?;
            let id = shard.id();
            Some(collect(heap, id, &mut shard.state))
        })
        .flatten()
        .collect();
    let any = !collected.is_empty();
    heap.spans.give(collected);
    any
}

/// Releases the empty spans of a shard and takes its free ones, with its log retired.
fn collect(heap: &Heap, shard: usize, state: &mut State) -> Vec<u32> {
    // The lock's last holder may have left a commit half done.
    if heap.check_open().is_err() {
        return Vec::new();
    }
    state.alloc.stop_filling_empty();
    plan::make(heap, shard, state, Kind::default());
    if !state.plan.releasing.is_empty() && commit::planned(heap, shard, state).is_err() {
        return Vec::new();
    }
    let mut spans = state.alloc.surrender();
    let gives = !spans.is_empty() || state.ring.holds_long();
    if gives && !heap.volatile && Step::RetireBeforeHandover.done() {
        state.ring.retire_all(&heap.region);
        step::fence(&heap.region, Step::FenceHandover);
        spans.append(&mut state.ring.released);
    }
    if heap.region.failed() {
        heap.poison();
        return Vec::new();
    }
    spans
}
