//! The keyspace as its users hold it: where transactions begin and background steps run.
#![allow(missing_docs, clippy::todo, unused_variables, dead_code)]

use heap::Heap;

use crate::{CommitError, Db, Error, Eviction, Key, Stats, Txn, Watch};

/// What a background step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Items (keys, blocks) that it looked at.
    pub looked_at: usize,
    /// Items that it deleted or freed.
    pub done: usize,
    /// Whether it is worth calling again at once.
    pub more: bool,
}

/// Sixteen databases in the shards of a heap. Send + Sync: wrap it in an `Arc`.
pub struct Keyspace {
    heap: Heap,
}

impl Keyspace {
    /// The longest string, in bytes.
    pub const MAX_STRING: usize = 512 << 20;
    /// The longest key, in bytes.
    pub const MAX_KEY: usize = 512 << 20;

    /// Attaches to a heap; reads a few words only. `now` in unix milliseconds.
    pub fn new(heap: Heap, now: u64) -> Keyspace {
        todo!()
    }
    pub fn heap(&self) -> &Heap {
        &self.heap
    }
    /// Takes the heap out, to close it.
    pub fn into_heap(self) -> Heap {
        self.heap
    }
    pub fn shards(&self) -> usize {
        todo!()
    }

    /// Hashes a key, once for everything that is done with it.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        todo!()
    }

    /// Asks the processor to load what a look-up of the key will need. No lock is taken.
    /// `stage` 0: bucket; 1: entry (call it for a batch of keys in this order).
    pub fn prefetch(&self, db: Db, key: &Key<'_>, stage: usize) {
        todo!()
    }

    /// Locks the shards (any order, repetitions allowed) and opens a transaction at `now` (unix ms).
    pub fn begin(&self, shards: &[usize], now: u64) -> Txn<'_> {
        todo!()
    }
    /// The same for one shard.
    pub fn begin_one(&self, shard: usize, now: u64) -> Txn<'_> {
        todo!()
    }
    /// Locks everything: FLUSHALL, SWAPDB, DBSIZE, KEYS, RANDOMKEY.
    pub fn begin_all(&self, now: u64) -> Txn<'_> {
        todo!()
    }

    /// The shard in which a SCAN goes on from this cursor (lock it for [`Txn::scan`]).
    pub fn scan_shard(&self, cursor: u64) -> usize {
        todo!()
    }

    /// Stops watching.
    pub fn unwatch(&self, watch: Watch) {
        todo!()
    }

    /// Makes every transaction list its changes (see [`Txn::changes`]), not only expired and evicted keys.
    pub fn track_changes(&self, yes: bool) {
        todo!()
    }

    pub fn stats(&self) -> Stats {
        todo!()
    }
    pub fn reset_stats(&self) {
        todo!()
    }
    /// Keys, and keys with an expiry time, of a database; each shard's count is read under its lock, one after the other.
    pub fn count(&self, db: Db) -> (u64, u64) {
        todo!()
    }

    pub fn eviction(&self) -> Eviction {
        todo!()
    }
    pub fn set_eviction(&self, eviction: Eviction) {
        todo!()
    }
    /// Bytes in use beyond what `maxmemory` (or, with a policy, the heap's limit) allows; 0 if none.
    pub fn excess(&self) -> u64 {
        todo!()
    }

    /// Deletes some expired keys of the shard, at most `budget` looked at. The transaction comes back committed and
    /// still locked, so that `changes` can go into a command log before it is dropped.
    pub fn expire_step(
        &self,
        shard: usize,
        budget: usize,
        now: u64,
        random: u64,
    ) -> Result<(Txn<'_>, Progress), CommitError> {
        todo!()
    }
    /// Deletes at most `budget` keys by the policy. `None` when the policy finds none, or nothing exceeds.
    pub fn evict_step(
        &self,
        budget: usize,
        now: u64,
        random: u64,
    ) -> Result<Option<Txn<'_>>, Error> {
        todo!()
    }
    /// Frees some of what deletes left behind, at most `budget` blocks.
    pub fn reclaim_step(&self, shard: usize, budget: usize) -> Result<Progress, CommitError> {
        todo!()
    }
    /// Longest time that a background step held a lock, in nanoseconds of its thread's CPU time.
    pub fn longest_hold_ns(&self) -> u64 {
        todo!()
    }
}
