//! Views of the whole heap as it was at one moment, while writers continue.
//!
//! From the cut on, the first change of a word saves its old value in DRAM ([`super::overlay`]),
//! and freed blocks are held ([`super::held_blocks`]). A reader of the snapshot locks a shard for a
//! bounded number of steps and sees words through the saved values; published bytes do not change.
//! Only what changes is copied. There is no fork, since it gives no copy-on-write over a shared
//! mapping.
//!
//! There may be several snapshots, each with its own saved values: they are independent, and a
//! commit saves a word in each. Each shard has a part of each snapshot, under its lock. The reader
//! releases a part when it has read that shard, so that a snapshot of many shards holds little
//! towards its end. If snapshots cost too much, the oldest is given up
//! ([`super::snapshot_memory`]): its reader learns that when it locks the next shard. A shard can
//! be read as long as it has its part, which is decided under its lock.

use super::heap::Heap;
use super::overlay::Overlay;
use super::release;
use super::shard::Shard;
use super::snapshot_memory::{Cut, SnapshotLost};
use super::state::SnapshotPart;
use crate::fault_points::FaultPoint;
use crate::ptr::{Ptr, View};
use std::sync::Arc;

/// Maximum number of steps in which a new snapshot returns the blocks that earlier ones held.
/// Others return the rest.
const STEPS: usize = 1 << 20;

/// There are already [`crate::MOST_SNAPSHOTS`] snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many snapshots are being read")]
pub struct SnapshotError;

/// The heap as it was when the snapshot was taken. Held memory is returned when the snapshot is
/// dropped, and that of a shard when the shard is released.
#[derive(Debug)]
pub struct Snapshot {
    heap: Arc<Heap>,
    cut: Arc<Cut>,
}

/// A locked shard, seen as it was at the cut.
#[derive(Debug)]
pub struct SnapshotShard<'s> {
    shard: Shard<'s>,
}

impl Heap {
    /// Takes a snapshot. Locks all shards for the moment of the cut; runs `at_cut` under these
    /// locks.
    pub fn snapshot<T>(
        self: &Arc<Heap>,
        at_cut: impl FnOnce() -> T,
    ) -> Result<(Snapshot, T), SnapshotError> {
        // Memory that an earlier snapshot held must not count for this one.
        (0..STEPS).all(|_| !self.snapshots.is_any_taken() && self.return_held_step() > 0);
        // Dropped after the locks if `at_cut` panics.
        let snapshot;
        let mut shards = Vec::with_capacity(self.shards());
        shards.extend((0..self.shards()).map(|shard| self.lock(shard)));
        let cut = self.snapshots.begin().ok_or(SnapshotError)?;
        snapshot = Snapshot { heap: Arc::clone(self), cut };
        for shard in &mut shards {
            let (cut, _pin) = (Arc::clone(&snapshot.cut), shard.pin());
            shard.state.snapshots.push(SnapshotPart { cut, overlay: Overlay::default(), _pin });
        }
        let made = if FaultPoint::CutUnderLocks.is_enabled() {
            let made = at_cut();
            drop(shards);
            made
        } else {
            drop(shards);
            at_cut()
        };
        Ok((snapshot, made))
    }
}

impl Snapshot {
    /// Locks a shard for reading it as it was, after yielding to its waiters. Hold it for a bounded
    /// number of steps only: writers wait.
    pub fn lock(&self, shard: usize) -> Result<SnapshotShard<'_>, SnapshotLost> {
        self.heap.let_waiting_first(shard);
        self.transaction(shard).map(|shard| SnapshotShard { shard })
    }

    /// Locks a shard, like [`Heap::lock`], and opens a transaction that sees it as it was, for code
    /// that reads shards. The transaction must not change anything, nor commit.
    pub fn transaction(&self, shard: usize) -> Result<Shard<'_>, SnapshotLost> {
        let mut locked = self.heap.lock(shard);
        if FaultPoint::RefuseReleased.is_enabled() {
            let is_released = locked.state.part_of(self.cut.number).is_none();
            let lost = self.cut.lost().or(is_released.then_some(SnapshotLost::Released));
            if let Some(lost) = lost {
                return Err(lost);
            }
        }
        locked.read_as_of(self.cut.number);
        Ok(locked)
    }

    /// Returns what the snapshot holds of a shard that will not be read any more.
    pub fn release(&self, shard: usize) {
        let is_own = |cut: &Cut| cut.number == self.cut.number;
        let had_part = release::release(&self.heap, &mut self.heap.lock_state(shard), is_own);
        if had_part {
            self.heap.snapshots.free_discarded();
            (0..STEPS).all(|_| self.heap.return_held_of(shard) > 0);
        }
    }

    /// Returns how many words have changed since the cut in the shards that were not released;
    /// their old values are held in DRAM.
    pub fn held_words(&self) -> usize {
        let words = |shard| {
            let locked = self.heap.lock_state(shard);
            locked.part_of(self.cut.number).map_or(0, |part| part.overlay.words())
        };
        (0..self.heap.shards()).map(words).sum()
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        (0..self.heap.shards()).for_each(|shard| self.release(shard));
        self.heap.snapshots.end(&self.cut);
    }
}

impl SnapshotShard<'_> {
    /// Returns the shard's number.
    pub fn id(&self) -> usize {
        self.shard.id()
    }

    /// Returns the place of root word `n`.
    pub fn root(&self, n: usize) -> Ptr {
        self.shard.root(n)
    }
}

impl View for SnapshotShard<'_> {
    fn word(&self, at: Ptr) -> u64 {
        self.shard.word(at)
    }

    fn line(&self, at: Ptr) -> [u64; 8] {
        self.shard.line(at)
    }

    fn tagged(&self, at: Ptr, tag: u16) -> u8 {
        self.shard.tagged(at, tag)
    }

    fn bytes(&self, at: Ptr, len: usize) -> &[u8] {
        self.shard.bytes(at, len)
    }

    fn prefetch(&self, at: Ptr) {
        self.shard.prefetch(at);
    }
}
