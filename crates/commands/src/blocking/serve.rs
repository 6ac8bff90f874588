//! Serving blocked clients from keys that were filled.
//!
//! All clients that one command or EXEC lets go are served in one transaction on the locks of that command: one commit,
//! one fence, one record in the log. Replies leave the waiters only after it. Where it cannot be committed (the heap is
//! full) nobody was served; the keys are kept, and tried again by and by.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use keyspace::{Db, Key, Txn, Type};
use resp::Writer;
use smallvec::SmallVec;

use super::waiter::{Ending, Waiter};
use super::wish::Serving;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::log::Effects;

/// A key in a database.
type Place = (Db, Box<[u8]>);

/// Keys that hold something for clients whom nobody could serve.
#[derive(Default)]
pub(crate) struct Missed {
    any: AtomicBool,
    places: Mutex<Vec<Place>>,
}

impl Missed {
    fn add(&self, places: Vec<Place>) {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).extend(places);
        self.any.store(true, Relaxed);
    }

    fn take(&self) -> Vec<Place> {
        if !self.any.swap(false, Relaxed) {
            return Vec::new();
        }
        std::mem::take(&mut self.places.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A client that was served in a transaction that is not committed yet.
struct Served {
    waiter: Arc<Waiter>,
    reply: Vec<u8>,
    /// The code of its error.
    failed: Option<Vec<u8>>,
}

/// One transaction that serves.
struct Round<'e> {
    engine: &'e Engine,
    /// Keys to look at, in order; each once.
    ready: VecDeque<Place>,
    listed: HashSet<Place>,
    served: Vec<Served>,
    effects: Effects,
    /// Keys from which and to which something was moved.
    changed: Vec<Place>,
}

impl Engine {
    /// Locks also what serving those who wait for `keys` will need: the targets of moves, and of those who wait for these.
    /// `txn` holds the shards of `keys` and nothing was done in it yet.
    pub(crate) fn cover<'k>(&'k self, txn: Txn<'k>, keys: &[Key<'_>]) -> Txn<'k> {
        let mut txn = txn;
        let mut shards: SmallVec<[usize; 8]> = keys.iter().map(Key::shard).collect();
        while !self.waiting().has_no_targets() && !txn.covers_all() {
            let before = shards.len();
            self.add_targets(&txn, keys, &mut shards);
            if shards.len() == before {
                break;
            }
            let now = txn.now();
            drop(txn);
            txn = self.keyspace().begin(&shards, now);
        }
        txn
    }

    /// Adds the shards of all targets that the transaction does not hold.
    fn add_targets(&self, txn: &Txn<'_>, keys: &[Key<'_>], shards: &mut SmallVec<[usize; 8]>) {
        let mut seen: HashSet<Box<[u8]>> = HashSet::new();
        let mut found: Vec<Box<[u8]>> =
            keys.iter().flat_map(|key| self.waiting().targets(key)).collect();
        while let Some(bytes) = found.pop() {
            let key = self.keyspace().key(&bytes);
            if !txn.covers(&key) {
                shards.push(key.shard());
            }
            let more = self.waiting().targets(&key);
            if seen.insert(bytes) {
                found.extend(more);
            }
        }
    }

    /// Serves those who wait for what the transaction changed. It was committed and holds its locks; `all` says that it may
    /// have changed whole databases.
    pub(crate) fn serve_waiting(&self, txn: &mut Txn<'_>, all: bool) {
        if self.waiting().is_empty() {
            return;
        }
        let mut round = Round::new(self);
        for change in txn.changes() {
            round.list(change.db, change.key);
        }
        if all {
            self.waiting().keys().iter().for_each(|(db, key)| round.list(*db, key));
        }
        round.run(txn);
    }

    /// Tries again to serve those whom nobody could serve. To be called now and then, with no shard locked.
    pub fn serve_missed(&self) {
        for (db, bytes) in self.missed().take() {
            let key = self.keyspace().key(&bytes);
            let now = self.clock().unix_ms();
            let txn = self.keyspace().begin_one(key.shard(), now);
            let mut txn = self.cover(txn, &[key]);
            let mut round = Round::new(self);
            round.list(db, &bytes);
            round.run(&mut txn);
        }
    }
}

