//! Transactions that do not know their keys in advance.
//!
//! A transaction with declared keys locks their shards in ascending order, so that transactions
//! never wait for each other in a circle. One that declares nothing locks the shard of its first
//! key, waiting for it, and each further one when its key is first used, if no other thread has
//! locked it. Otherwise the attempt ends: its changes are dropped, its locks are released, and the
//! closure runs again with all the shards that it asked for, locked in order. So no thread waits
//! while it holds a lock. After a bounded number of attempts the whole store is locked, so that no
//! lock can be missing.

use std::cell::RefCell;

use keyspace::{Db, KeyDamage, Losses};

use crate::operations::Open;
use crate::reentry::Entered;
use crate::{Database, Error, Perdura, Transaction};

/// Attempts before the whole store is locked.
const ATTEMPTS: usize = 8;

/// The locks that an attempt of a transaction without declared keys has asked for.
pub(crate) struct Growth<'s> {
    store: &'s Perdura,
    state: RefCell<Wanted>,
}

#[derive(Default)]
struct Wanted {
    shards: Vec<usize>,
    /// Whether another thread had locked one of them: the attempt is void.
    conflict: bool,
}

/// The end of an attempt; none if another thread had locked a shard that it needed.
type Attempted<R, E> = Option<Ended<R, E>>;

struct Ended<R, E> {
    result: Result<R, E>,
    /// The journal's position after it.
    seen: u64,
    /// The shards that it changed, if any call waits. (A transaction that changed nothing wakes
    /// nobody, least of all itself.)
    changed: Vec<usize>,
}

impl<'s> Growth<'s> {
    fn new(store: &'s Perdura, shards: &[usize]) -> Growth<'s> {
        let state = Wanted { shards: shards.to_vec(), conflict: false };
        Growth { store, state: RefCell::new(state) }
    }

    /// Locks the shards that an operation on these keys needs.
    pub(crate) fn cover(&self, open: &mut Open<'s>, keys: &[&[u8]]) -> Result<(), Error> {
        let mut wanted = self.state.borrow_mut();
        for key in keys {
            if wanted.conflict {
                return Err(Error::Conflict);
            }
            let key = self.store.keyspace.key(key);
            if !open.txn.covers(&key) {
                wanted.shards.push(key.shard());
                let is_first = open.txn.locked().next().is_none();
                if is_first {
                    open.txn = self.store.keyspace.begin_one(key.shard(), open.txn.now());
                } else if !open.txn.try_extend(key.shard()) {
                    wanted.conflict = true;
                    return Err(Error::Conflict);
                }
            }
            if let Some(at) = open.txn.lost(open.db, &key) {
                return Err(Error::Damaged(at));
            }
        }
        Ok(())
    }
}

impl Perdura {
    /// Runs `work` all or nothing, without declared keys: an error, or a panic, undoes its changes.
    /// Nobody else sees or changes the keys that it has used until it ends.
    ///
    /// If another thread uses one of these keys, `work` runs again, so that it may run several
    /// times before its changes are committed: its effects outside the transaction must tolerate
    /// that. [`Error::Conflict`] tells `work` so; it is returned nowhere else. After eight attempts
    /// the whole store is locked, and `work` runs for the last time. If the keys are known in
    /// advance, declaring them is cheaper: [`Perdura::transaction`]. Calls of the store inside
    /// `work` return [`Error::Reentrant`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// store.set("head", "node:7")?;
    /// store.set("node:7", "first")?;
    ///
    /// let moved = store.transact(|tx| {
    ///     let Some(node) = tx.get("head")? else { return Ok(false) };
    ///     tx.rename(&node, "taken")?; // a key that was read a moment ago
    ///     tx.delete("head")
    /// })?;
    /// assert!(moved);
    /// assert_eq!(store.get("taken")?.as_deref(), Some(&b"first"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn transact<R>(
        &self,
        work: impl FnMut(&mut Transaction<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.transact_in(Db::default(), work)
    }

    /// Runs `work` like [`Perdura::transact`]; it may fail with an error of its own, which undoes
    /// its changes.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Error, Options, Perdura};
    ///
    /// #[derive(Debug, PartialEq)]
    /// enum Refusal {
    ///     Broke,
    ///     Store(Error),
    /// }
    ///
    /// impl From<Error> for Refusal {
    ///     fn from(error: Error) -> Refusal {
    ///         Refusal::Store(error)
    ///     }
    /// }
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// let paid = store.try_transact(|tx| {
    ///     if tx.increment("anna", -30)? < 0 { Err(Refusal::Broke) } else { Ok(()) }
    /// });
    /// assert_eq!((paid, store.exists("anna")?), (Err(Refusal::Broke), false));
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_transact<R, E: From<Error>>(
        &self,
        work: impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.transact_in(Db::default(), work)
    }

