//! The blocked clients of each key: per shard, from a key to queues of clients.
//!
//! A key has a queue for each database and type that is waited for, so that clients that wait for
//! another type are not in the way. A queue is ordered by tickets: the first client, the next one
//! after a ticket, and one to remove are found without looking at others.
//!
//! Queues are filled and searched under the lock of the shard, but emptied also without it: a
//! client that has left is never found.

mod deferred;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keyspace::{Db, Key, Keyspace, Type};

pub(crate) use deferred::{BlockedKey, Deferred};

use crate::session::client::Waiter;

/// The clients that wait for one key in one database to hold one type.
struct Queue {
    db: Db,
    what: Type,
    waiters: BTreeMap<u64, Arc<Waiter>>,
    /// The number of those whose wait ends when the key is lost.
    losing: usize,
}

type Queues = HashMap<Box<[u8]>, Vec<Queue>>;

/// All blocked clients.
pub(crate) struct Waiting {
    tickets: AtomicU64,
    /// Blocked clients that wait for keys.
    count: AtomicUsize,
    /// The number of those that have a target.
    movers: AtomicUsize,
    shards: Box<[Mutex<Queues>]>,
}

impl Waiting {
    pub(crate) fn new(shards: usize) -> Waiting {
        Waiting {
            tickets: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            movers: AtomicUsize::new(0),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
        }
    }

