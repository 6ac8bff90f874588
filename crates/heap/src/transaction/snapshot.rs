//! A view of the whole heap as it was at one moment, while writers go on.
//!
//! From the cut on, the first change of a word saves its old value in DRAM, and freed blocks are
//! held. A reader of the snapshot locks a shard for a bounded number of steps and sees words
//! through the saved values; bytes that were published do not change. Nothing is copied that is not
//! changed, and there is no fork, which gives no copy-on-write over a shared mapping.

#![allow(unsafe_code, reason = "published bytes are read")]

use super::heap::Heap;
use super::pins::Pin;
use super::shard::Shard;
use crate::fault_points::FaultPoint;
use crate::ptr::{Ptr, View};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// There is a snapshot already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another snapshot is being read")]
pub struct SnapshotError;

/// The heap as it was when the snapshot was taken. Held memory goes back when it is dropped.
#[derive(Debug)]
pub struct Snapshot {
    heap: Arc<Heap>,
    _pins: Vec<Pin>,
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
        let mut shards: Vec<Shard<'_>> = (0..self.shards()).map(|shard| self.lock(shard)).collect();
        if shards.iter().any(|shard| shard.state.overlay.is_some()) {
            return Err(SnapshotError);
        }
        let pins = shards.iter().map(Shard::pin).collect();
        for shard in &mut shards {
            shard.state.overlay = Some(FxHashMap::default());
        }
        let made = if FaultPoint::CutUnderLocks.is_enabled() {
            let made = at_cut();
            drop(shards);
            made
        } else {
            drop(shards);
            at_cut()
        };
        Ok((Snapshot { heap: Arc::clone(self), _pins: pins }, made))
    }
}

impl Snapshot {
    /// Locks a shard for reading it as it was. Hold it for a bounded number of steps only: writers
    /// wait.
    pub fn lock(&self, shard: usize) -> SnapshotShard<'_> {
        SnapshotShard { shard: self.heap.lock(shard) }
    }

    /// Returns how many words have changed since the cut: their old values are held in DRAM.
    pub fn held_words(&self) -> usize {
        let held = |shard| self.heap.lock(shard).state.overlay.as_ref().map_or(0, FxHashMap::len);
        (0..self.heap.shards()).map(held).sum()
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        for shard in 0..self.heap.shards() {
            self.heap.lock(shard).state.overlay = None;
        }
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
        let saved = self.shard.state.overlay.as_ref().and_then(|overlay| overlay.get(&at.raw()));
        saved.copied().unwrap_or_else(|| self.shard.heap().region.load(at.raw()))
    }

    fn bytes(&self, at: Ptr, len: usize) -> &[u8] {
        self.shard.bytes(at, len)
    }

    fn prefetch(&self, at: Ptr) {
        self.shard.prefetch(at);
    }
}