    fn transact_in<R, E: From<Error>>(
        &self,
        db: Db,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let entered = Entered::new(&self.keyspace)?;
        let mut shards = Vec::new();
        let mut attempts = 0;
        loop {
            let lock_all = attempts == ATTEMPTS;
            self.make_space_ahead();
            let done = self.attempt(|losses| {
                self.attempt_transact(db, losses, lock_all, &mut shards, &mut work)
            })?;
            if let Some(Ended { result, seen, changed }) = done {
                drop(entered);
                self.waiting.wake(&changed);
                self.acknowledge(seen)?;
                return result;
            }
            // With every shard locked there is no conflict, so that this loop ends.
            attempts += 1;
        }
    }

    /// Runs `work` once. Returns its result and the journal's position after it, or none if it
    /// needs shards that another thread had locked; `shards` then has all that it asked for.
    fn attempt_transact<R, E: From<Error>>(
        &self,
        db: Db,
        losses: Losses,
        lock_all: bool,
        shards: &mut Vec<usize>,
        work: &mut impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<Attempted<R, E>, Error> {
        self.refuse_stopped(db)?;
        let txn = match lock_all {
            true => self.keyspace.begin_all(self.now()),
            false => self.keyspace.begin(shards, self.now()),
        };
        let mut tx = Transaction::growing(txn, db, Growth::new(self, shards));
        let result = work(&mut tx);
        self.keyspace.check_losses(losses)?;
        let (open, growth) = tx.parts();
        let wanted = growth.map(|growth| growth.state.take()).unwrap_or_default();
        *shards = wanted.shards;
        if wanted.conflict {
            return Ok(None);
        }
        let mut changed = Vec::new();
        if result.is_ok() && !self.waiting.is_idle() {
            changed.extend(open.txn.dirty());
        }
        if result.is_ok() && open.txn.locked().next().is_some() {
            self.commit(&mut open.txn)?;
        }
        Ok(Some(Ended { result, seen: self.seen(&open.txn), changed }))
    }

    /// Refuses a transaction in a store whose damage may hide any key.
    fn refuse_stopped(&self, db: Db) -> Result<(), Error> {
        if !self.keyspace.has_media_errors() {
            return Ok(());
        }
        match self.keyspace.key_damage(db, &self.keyspace.key(b"")) {
            Some(KeyDamage::Stopped(_)) => Err(Error::ReadOnly),
            // Damage of one key: each key that is used is checked.
            Some(KeyDamage::Unidentified(_)) | None => Ok(()),
        }
    }
}

impl Database<'_> {
    /// Runs `work` like [`Perdura::transact`], but begins in this database.
    pub fn transact<R>(
        &self,
        work: impl FnMut(&mut Transaction<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.store.transact_in(self.db, work)
    }

    /// Runs `work` like [`Perdura::try_transact`], but begins in this database.
    pub fn try_transact<R, E: From<Error>>(
        &self,
        work: impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.store.transact_in(self.db, work)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Condvar, Mutex};
    use std::thread;
    use std::time::Duration;

    use heap::{CreateOptions, Geometry, Heap};
    use keyspace::Keyspace;

    use super::*;
    use crate::Perdura;
    use crate::prelude::*;
    use crate::wait::Waiting;

    /// The attempts of a transaction, and the keys of others that it met.
    #[derive(Default)]
    struct State {
        attempts: usize,
        /// Keys of others that it met.
        met: BTreeSet<usize>,
        /// Whether no attempt meets anybody any more.
        is_over: bool,
        /// Threads that have locked their key.
        holders: usize,
    }

    #[derive(Default)]
    struct Shared {
        state: Mutex<State>,
        changed: Condvar,
    }

    impl Shared {
        fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
            let done = change(&mut self.state.lock().expect("no panic"));
            self.changed.notify_all();
            done
        }

        fn wait(&self, until: impl Fn(&State) -> bool) {
            let state = self.state.lock().expect("no panic");
            drop(self.changed.wait_while(state, |state| !until(state)).expect("no panic"));
        }

        /// Locks a key until the transaction has met it.
        fn hold(&self, store: &Perdura, key: usize, name: &str) {
            let held = store.transaction(&[name], |_| {
                self.change(|state| state.holders += 1);
                self.wait(|state| state.met.contains(&key) || state.is_over);
                // Who does not wait for the lock now meets it again.
                thread::sleep(Duration::from_millis(2));
                Ok(())
            });
            assert_eq!(held, Ok(()));
        }

        /// Makes the transaction. Returns its attempts.
        fn transact(&self, store: &Perdura, names: &[String], uses: &[Vec<usize>]) -> usize {
            let done = store.transact(|tx| {
                let attempt = self.change(|state| {
                    state.attempts += 1;
                    state.attempts
                });
                uses[attempt.min(uses.len()) - 1].iter().try_for_each(|&key| {
                    let found = tx.exists(&names[key]);
                    if found.is_err() {
                        self.change(|state| {
                            state.met.insert(key);
                            state.is_over = attempt >= ATTEMPTS;
                        });
                    }
                    found.map(drop)
                })
            });
            let attempts = self.change(|state| {
                state.is_over = true;
                state.attempts
            });
            assert_eq!(done, Ok(()));
            attempts
        }
    }

