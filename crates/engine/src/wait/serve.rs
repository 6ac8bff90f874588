//! Serving blocked clients from keys that were filled.
//!
//! All clients that one command or EXEC lets go are served in one transaction on the locks of that
//! command: one commit, one fence, one record in the log. Replies leave the waiters only after it.
//! If it cannot be committed (the heap is full), no client was served; the keys are kept, and tried
//! again periodically.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use keyspace::{Db, Key, Losses, Txn, Type};
use resp::Writer;
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::execute::commit::{Role, Shown, Unit};
use crate::failure::{Done, Failure, READ_ONLY};
use crate::log::Effects;
use crate::session::client::{Served, Serving, Waiter};
use crate::table::spec::WRITE;
use crate::wait::waiting::BlockedKey;

/// The number of further rounds in which a thread serves after its own command.
const ROUNDS: usize = 256;

/// The result of an attempt to serve a client.
#[derive(PartialEq, Eq)]
enum Attempt {
    /// It has a reply.
    Served,
    /// There is nothing for it in the key.
    Nothing,
    /// Neither it nor those after it can be served now.
    Stuck,
    /// Not under these locks.
    NotLocked,
}

/// One transaction that serves blocked clients.
struct Round<'e> {
    engine: &'e Engine,
    thread: usize,
    /// Keys to look at, in order; each once.
    ready: VecDeque<BlockedKey>,
    listed: HashSet<BlockedKey>,
    /// Keys that were looked at.
    visited: Vec<BlockedKey>,
    served: Vec<Served>,
    effects: Effects,
    /// Keys that were the source or target of a move, or that an error tells of.
    shown: Vec<BlockedKey>,
    /// The medium's losses before the locks were taken.
    losses: Losses,
}

/// The clients that wait for keys.
#[derive(Clone, Copy)]
pub struct BlockedClients<'e> {
    pub(super) engine: &'e Engine,
}

impl Engine {
    /// Returns its clients that wait for keys.
    #[inline]
    pub fn blocked_clients(&self) -> BlockedClients<'_> {
        BlockedClients { engine: self }
    }
}

impl BlockedClients<'_> {
    /// Serves the clients that wait for what the transaction changed, which is committed and still
    /// holds its locks. `changed` says that it changed what it lists, `databases` that it may have
    /// changed whole databases; `thread` is the number of this thread. Returns false if serving
    /// could not be committed: the transaction cannot be used any more then.
    #[inline]
    pub(crate) fn serve(
        &self,
        txn: &mut Txn<'_>,
        changed: bool,
        databases: bool,
        thread: usize,
        losses: Losses,
    ) -> bool {
        if self.engine.waiting().is_empty() || !(changed || databases) {
            return true;
        }
        let mut round = Round::new(self.engine, thread, losses);
        for change in txn.changes().take(if changed { usize::MAX } else { 0 }) {
            round.list(change.db, change.key);
        }
        if databases {
            self.engine.waiting().keys().iter().for_each(|(db, key)| round.list(*db, key));
        }
        round.serve_all(txn)
    }

    /// Tries again to serve clients that could not be served. To be called periodically, with no
    /// shard locked. `thread` is the number of this thread.
    pub fn retry_deferred(&self, thread: usize) {
        let failed = self.engine.deferred().failed.take();
        if !failed.is_empty() && self.engine.keyspace().has_unresolved_losses() {
            self.engine.keyspace().resolve_losses();
        }
        failed.into_iter().for_each(|place| self.serve_key(thread, place));
        self.retry_locked(thread);
    }

    /// Returns true if clients are to be served as soon as others have unlocked a shard.
    #[inline]
    pub fn must_retry_locked(&self) -> bool {
        !self.engine.deferred().contended.is_empty()
    }

    /// Tries again to serve clients whose shards were locked. To be called soon after
    /// [`BlockedClients::must_retry_locked`] returned true, with no shard locked.
    pub fn retry_locked(&self, thread: usize) {
        let contended = self.engine.deferred().contended.take();
        contended.into_iter().for_each(|place| self.serve_key(thread, place));
        self.serve_deferred(thread);
    }

    /// Serves, in rounds of their own, the clients for which a round lacked locks. To be called
    /// when a command has released its locks.
    pub(crate) fn serve_deferred(&self, thread: usize) {
        for _ in 0..ROUNDS {
            let places = self.engine.deferred().uncovered.take();
            if places.is_empty() {
                break;
            }
            places.into_iter().for_each(|place| self.serve_key(thread, place));
        }
    }

    fn serve_key(&self, thread: usize, (db, bytes): BlockedKey) {
        let key = self.engine.keyspace().key(&bytes);
        let losses = self.engine.keyspace().losses();
        let Some(mut txn) = self.engine.lock_to_serve(&key) else {
            self.engine.deferred().contended.add([(db, bytes)]);
            return;
        };
        let mut round = Round::new(self.engine, thread, losses);
        round.list(db, &bytes);
        round.serve_all(&mut txn);
    }
}

