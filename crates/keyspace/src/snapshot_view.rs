//! The whole keyspace as it was at one moment, for transactions that read it in any order.
//!
//! A transaction over a snapshot locks shards like any other, and sees them as they were at the
//! cut. It runs the same code, since only the words that the heap returns differ. Its time is that
//! of the cut, so that nothing expires under a reader. [`crate::Snapshot`] walks through all keys
//! in one order, and frees memory on its way.

use heap::{SnapshotError, SnapshotLost};

use crate::keyspace::ascending;
use crate::layout::{MAP_ROOT, map_word};
use crate::{Keyspace, Txn};

/// The keyspace as it was at the cut. Dropping it frees the memory that it holds.
#[derive(Debug)]
pub struct SnapshotView {
    heap: heap::Snapshot,
    map: u64,
    now: u64,
}

impl Keyspace {
    /// Takes a snapshot: locks all shards for a moment, in which `at_cut` runs. `now`, in unix ms,
    /// is the time of the transactions that read it.
    pub fn snapshot_view<T>(
        &self,
        now: u64,
        at_cut: impl FnOnce() -> T,
    ) -> Result<(SnapshotView, T), SnapshotError> {
        let (heap, (map, made)) = self
            .shared
            .heap
            .snapshot(|| (map_word(self.shared.root_word(0, MAP_ROOT)), at_cut()))?;
        Ok((SnapshotView { heap, map, now }, made))
    }
}

impl SnapshotView {
    /// Locks shards (given in any order, repetitions allowed) of the keyspace of this snapshot, and
    /// opens a transaction that reads. It must not change anything: it is never committed. Hold it
    /// only for a bounded number of steps, since writers wait.
    pub fn begin<'k>(
        &'k self,
        keyspace: &'k Keyspace,
        shards: impl Iterator<Item = usize>,
    ) -> Result<Txn<'k>, SnapshotLost> {
        let shards = ascending(shards).into_iter();
        let locked: Result<_, _> = shards.map(|shard| self.heap.transaction(shard)).collect();
        let mut txn = Txn::new(&keyspace.shared, locked?, self.now);
        txn.read_past(self.map);
        Ok(txn)
    }

    /// Returns how many words have changed since the cut: their old values are held in DRAM.
    pub fn held_words(&self) -> usize {
        self.heap.held_words()
    }
}