    /// Returns a store that has many shards, whatever machine this is.
    fn store() -> Perdura {
        let geometry = Geometry { shards: 32, ring_parts: 3, ring_part: 4096, zone_spans: 64 };
        let options = CreateOptions { geometry, ..CreateOptions::default() };
        let heap = Heap::volatile(64 << 20, &options).expect("a heap");
        let keyspace = Arc::new(Keyspace::new(heap, 0));
        Perdura {
            background: None,
            journaled: None,
            waiting: Waiting::new(keyspace.shards()),
            first_lsn: keyspace.heap().lsn(),
            keyspace,
            clock: || 0,
            compaction: Arc::default(),
        }
    }

    /// Returns the names of keys of as many shards.
    fn names(store: &Perdura, count: usize) -> Vec<String> {
        assert!(count <= store.keyspace.shards());
        let mut shards = BTreeSet::new();
        let all = (0..).map(|n| format!("key{n}"));
        let shard = |key: &str| store.keyspace.key(key.as_bytes()).shard();
        all.filter(|key| shards.insert(shard(key))).take(count).collect()
    }

    /// Returns how many attempts a transaction makes that uses these keys in each, if others hold
    /// some of them until it has met them.
    fn expected(uses: &[Vec<usize>], held: &BTreeSet<usize>) -> usize {
        let (mut locked, mut held) = (BTreeSet::new(), held.clone());
        for (attempt, keys) in uses.iter().enumerate().take(ATTEMPTS) {
            let is_met = |key: &&usize| locked.insert(**key) && held.contains(*key);
            match keys.iter().find(is_met) {
                Some(key) => held.remove(key),
                None => return attempt + 1,
            };
        }
        ATTEMPTS + 1
    }

    #[test]
    fn an_attempt_has_the_locks_of_those_before_it_and_the_last_one_all() {
        const KEYS: usize = 14;
        let store = store();
        let names = names(&store, KEYS);
        for seed in 0..40 {
            let mut rng = fastrand::Rng::with_seed(seed);
            // Nobody holds the first key, for which a transaction waits.
            let held: BTreeSet<usize> = (1..KEYS).filter(|_| rng.u8(..4) > 0).collect();
            // The same keys in each attempt, or others.
            let is_same = rng.bool();
            let most = if is_same { KEYS - 1 } else { 3 };
            let mut draw = || {
                let mut keys: Vec<usize> = (1..KEYS).collect();
                rng.shuffle(&mut keys);
                keys.truncate(rng.usize(1..=most));
                [vec![0], keys].concat()
            };
            let first = draw();
            let mut next = || if is_same { first.clone() } else { draw() };
            let uses: Vec<Vec<usize>> = (0..=ATTEMPTS).map(|_| next()).collect();
            let shared = Shared::default();
            thread::scope(|scope| {
                for &key in &held {
                    let (shared, store, name) = (&shared, &store, &names[key]);
                    scope.spawn(move || shared.hold(store, key, name));
                }
                shared.wait(|state| state.holders == held.len());
                let attempts = shared.transact(&store, &names, &uses);
                assert_eq!(attempts, expected(&uses, &held), "seed {seed}: {uses:?}, {held:?}");
            });
        }
    }
}