impl<'e> Round<'e> {
    fn new(engine: &'e Engine, thread: usize, losses: Losses) -> Round<'e> {
        Round {
            engine,
            thread,
            ready: VecDeque::new(),
            listed: HashSet::new(),
            visited: Vec::new(),
            served: Vec::new(),
            effects: engine.new_effects(Vec::new(), engine.collects_commands()),
            shown: Vec::new(),
            losses,
        }
    }

    /// Appends a key to the queue, if a client waits for it.
    fn list(&mut self, db: Db, bytes: &[u8]) {
        let key = self.engine.keyspace().key(bytes);
        if self.engine.waiting().has(&key) && self.listed.insert((db, bytes.into())) {
            self.ready.push_back((db, bytes.into()));
        }
    }

    /// Serves the listed keys. Returns false if that could not be committed.
    fn serve_all(mut self, txn: &mut Txn<'_>) -> bool {
        while let Some(place) = self.ready.pop_front() {
            self.listed.remove(&place);
            let (db, bytes) = &place;
            let key = self.engine.keyspace().key(bytes);
            if !txn.covers(&key) {
                self.engine.deferred().uncovered.add([place]);
                continue;
            }
            for what in self.engine.waiting().wanted(*db, &key) {
                if holds(txn, *db, &key, what) {
                    self.serve_key(txn, *db, &key, what);
                } else if txn.lost(*db, &key).is_none()
                    && self.engine.waiting().ends_with(*db, &key, what)
                {
                    self.end_lost(*db, &key, what);
                }
            }
            self.visited.push(place);
        }
        self.commit(txn)
    }

    /// Serves the clients that wait for the key to hold `what`, as long as it does. A client that
    /// was served has left the queue, so that it is not found again when the key is filled once
    /// more.
    fn serve_key(&mut self, txn: &mut Txn<'_>, db: Db, key: &Key<'_>, what: Type) {
        let mut after = None;
        while holds(txn, db, key, what)
            && let Some(waiter) = self.engine.waiting().next(db, key, what, after)
        {
            after = Some(waiter.ticket);
            if !waiter.claim() {
                continue;
            }
            let attempt = self.serve_one(txn, &waiter, db, key);
            if attempt != Attempt::Served {
                waiter.release();
            }
            let deferred = self.engine.deferred();
            let place = || (db, key.bytes().into());
            match attempt {
                Attempt::Served | Attempt::Nothing => {}
                Attempt::Stuck => return deferred.failed.add([place()]),
                Attempt::NotLocked => return deferred.uncovered.add([place()]),
            }
        }
    }

    /// Serves a claimed client.
    fn serve_one(
        &mut self,
        txn: &mut Txn<'_>,
        waiter: &Arc<Waiter>,
        db: Db,
        key: &Key<'_>,
    ) -> Attempt {
        if let Err(failure) = self.may_still_execute(waiter) {
            self.refuse(waiter, db, key, &failure);
            return Attempt::Served;
        }
        let target = waiter.operation.target().map(|target| self.engine.keyspace().key(target));
        if target.is_some_and(|target| !txn.covers(&target)) {
            return Attempt::NotLocked;
        }
        let touched: SmallVec<[Key<'_>; 2]> = [*key].into_iter().chain(target).collect();
        let (savepoint, mark) = (txn.savepoint_of(&touched), self.effects.mark());
        let mut out = Writer::new(waiter.protocol);
        let mut serving = Serving {
            config: self.engine.config(),
            stats: self.engine.stats(),
            db,
            out: &mut out,
            thread: self.thread,
            effects: &mut self.effects,
        };
        let done = match target.and_then(|target| txn.lost(db, &target)) {
            Some(at) => Err(Failure::damaged(at)),
            None => waiter.operation.serve(&mut serving, txn, key),
        };
        if !matches!(done, Ok(true)) {
            txn.rollback_to(savepoint);
            self.effects.truncate(mark);
        }
        match done {
            Ok(true) => {
                self.show(db, &touched);
                if let Some(target) = &target {
                    self.list(db, target.bytes());
                }
                self.record_served(Arc::clone(waiter), out.take(), None);
                Attempt::Served
            }
            Ok(false) => Attempt::Nothing,
            Err(failure) if failure.is_out_of_memory() || failure.has_unresolved_losses() => {
                Attempt::Stuck
            }
            Err(failure) => {
                self.show(db, &touched);
                self.refuse(waiter, db, key, &failure);
                Attempt::Served
            }
        }
    }

    /// Refuses the operation of a client that may not execute it any more.
    fn may_still_execute(&self, waiter: &Waiter) -> Done {
        let writes = self.engine.table().all()[waiter.command.id].spec.has(WRITE);
        if writes && self.engine.config().is_read_only_replica() {
            return Err(READ_ONLY.into());
        }
        self.engine.permissions().check_blocked(waiter)
    }

    /// Records a client whose reply is an error that tells of the key.
    fn refuse(&mut self, waiter: &Arc<Waiter>, db: Db, key: &Key<'_>, failure: &Failure) {
        self.show(db, &[*key]);
        let reply = waiter.error(failure.as_bytes());
        self.record_served(Arc::clone(waiter), reply, Some(failure.code().to_vec()));
    }

    /// Records keys that a reply tells of.
    fn show(&mut self, db: Db, keys: &[Key<'_>]) {
        self.shown.extend(keys.iter().map(|key| (db, key.bytes().into())));
    }

    /// Records a client that is to be let go, which leaves its queues.
    fn record_served(&mut self, waiter: Arc<Waiter>, reply: Vec<u8>, failed: Option<Vec<u8>>) {
        self.engine.waiting().leave(self.engine.keyspace(), &waiter);
        self.served.push(Served { waiter, reply, failed });
    }

    /// Ends the wait of clients that do not wait on when the key holds nothing of this type.
    fn end_lost(&mut self, db: Db, key: &Key<'_>, what: Type) {
        let mut after = None;
        while let Some(waiter) = self.engine.waiting().next(db, key, what, after) {
            after = Some(waiter.ticket);
            let Some(failure) = waiter.operation.lost() else { continue };
            if waiter.claim() {
                let denied = self.engine.permissions().check_blocked(&waiter).err();
                self.refuse(&waiter, db, key, &denied.unwrap_or(failure));
            }
        }
    }

    /// Commits it, which lets the clients go. If that fails, all wait on, and are tried again later
    /// at each of their keys: others may have filled one while they were in no queue.
    fn commit(mut self, txn: &mut Txn<'_>) -> bool {
        let keyspace = self.engine.keyspace();
        let done = if self.served.is_empty() {
            !keyspace.has_lost_since(self.losses)
        } else {
            let keys: Vec<Key<'_>> = self.shown.iter().map(|(_, key)| keyspace.key(key)).collect();
            let mut unit = Unit {
                engine: self.engine,
                session: None,
                effects: &mut self.effects,
                shown: Shown::Keys(&keys),
                role: Role::Serve(&mut self.served),
                losses: self.losses,
            };
            unit.commit_and_notify(txn).is_ok()
        };
        if !done {
            self.fail();
        }
        done
    }

    #[cold]
    fn fail(self) {
        let failed = &self.engine.deferred().failed;
        failed.add(self.visited);
        for Served { waiter, .. } in self.served {
            self.engine.waiting().enter(self.engine.keyspace(), &waiter);
            failed.add(waiter.keys.iter().map(|key| (waiter.db, key.clone())));
            waiter.release();
        }
    }
}

fn holds(txn: &Txn<'_>, db: Db, key: &Key<'_>, what: Type) -> bool {
    txn.peek(db, key).is_some_and(|entry| txn.properties(&entry).value_type() == what)
}