impl<'e> Round<'e> {
    fn new(engine: &'e Engine) -> Round<'e> {
        Round {
            engine,
            ready: VecDeque::new(),
            listed: HashSet::new(),
            served: Vec::new(),
            effects: Effects::new(Vec::new(), engine.log().is_some()),
            changed: Vec::new(),
        }
    }

    /// Puts a key behind the others, if anybody waits for it.
    fn list(&mut self, db: Db, bytes: &[u8]) {
        let key = self.engine.keyspace().key(bytes);
        if self.engine.waiting().has(&key) && self.listed.insert((db, bytes.into())) {
            self.ready.push_back((db, bytes.into()));
        }
    }

    fn run(mut self, txn: &mut Txn<'_>) {
        while let Some(place) = self.ready.pop_front() {
            self.listed.remove(&place);
            let (db, bytes) = &place;
            let key = self.engine.keyspace().key(bytes);
            if !txn.covers(&key) {
                continue;
            }
            for what in self.engine.waiting().wanted(*db, &key) {
                if holds(txn, *db, &key, what) {
                    self.serve_key(txn, *db, &key, what);
                } else {
                    self.end_lost(*db, &key, what);
                }
            }
        }
        self.commit(txn);
    }

    /// Serves those who wait for the key to hold `what`, as long as it does.
    fn serve_key(&mut self, txn: &mut Txn<'_>, db: Db, key: &Key<'_>, what: Type) {
        let mut behind = None;
        while holds(txn, db, key, what)
            && let Some(waiter) = self.engine.waiting().next(db, key, what, behind)
        {
            behind = Some(waiter.ticket);
            if waiter.claim() && !self.serve_one(txn, &waiter, db, key) {
                waiter.release();
            }
        }
    }

    /// Serves a claimed client; `false` if it is to wait on.
    fn serve_one(
        &mut self,
        txn: &mut Txn<'_>,
        waiter: &Arc<Waiter>,
        db: Db,
        key: &Key<'_>,
    ) -> bool {
        let target = waiter.wish.target().map(|target| self.engine.keyspace().key(target));
        if target.is_some_and(|target| !txn.covers(&target)) {
            self.engine.missed().add(vec![(db, key.bytes().into())]);
            return false;
        }
        let touched: SmallVec<[Key<'_>; 2]> = [*key].into_iter().chain(target).collect();
        let (savepoint, mark) = (txn.savepoint_of(&touched), self.effects.mark());
        let mut out = Writer::new(waiter.protocol);
        let mut serving = Serving::new(self.engine, db, &mut out, &mut self.effects);
        let failed = match waiter.wish.serve(&mut serving, txn, key) {
            Ok(true) => None,
            Ok(false) => return false,
            Err(failure) => {
                txn.rollback_to(savepoint);
                self.effects.truncate(mark);
                if failure.is_no_room() || failure.is_unsettled() {
                    self.engine.missed().add(vec![(db, key.bytes().into())]);
                    return false;
                }
                out.clear();
                out.error(failure.as_bytes());
                Some(failure.code().to_vec())
            }
        };
        if failed.is_none() {
            for key in &touched {
                self.changed.push((db, key.bytes().into()));
            }
            if let Some(target) = &target {
                self.list(db, target.bytes());
            }
        }
        self.served.push(Served { waiter: Arc::clone(waiter), reply: out.take(), failed });
        true
    }

    /// Ends the wait of those for whom a key that is gone, or has another type, is the end.
    fn end_lost(&mut self, db: Db, key: &Key<'_>, what: Type) {
        let mut behind = None;
        while let Some(waiter) = self.engine.waiting().next(db, key, what, behind) {
            behind = Some(waiter.ticket);
            let Some(failure) = waiter.wish.lost() else { continue };
            if waiter.claim() {
                let mut out = Writer::new(waiter.protocol);
                out.error(failure.as_bytes());
                let failed = Some(failure.code().to_vec());
                self.served.push(Served { waiter, reply: out.take(), failed });
            }
        }
    }

    /// Makes it durable and lets the clients go; all wait on where that fails.
    fn commit(mut self, txn: &mut Txn<'_>) {
        if self.served.is_empty() {
            return;
        }
        let keyspace = self.engine.keyspace();
        let keys: Vec<Key<'_>> = self.changed.iter().map(|(_, key)| keyspace.key(key)).collect();
        let durable_at = match keys.as_slice() {
            _ if keyspace.is_unsettled() => Err(Failure::unsettled()),
            [] => Ok(0),
            keys => self.engine.commit(txn, &mut self.effects, keys),
        };
        let Ok(durable_at) = durable_at else {
            self.served.iter().for_each(|served| served.waiter.release());
            self.engine.missed().add(self.changed);
            return;
        };
        for Served { waiter, reply, failed } in self.served {
            self.engine.waiting().leave(keyspace, &waiter);
            if let Some(code) = &failed {
                self.engine.stats().error(code);
            }
            waiter.end(Ending { reply, durable_at, failed: failed.is_some() });
        }
    }
}

fn holds(txn: &Txn<'_>, db: Db, key: &Key<'_>, what: Type) -> bool {
    txn.peek(db, key).is_some_and(|entry| txn.type_of(&entry) == what)
}
