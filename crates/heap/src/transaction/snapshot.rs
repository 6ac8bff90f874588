//! A view of the whole heap as it was at one moment, while writers go on.
//!
//! From the cut on, the first change of a word saves its old value in DRAM ([`super::overlay`]),
//! and freed blocks are held ([`super::held_blocks`]). A reader of the snapshot locks a shard for a
//! bounded number of steps and sees words through the saved values; bytes that were published do
//! not change. Nothing is copied that is not changed, and there is no fork, which gives no
//! copy-on-write over a shared mapping.
//!
//! Each shard has a part of the snapshot, after its lock. The reader releases a part when it has
//! read that shard, so that a snapshot of many shards holds little at its end. A snapshot that
//! costs too much is given up ([`super::snapshot_memory`]): the reader is told when it locks the
//! next shard. What can be read is decided under the shard's lock, by whether it has its part.

#![allow(unsafe_code, reason = "published bytes are read")]

use super::heap::Heap;
use super::overlay::Overlay;
use super::release;
use super::shard::Shard;
use super::snapshot_memory::SnapshotLost;
use super::state::SnapshotPart;
use crate::fault_points::FaultPoint;
use crate::ptr::{Ptr, View};
use std::sync::Arc;

/// Steps in which held blocks are returned by who held them. Others return the rest.
const STEPS: usize = 1 << 20;

/// There is a snapshot already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another snapshot is being read")]
pub struct SnapshotError;

/// The heap as it was when the snapshot was taken. Held memory goes back when it is dropped, that
/// of a shard when it is released.
#[derive(Debug)]
pub struct Snapshot {
    heap: Arc<Heap>,
}

/// A locked shard, seen as it was at the cut.
#[derive(Debug)]
pub struct SnapshotShard<'s> {
    shard: Shard<'s>,
}

impl Heap {
    /// Takes a snapshot. All shards are locked for the moment of the cut; `at_cut` runs under these
    /// locks.
    pub fn snapshot<T>(
        self: &Arc<Heap>,
        at_cut: impl FnOnce() -> T,
    ) -> Result<(Snapshot, T), SnapshotError> {
        // What an earlier one left is not to count for this one.
        (0..STEPS).all(|_| !self.snapshots.is_taken() && self.return_held_step() > 0);
        // Dropped after the locks, should `at_cut` panic.
        let snapshot;
        let mut shards = Vec::with_capacity(self.shards());
        shards.extend((0..self.shards()).map(|shard| self.lock(shard)));
        if self.snapshots.is_taken() {
            return Err(SnapshotError);
        }
        self.snapshots.begin();
        snapshot = Snapshot { heap: Arc::clone(self) };
        for shard in &mut shards {
            let part = SnapshotPart { overlay: Overlay::default(), _pin: shard.pin() };
            shard.state.snapshot = Some(part);
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
    /// Locks a shard for reading it as it was, after whoever waits for it. Hold it for a bounded
    /// number of steps only: writers wait.
    pub fn lock(&self, shard: usize) -> Result<SnapshotShard<'_>, SnapshotLost> {
        self.heap.let_waiting_first(shard);
        let shard = self.heap.lock(shard);
        if FaultPoint::RefuseReleased.is_enabled() {
            let lost = self.heap.snapshots.lost();
            match lost.or((!shard.state.is_in_snapshot()).then_some(SnapshotLost::Released)) {
                Some(lost) => return Err(lost),
                None => return Ok(SnapshotShard { shard }),
            }
        }
        Ok(SnapshotShard { shard })
    }

    /// Gives back what the snapshot holds of a shard, which is not read any more.
    pub fn release(&self, shard: usize) {
        let had_part = {
            let mut locked = self.heap.lock_state(shard);
            let had_part = locked.is_in_snapshot();
            release::release(&self.heap, &mut locked);
            had_part
        };
        if had_part {
            self.heap.snapshots.free_discarded();
            (0..STEPS).all(|_| self.heap.return_held_of(shard) > 0);
        }
    }

    /// Returns how many words have changed since the cut, of the shards that were not released:
    /// their old values are held in DRAM.
    pub fn held_words(&self) -> usize {
        let words = |shard| {
            let locked = self.heap.lock_state(shard);
            locked.snapshot.as_ref().map_or(0, |part| part.overlay.words())
        };
        (0..self.heap.shards()).map(words).sum()
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        (0..self.heap.shards()).for_each(|shard| self.release(shard));
        self.heap.snapshots.end();
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

    fn overlay(&self) -> Option<&Overlay> {
        self.shard.state.snapshot.as_ref().map(|part| &part.overlay)
    }

    /// Returns true if a word of the line at `at` may have changed since the cut.
    fn touches(&self, at: Ptr) -> bool {
        self.overlay().is_some_and(|overlay| overlay.touches_page(at.raw()))
    }
}

impl View for SnapshotShard<'_> {
    fn word(&self, at: Ptr) -> u64 {
        let saved = self.overlay().and_then(|overlay| overlay.get(at.raw()));
        saved.unwrap_or_else(|| self.shard.heap().region.load(at.raw()))
    }

    fn line(&self, at: Ptr) -> [u64; 8] {
        match self.touches(at) {
            true => std::array::from_fn(|i| self.word(at.add(8 * i as u64))),
            false => self.shard.heap().region.line(at.raw()),
        }
    }

    fn bytes(&self, at: Ptr, len: usize) -> &[u8] {
        self.shard.bytes(at, len)
    }

    fn prefetch(&self, at: Ptr) {
        self.shard.prefetch(at);
    }
}
