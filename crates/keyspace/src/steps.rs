//! Background work, in steps that look at a bounded number of items under one shard's lock.
//!
//! The server calls them between other work; nothing here starts a thread or waits. How long a step
//! held its lock is measured in CPU time of its thread, so that a busy machine does not look like a
//! long step.

use std::sync::atomic::Ordering::Relaxed;

use heap::{Full, Ptr, Shard};
use structures::Store;
use structures::dict::Member;
use structures::list::List;
use structures::reclaim::{Owned, Queue};
use structures::stream::Stream;

use crate::layout::{OWNER_EXPIRY, OWNER_LIST, OWNER_MEMBERS, QUEUE_ROOT, STREAM_OWNERS};
use crate::txn::Place;
use crate::{CommitError, Db, Keyspace, Txn, entry};

/// Blocks that a step frees for somebody who waits for room.
const BLOCKS: usize = 256;

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

/// Measures how long a step holds a lock.
pub struct Hold<'k> {
    keyspace: &'k Keyspace,
    begin: u64,
}

impl Hold<'_> {
    /// Ends it: the locks are released.
    pub fn done(self) {
        let took = cpu_ns().saturating_sub(self.begin);
        self.keyspace.longest_hold.fetch_max(took, Relaxed);
    }
}

fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Keyspace {
    /// Begins to measure how long locks are held, in time of the thread's CPU.
    pub fn hold(&self) -> Hold<'_> {
        Hold { keyspace: self, begin: cpu_ns() }
    }

    /// Longest time that a background step, or a command over all keys, held a lock, in nanoseconds
    /// of its thread's CPU time.
    pub fn longest_hold_ns(&self) -> u64 {
        self.longest_hold.load(Relaxed)
    }

    /// Deletes some expired keys of the shard, and some expired fields of hashes, at most `budget`
    /// keys looked at. The transaction comes back committed and still locked, so that `changes` can
    /// go into a command log before it is dropped.
    ///
    /// `more` when more than a tenth of the keys it looked at had expired: Redis's measure of being
    /// behind.
    pub fn expire_step(
        &self,
        shard: usize,
        budget: usize,
        now: u64,
    ) -> Result<(Txn<'_>, Progress), CommitError> {
        self.grow_access(shard);
        let held = self.hold();
        let mut txn = self.begin_one(shard, now);
        let mut progress = Progress::default();
        for db in Db::all() {
            if progress.looked_at >= budget {
                break;
            }
            txn.expire_some(db, budget - progress.looked_at, &mut progress);
        }
        progress.more = progress.done * 10 > progress.looked_at;
        txn.commit()?;
        held.done();
        Ok((txn, progress))
    }

    /// Frees some of what deletes left behind, at most about `budget` blocks.
    pub fn reclaim_step(&self, shard: usize, budget: usize) -> Result<Progress, CommitError> {
        let held = self.hold();
        let mut txn = self.begin_one(shard, 0);
        let shard = &mut txn.shards[0];
        let queue = Queue::at(shard.root(QUEUE_ROOT));
        if queue.is_empty(shard) {
            return Ok(Progress::default());
        }
        shard.allow_reserve(true);
        let done =
            queue.step(shard, budget, |shard, owner, owned| free_owned(shard, queue, owner, owned));
        // No room even in the reserve: what is staged is dropped with the transaction.
        let Ok(done) = done else { return Ok(Progress::default()) };
        let more = !queue.is_empty(shard);
        shard.allow_reserve(false);
        txn.commit()?;
        held.done();
        Ok(Progress { looked_at: done, done, more: more && done > 0 })
    }

    /// Frees what deletes left behind in all shards, in steps, until nothing waits or `enough` says
    /// so; whether anything was freed. For a writer that found no room: it holds no shard.
    pub fn reclaim_until(&self, mut enough: impl FnMut() -> bool) -> bool {
        let mut freed = false;
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

    /// Frees what deletes left behind and gives the space of all that is free back to the medium,
    /// now; the bytes that were given back. The caller holds no shard. May take long where much is
    /// to be freed.
    pub fn purge(&self) -> u64 {
        self.reclaim_until(|| false);
        self.heap.purge()
    }

    /// A bounded step of giving space back that nobody needed for a while ([`heap::Heap::rest`]),
    /// or a purge that was asked for; true if there is more to do.
    pub fn give_back_step(&self) -> bool {
        if self.heap.is_purge_asked() {
            let mut steps = 0;
            let enough = || {
                steps += 1;
                steps > 16
            };
            if self.reclaim_until(enough) {
                return true;
            }
        }
        self.heap.purge_step() || self.heap.give_back()
    }

    /// Whether there is something for `reclaim_step` in the shard. Takes no lock.
    pub fn has_garbage(&self, shard: usize) -> bool {
        self.root_word(shard, QUEUE_ROOT) != 0
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

impl Txn<'_> {
    fn expire_some(&mut self, db: Db, budget: usize, progress: &mut Progress) {
        let place = Place { shard: 0, db: self.physical(db) };
        if self.counts(place).expiring == 0 {
            return;
        }
        let cursor = &self.side(0).expire_cursors[db.number()];
        let (mut expired, mut behind): (Vec<Ptr>, Vec<Ptr>) = (Vec::new(), Vec::new());
        let shard: &Shard<'_> = &self.shards[0];
        let from = cursor.load(Relaxed);
        let (mut at, mut looked_at) = (from, 0);
        let (mut ttl_sum, mut ttl_keys) = (0, 0);
        // A sparse index gives few entries a call: calls are bounded, too.
        for _ in 0..budget {
            at = self.expiry_index(place).scan(shard, at, 1, |entry| {
                looked_at += 1;
                if let Some(ttl) = entry::expiry(shard, entry).checked_sub(self.now()) {
                    (ttl_sum, ttl_keys) = (ttl_sum + u128::from(ttl), ttl_keys + 1);
                }
                if entry::is_expired(shard, entry, self.now()) {
                    expired.push(entry);
                } else if self.is_behind(place, entry) {
                    behind.push(entry);
                }
            });
            if at == 0 || looked_at >= budget {
                break;
            }
        }
        cursor.store(at, Relaxed);
        self.side(0).mean_ttls[db.number()].note(ttl_sum, ttl_keys);
        progress.looked_at += looked_at;
        for at in expired {
            progress.done += usize::from(self.expire_entry(place, db, at));
        }
        for at in behind {
            let fields = self.expire_fields_of(db, at);
            progress.done += fields;
            // There are more than a step deletes: the next one comes here again.
            if fields > 0 && self.is_behind(place, at) {
                cursor.store(from, Relaxed);
            }
        }
    }

    /// Deletes expired fields of a hash; how many.
    fn expire_fields_of(&mut self, db: Db, at: Ptr) -> usize {
        let bytes = entry::key(&self.shards[0], at).into_owned();
        let key = self.key(&bytes);
        let savepoint = self.savepoint();
        self.expire_fields(db, &key).unwrap_or_else(|_| {
            // No room even for that, or damaged: the fields stay, as expired as before.
            self.rollback_to(savepoint);
            0
        })
    }

    fn expire_entry(&mut self, place: Place, db: Db, at: Ptr) -> bool {
        let bytes = entry::key(&self.shards[0], at).into_owned();
        let key = self.key(&bytes);
        let savepoint = self.savepoint();
        match self.slot_mut(place, db, &key) {
            Ok(_) => true,
            Err(_) => {
                // No room even for a delete: the key stays, as expired as before.
                self.rollback_to(savepoint);
                false
            }
        }
    }
}