    fn queues(&self, shard: usize) -> MutexGuard<'_, Queues> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Relaxed)
    }

    /// Returns true if no client waits for any key. Exact for the keys of shards that the caller
    /// has locked.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Returns true if no client waits for a key in order to write to another one.
    #[inline]
    pub(crate) fn has_no_targets(&self) -> bool {
        self.movers.load(Relaxed) == 0
    }

    /// Adds a waiter to the queues of its keys, whose shards are locked.
    pub(crate) fn enter(&self, keyspace: &Keyspace, waiter: &Arc<Waiter>) {
        if waiter.keys.is_empty() {
            return;
        }
        self.count.fetch_add(1, Relaxed);
        self.movers.fetch_add(usize::from(waiter.operation.target().is_some()), Relaxed);
        for bytes in &waiter.keys {
            let shard = keyspace.key(bytes).shard();
            keyspace.listen(shard);
            let mut queues = self.queues(shard);
            let queues = queues.entry(bytes.clone()).or_default();
            let same = |queue: &Queue| (queue.db, queue.what) == (waiter.db, waiter.what);
            let at = queues.iter().position(same).unwrap_or_else(|| {
                let (db, what) = (waiter.db, waiter.what);
                queues.push(Queue { db, what, waiters: BTreeMap::new(), losing: 0 });
                queues.len() - 1
            });
            queues[at].waiters.insert(waiter.ticket, Arc::clone(waiter));
            queues[at].losing += usize::from(waiter.operation.lost().is_some());
        }
    }

    /// Removes a waiter from the queues of its keys. To be called once.
    pub(crate) fn leave(&self, keyspace: &Keyspace, waiter: &Waiter) {
        if waiter.keys.is_empty() {
            return;
        }
        for bytes in &waiter.keys {
            let shard = keyspace.key(bytes).shard();
            let mut table = self.queues(shard);
            if let Some(queues) = table.get_mut(bytes) {
                queues.retain_mut(|queue| {
                    if (queue.db, queue.what) == (waiter.db, waiter.what) {
                        let gone = queue.waiters.remove(&waiter.ticket);
                        let lost = gone.is_some_and(|gone| gone.operation.lost().is_some());
                        queue.losing -= usize::from(lost);
                    }
                    !queue.waiters.is_empty()
                });
                if queues.is_empty() {
                    table.remove(bytes);
                }
            }
            keyspace.unlisten(shard);
        }
        self.movers.fetch_sub(usize::from(waiter.operation.target().is_some()), Relaxed);
        self.count.fetch_sub(1, Relaxed);
    }

    /// Returns true if a client waits for the key, in any database.
    pub(crate) fn has(&self, key: &Key<'_>) -> bool {
        self.queues(key.shard()).contains_key(key.bytes())
    }

    /// Returns the types that clients wait for at a key.
    pub(crate) fn wanted(&self, db: Db, key: &Key<'_>) -> Vec<Type> {
        let table = self.queues(key.shard());
        let queues = table.get(key.bytes()).into_iter().flatten();
        queues.filter(|queue| queue.db == db).map(|queue| queue.what).collect()
    }

    /// Returns the next client after a ticket that waits for a key to hold `what`.
    pub(crate) fn next(
        &self,
        db: Db,
        key: &Key<'_>,
        what: Type,
        after: Option<u64>,
    ) -> Option<Arc<Waiter>> {
        let table = self.queues(key.shard());
        let queues = table.get(key.bytes())?;
        let queue = queues.iter().find(|queue| (queue.db, queue.what) == (db, what))?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        queue.waiters.range((from, Bound::Unbounded)).next().map(|(_, waiter)| Arc::clone(waiter))
    }

    /// Returns every key that clients wait for.
    pub(crate) fn keys(&self) -> Vec<(Db, Box<[u8]>)> {
        let mut all = Vec::new();
        for shard in 0..self.shards.len() {
            for (key, queues) in &*self.queues(shard) {
                all.extend(queues.iter().map(|queue| (queue.db, key.clone())));
            }
        }
        all
    }

    /// Returns true if a client's wait ends when a key holds nothing of this type any more.
    pub(crate) fn ends_with(&self, db: Db, key: &Key<'_>, what: Type) -> bool {
        let table = self.queues(key.shard());
        let queues = table.get(key.bytes()).into_iter().flatten();
        queues.filter(|queue| (queue.db, queue.what) == (db, what)).any(|queue| queue.losing > 0)
    }

    /// Returns the targets of the first clients that wait for a key: of at most `most` clients in
    /// each database and for each type.
    pub(crate) fn targets(&self, key: &Key<'_>, most: usize) -> Vec<Box<[u8]>> {
        let table = self.queues(key.shard());
        let queues = table.get(key.bytes()).into_iter().flatten();
        let first = queues.flat_map(|queue| {
            queue.waiters.values().filter(|waiter| waiter.can_be_served()).take(most)
        });
        let mut targets: Vec<Box<[u8]>> =
            first.filter_map(|waiter| waiter.operation.target().map(Box::from)).collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use crate::session::client::{BlockedCommand, BlockedOperation, Client, Serving};
    use heap::{CreateOptions, Heap};
    use keyspace::Txn;
    use resp::Protocol;

    /// Moves to the key, if there is one; else reads a stream in a group.
    struct Mover(Option<Vec<u8>>);

    impl BlockedOperation for Mover {
        fn serve(
            &self,
            _: &mut Serving<'_>,
            _: &mut Txn<'_>,
            _: &Key<'_>,
        ) -> Result<bool, Failure> {
            Ok(false)
        }

        fn target(&self) -> Option<&[u8]> {
            self.0.as_deref()
        }

        fn lost(&self) -> Option<Failure> {
            self.0.is_none().then(|| "UNBLOCKED the key is gone".into())
        }
    }

    fn waiter(waiting: &Waiting, what: Type, operation: Mover) -> Arc<Waiter> {
        let (client, keys) = (Arc::new(Client::default()), vec![b"key".as_slice().into()]);
        let (ticket, operation) = (waiting.ticket(), Box::new(operation));
        Arc::new(Waiter::new(
            ticket,
            client,
            Db::default(),
            what,
            Protocol::Resp2,
            keys,
            BlockedCommand::new(0, &[]),
            operation,
            None,
        ))
    }

    #[test]
    fn only_who_comes_first_is_looked_at() {
        let heap = Heap::volatile(64 << 20, &CreateOptions::default()).expect("a heap");
        let keyspace = Keyspace::new(heap, 0);
        let waiting = Waiting::new(keyspace.shards());
        let key = keyspace.key(b"key");
        let target = |n: usize| format!("target:{n:04}").into_bytes();
        let all: Vec<Arc<Waiter>> =
            (0..1000).map(|n| waiter(&waiting, Type::List, Mover(Some(target(n))))).collect();
        all.iter().for_each(|waiter| waiting.enter(&keyspace, waiter));
        let names = |range: std::ops::Range<usize>| -> Vec<Box<[u8]>> {
            range.map(|n| target(n).into_boxed_slice()).collect()
        };
        assert_eq!(waiting.targets(&key, 3), names(0..3));
        // A client that is to be closed is passed over.
        all[1].client.killed.store(true, Relaxed);
        assert_eq!(waiting.targets(&key, 1), names(0..1));
        waiting.leave(&keyspace, &all[0]);
        assert_eq!(waiting.targets(&key, 2), names(2..4));
        // A list ends no wait; a stream ends that of a group's reader.
        let db = Db::default();
        assert!(!waiting.ends_with(db, &key, Type::List));
        let reader = waiter(&waiting, Type::Stream, Mover(None));
        waiting.enter(&keyspace, &reader);
        assert!(waiting.ends_with(db, &key, Type::Stream));
        waiting.leave(&keyspace, &reader);
        assert!(!waiting.ends_with(db, &key, Type::Stream));
    }
}
