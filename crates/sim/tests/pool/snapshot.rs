//! A snapshot of the pool, read shard by shard while transactions continue.

use super::{Contents, Open, read_contents, read_shard};
use heap::{Snapshot, SnapshotLost};
use std::collections::BTreeSet;

/// A snapshot, the content at its cut, and the shard to read next.
pub(super) struct Taken {
    snapshot: Snapshot,
    state: Vec<Contents>,
    next: usize,
}

/// Reads a shard of a snapshot, compares it with the content at the cut, and releases it. Returns
/// false if the snapshot was given up.
pub(crate) fn read_snapshot(
    snapshot: &Snapshot,
    shard: usize,
    expected: &Contents,
) -> Result<bool, String> {
    let view = match snapshot.lock(shard) {
        Ok(view) => view,
        Err(SnapshotLost::Released) => return Err(format!("shard {shard} was not released")),
        Err(_) => return Ok(false),
    };
    let found = read_contents(&view, shard, |n| view.root(n), &mut BTreeSet::new())?;
    drop(view);
    if found != *expected {
        let difference = expected.difference(&found, &format!("shard {shard}"));
        return Err(format!("a snapshot differs from its cut:{difference}"));
    }
    snapshot.release(shard);
    Ok(true)
}

/// The number of snapshots at a time.
const AT_ONCE: usize = 2;

/// Takes a snapshot, or reads one more shard of the oldest one if there are several.
pub(super) fn go_on_with_snapshots(store: &mut Open) -> Result<(), String> {
    let heap = &store.heap;
    if store.snapshots.len() < AT_ONCE {
        let read = |shard| read_shard(&heap.lock(shard), &mut BTreeSet::new());
        let state = (0..heap.shards()).map(read).collect::<Result<_, _>>()?;
        let (snapshot, ()) = heap.snapshot(|| ()).map_err(|error| error.to_string())?;
        store.snapshots.push(Taken { snapshot, state, next: 0 });
        return Ok(());
    }
    let Taken { snapshot, state, next } = store.snapshots.remove(0);
    if read_snapshot(&snapshot, next, &state[next])? && next + 1 < state.len() {
        // The other one is read next: both are open over many transactions.
        store.snapshots.push(Taken { snapshot, state, next: next + 1 });
    }
    Ok(())
}
