//! Background work in steps, each of which looks at a bounded number of items under one shard's
//! lock.
//!
//! The server calls them between other work; nothing here starts a thread or waits. The time for
//! which a step holds its lock is measured as CPU time of its thread, so that a busy machine does
//! not look like a long step.

mod compact;
mod defragment;
mod large;
mod scrub;

pub use compact::{Compacted, Compaction};
pub use defragment::Defragmentation;
pub use scrub::Scrub;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heap::Full;
use structures::Store;
use structures::dict::Member;
use structures::list::List;
use structures::reclaim::{Owned, Queue};
use structures::stream::Stream;

use crate::layout::{OWNER_EXPIRY, OWNER_LIST, OWNER_MEMBERS, QUEUE_ROOT, STREAM_OWNERS};
use crate::txn::moves::Moves;
use crate::{CommitError, Keyspace, Progress, Txn, entry};

/// How many blocks a step frees for a caller that waits for space.
const BLOCKS: usize = 256;
/// A step that returns at least this many held blocks does nothing else. The threshold is above 1
/// because some blocks are always held while readers come and go.
const MANY_HELD: usize = 256;

/// Measures how long a step holds a lock.
pub struct LockHold<'k> {
    longest: &'k AtomicU64,
    begin: u64,
}

impl LockHold<'_> {
    /// Ends the measurement. Steps whose transaction is returned locked call this before: how long
    /// the caller logs them under the lock is not counted.
    pub fn done(self) {
        let took = cpu_ns().saturating_sub(self.begin);
        self.longest.fetch_max(took, Relaxed);
    }
}

fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Keyspace {
    /// Begins to measure how long locks are held, in CPU time of the thread.
    pub fn time_lock_hold(&self) -> LockHold<'_> {
        LockHold { longest: &self.longest_lock_hold, begin: cpu_ns() }
    }

    /// Returns the longest time that a background step, or a command over all keys, held a lock, in
    /// nanoseconds of its thread's CPU time: for steps of expiry and eviction, up to their commit.
    pub fn longest_lock_hold_ns(&self) -> u64 {
        self.longest_lock_hold.load(Relaxed)
    }

    /// Frees about `budget` blocks from the shard's free queue, into which deletes put their
    /// blocks; none if the shard is locked.
    pub fn reclaim_step(&self, id: usize, budget: usize) -> Result<Progress, CommitError> {
        match self.try_begin_one(id, 0) {
            Some(txn) => self.reclaim(txn, budget),
            None => Ok(Progress::default()),
        }
    }

    /// Frees about `budget` blocks from the free queue of the transaction's only shard.
    fn reclaim(&self, mut txn: Txn<'_>, budget: usize) -> Result<Progress, CommitError> {
        debug_assert!(txn.shards.len() == 1, "the free queue of one shard is worked off");
        let held = self.time_lock_hold();
        let shard = &mut txn.shards[0];
        let id = shard.id();
        let queue = Queue::at(shard.root(QUEUE_ROOT));
        if queue.is_empty(shard) {
            return Ok(Progress::default());
        }
        shard.allow_reserve(true);
        let done =
            queue.step(shard, budget, |shard, owner, owned| free_owned(shard, queue, owner, owned));
        // Even the reserve has no space: dropping the transaction discards what is staged.
        let Ok(done) = done else { return Ok(Progress::default()) };
        let more = !queue.is_empty(shard);
        shard.allow_reserve(false);
        txn.moves = Moves::Nowhere;
        txn.commit()?;
        if !self.has_garbage(id) {
            self.shared.count_freed(id);
        }
        drop(txn);
        held.done();
        Ok(Progress { looked_at: done, done, more: more && done > 0 })
    }

    /// Returns held blocks to the free ones, in at most `steps` steps; returns true if there were
    /// any. For a writer that found no space; it must hold no shard.
    pub fn return_held(&self, steps: usize) -> bool {
        (0..steps).take_while(|_| self.heap().return_held_step() > 0).count() > 0
    }

    /// Frees held blocks and those in the free queues of all shards, in steps, until the queues are
    /// empty or `enough` returns true. Skips shards that are locked. Returns whether anything was
    /// freed. For a writer that found no space; it must hold no shard.
    pub fn reclaim_until(&self, mut enough: impl FnMut() -> bool) -> bool {
        let mut freed = !enough() && self.heap().return_held_step() > 0;
        for shard in 0..self.shards() {
            while self.has_garbage(shard) && !enough() {
                match self.reclaim_step(shard, BLOCKS) {
                    Ok(progress) if progress.done > 0 => freed = true,
                    _ => break,
                }
            }
        }
        freed
    }

    /// Empties the free queues, and gives the space of everything that is free back to the medium,
    /// now. Returns the number of bytes given back. The caller must hold no shard. May take long if
    /// much is to be freed or a shard is locked.
    pub fn purge(&self) -> u64 {
        for shard in 0..self.shards() {
            while self.has_garbage(shard)
                && self.reclaim(self.begin_one(shard, 0), BLOCKS).is_ok_and(|freed| freed.done > 0)
            {
            }
        }
        self.return_held(usize::MAX);
        self.heap().purge()
    }

    /// Takes a bounded step of the following work; returns true if there is more to do: it returns
    /// blocks that a snapshot held, carries out a purge that was requested, or gives back space
    /// that was not needed for a while ([`heap::Heap::rest`]). If the next shard of a purge is
    /// locked, the purge waits for a later call.
    pub fn give_back_step(&self) -> bool {
        if self.heap().return_held_step() >= MANY_HELD {
            return true;
        }
        if let Some(shard) = self.heap().shard_to_purge() {
            // Under the shard's lock: its present holder may be about to put blocks into the queue.
            let Some(txn) = self.try_begin_one(shard, 0) else { return false };
            if self.reclaim(txn, BLOCKS).is_ok_and(|freed| freed.done > 0) {
                return true;
            }
        }
        self.heap().purge_step() || self.heap().give_back()
    }

    /// Returns true if the shard's free queue is not empty. Takes no lock.
    pub fn has_garbage(&self, shard: usize) -> bool {
        self.shared.root_word(shard, QUEUE_ROOT) != 0
    }
}

fn free_owned<S: Store>(
    store: &mut S,
    queue: Queue,
    owner: u16,
    owned: Owned,
) -> Result<usize, Full> {
    match owned {
        Owned::Entry(_) if owner == OWNER_EXPIRY => Ok(0),
        Owned::Entry(at) if owner == OWNER_MEMBERS => Member::at(at).release(store, queue),
        Owned::Entry(at) => entry::release(store, queue, at).map(|()| 1),
        Owned::Item(item) if owner == OWNER_LIST => List::free_item(store, queue, item),
        Owned::Item(item) => Stream::free_item(store, queue, STREAM_OWNERS, owner, item),
    }
}
