//! Locks the shards of a unit of work. No other part of the crate opens a transaction.
//!
//! A thread that serves connections waits for no shard: a command whose shards it cannot lock
//! within some microseconds fails with [`Failure::locked`], with nothing done, and the session
//! waits ([`keyspace::ShardWait`]) until the command is executed again. Other threads (the replay
//! of a log, a MIGRATE) wait in the kernel.
//!
//! In addition to the shards of its keys, a command that may fill a key locks the shards needed to
//! serve the clients that wait for it: those of the targets of their moves, and of the moves of
//! clients that wait for these targets.

use std::collections::HashSet;
use std::task::Waker;
use std::time::Duration;

use keyspace::{Key, Keyspace, Prepared, ShardWait, Txn};
use smallvec::SmallVec;

use super::step::Step;
use crate::engine::Engine;
use crate::execute::call::{Call, Next, Outcome};
use crate::failure::{Done, Failure};
use crate::session::Session;
use crate::table::spec::WRITE;

/// In each queue, the shards of the targets of at most this many clients are locked in advance.
pub(crate) const TARGETS_IN_ADVANCE: usize = 16;
/// Maximum number of keys that are looked at to find the targets.
const MOST_TARGETS: usize = 64;

/// The pause between two tries to lock shards that a long script may have locked.
const BETWEEN_TRIES: Duration = Duration::from_micros(200);

/// Tries to lock shards that others have locked, and spins between two tries: some microseconds in
/// all, as long as most commands take.
const TRIES: usize = 16;
const SPINS: usize = 8;
/// Tries of a thread that serves no connections, with pauses between.
const LOOKS: usize = 20;

type Shards = SmallVec<[usize; 8]>;

fn shards_of(keys: &[Key<'_>]) -> Shards {
    keys.iter().map(Key::shard).collect()
}

/// The shards that a call locks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The shards of its keys.
    Keys,
    /// One shard, as a walk through all of them does.
    Shard(usize),
    /// Every shard.
    All,
}

impl Engine {
    /// Locks the shards that a call needs. Fails with [`Failure::locked`] if another thread has
    /// locked one and the session gives way. The call may have come from another thread, or waited,
    /// so permissions that changed meanwhile are checked again.
    #[inline]
    pub(super) fn lock<'k>(&'k self, call: &Call<'_>, scope: Scope) -> Result<Txn<'k>, Failure> {
        let mut txn = self.lock_scope(call, scope)?;
        self.date_uses(call.session, &mut txn);
        self.check_place_locked(call, &txn)?;
        if call.session.has_other_rules() {
            self.permissions().check(call.session, call.command, call.args)?;
        }
        Ok(txn)
    }

    #[inline]
    fn lock_scope<'k>(&'k self, call: &Call<'_>, scope: Scope) -> Result<Txn<'k>, Failure> {
        let (session, now) = (&*call.session, call.now_ms());
        let txn = match (scope, call.keys) {
            (Scope::All, _) => return self.lock_shards(session, &self.all_shards(), now),
            (Scope::Shard(shard), _) => return self.lock_shard(session, shard, now),
            (Scope::Keys, [key]) => self.lock_shard(session, key.shard(), now)?,
            (Scope::Keys, keys) => self.lock_shards(session, &shards_of(keys), now)?,
        };
        if self.waiting().has_no_targets() || !call.command.spec.has(WRITE) {
            return Ok(txn);
        }
        // A command brings no more elements than it has arguments.
        self.extend_lock_set(txn, call.keys, call.args.len(), |shards| {
            self.lock_shards(session, shards, now)
        })
    }

    /// Locks the shards of these keys, or all of them.
    pub fn lock_keys(
        &self,
        session: &Session,
        keys: Option<&[Key<'_>]>,
        now: u64,
    ) -> Result<Txn<'_>, Failure> {
        let mut txn = match keys {
            None => self.lock_shards(session, &self.all_shards(), now)?,
            Some([]) => self.lock_shard(session, 0, now)?,
            Some(keys) => {
                let lock = |shards: &[usize]| self.lock_shards(session, shards, now);
                self.extend_lock_set(lock(&shards_of(keys))?, keys, usize::MAX, lock)?
            }
        };
        self.date_uses(session, &mut txn);
        Ok(txn)
    }

    /// Records uses of keys at the present time: the transaction's own time is 0 during a replay,
    /// so that nothing expires.
    #[inline]
    fn date_uses(&self, session: &Session, txn: &mut Txn<'_>) {
        if session.replay {
            txn.set_used_at(self.clock.unix_ms());
        }
    }

    /// Locks the shards of these keys, or all of them, for a read that belongs to no session. The
    /// caller tries again if that fails.
    pub fn try_lock_keys(&self, keys: Option<&[Key<'_>]>, now: u64) -> Result<Txn<'_>, Failure> {
        let shards = keys.map_or_else(|| self.all_shards(), shards_of);
        // While data is loaded there are no clients yet that would have to wait with the thread.
        if self.config().loading() || self.host().is_none() {
            return self.lock_by_thread(&shards, now);
        }
        if let Some(txn) = self.keyspace().try_begin(shards.iter().copied(), now) {
            return Ok(txn);
        }
        self.check_holders(&shards)?;
        Err(Failure::locked(shards.as_slice()))
    }

    fn all_shards(&self) -> Shards {
        (0..self.keyspace().shards()).collect()
    }

    #[inline]
    fn lock_shard(&self, session: &Session, shard: usize, now: u64) -> Result<Txn<'_>, Failure> {
        if session.gives_way {
            let wait = session.shard_wait.as_ref();
            return match self.keyspace().try_begin_one_as(shard, now, wait) {
                Some(txn) => Ok(txn),
                None => self.lock_contended(session, &[shard], now),
            };
        }
        self.lock_by_thread(&[shard], now)
    }

    fn lock_shards(
        &self,
        session: &Session,
        shards: &[usize],
        now: u64,
    ) -> Result<Txn<'_>, Failure> {
        match session.gives_way {
            true => self.lock_contended(session, shards, now),
            false => self.lock_by_thread(shards, now),
        }
    }

    /// Tries for a moment to lock shards that others may have locked.
    fn lock_contended(
        &self,
        session: &Session,
        shards: &[usize],
        now: u64,
    ) -> Result<Txn<'_>, Failure> {
        if let Some(txn) = self.spin_for(shards, now, session.shard_wait.as_ref()) {
            return Ok(txn);
        }
        self.check_holders(shards)?;
        // A thread that serves no connections can wait for a moment, with what is reserved for it.
        if let Some(wait) = session.shard_wait.as_ref().filter(|_| !session.can_walk) {
            for _ in 0..LOOKS {
                let _ = wait.poll(Waker::noop());
                let txn = self.keyspace().try_begin_as(shards.iter().copied(), now, Some(wait));
                if let Some(txn) = txn {
                    return Ok(txn);
                }
                std::thread::sleep(BETWEEN_TRIES);
            }
        }
        Err(Failure::locked(shards))
    }

    /// Tries to lock shards for as long as most commands hold theirs.
    fn spin_for(&self, shards: &[usize], now: u64, wait: Option<&ShardWait>) -> Option<Txn<'_>> {
        let lock = || self.keyspace().try_begin_as(shards.iter().copied(), now, wait);
        // A session that was woken finds them free now, or waits on.
        let tries = if wait.is_some() { 1 } else { TRIES };
        for _ in 1..tries {
            if let Some(txn) = lock() {
                return Some(txn);
            }
            (0..SPINS).for_each(|_| std::hint::spin_loop());
        }
        lock()
    }

    /// Returns an error if a script has held one of the shards for longer than
    /// `busy-reply-threshold`.
    #[cold]
    pub(super) fn check_holders(&self, shards: &[usize]) -> Done {
        if self.running_scripts().is_empty() {
            return Ok(());
        }
        let threshold = self.config().busy_reply_threshold_ns();
        match self.running_scripts().busy_holder(shards, self.clock.unix_ns(), threshold) {
            Some(script) => Err(script.busy()),
            None => Ok(()),
        }
    }

    /// Locks shards, blocking this thread, which serves nobody else.
    fn lock_by_thread(&self, shards: &[usize], now: u64) -> Result<Txn<'_>, Failure> {
        if self.running_scripts().is_empty() {
            return Ok(self.keyspace().begin(shards, now));
        }
        loop {
            if let Some(txn) = self.keyspace().try_begin(shards.iter().copied(), now) {
                return Ok(txn);
            }
            self.check_holders(shards)?;
            match self.host() {
                Some(host) => host.sleep(BETWEEN_TRIES),
                None => std::hint::spin_loop(),
            }
        }
    }

    /// Locks all shards, blocking this thread, which serves nobody else. Fails if a script runs for
    /// too long.
    pub(crate) fn lock_all_by_thread(&self) -> Result<Txn<'_>, Failure> {
        self.lock_by_thread(&self.all_shards(), self.clock.unix_ms())
    }

    /// Blocks this thread until shards are unlocked.
    #[cold]
    pub(crate) fn wait_by_thread(&self, shards: &[usize]) {
        drop(self.keyspace().begin(shards, 0));
    }

    /// Makes a session wait for shards; its command is to be executed again.
    #[cold]
    pub(crate) fn wait_for_shards(&self, session: &mut Session, shards: &[usize]) -> Outcome {
        match &session.shard_wait {
            Some(wait) => wait.wait_for(shards),
            None => session.shard_wait = Some(self.keyspace().wait_for_shards(shards)),
        }
        Outcome { next: Next::Locked, ..Outcome::default() }
    }

    /// Returns true if the command that ended with [`Next::Locked`] is worth executing again; else
    /// `waker` is woken when it may be. After some milliseconds it always is, since an unlock may
    /// go unnoticed, or a script may hold the shards for so long that the command is to be refused.
    pub fn poll_shards(&self, session: &Session, waker: &Waker) -> bool {
        session.shard_wait.as_ref().is_none_or(|wait| wait.poll(waker))
    }

    /// Waits for scripts that run long, with no shard locked. Returns an error if one takes longer
    /// than `busy-reply-threshold`.
    pub fn wait_for_scripts(&self) -> Result<(), Failure> {
        while !self.running_scripts().is_empty() {
            let threshold = self.config().busy_reply_threshold_ns();
            if let Some(script) = self.running_scripts().busy(self.clock.unix_ns(), threshold) {
                return Err(script.busy());
            }
            match self.host() {
                Some(host) => host.sleep(BETWEEN_TRIES),
                None => std::hint::spin_loop(),
            }
        }
        Ok(())
    }

    /// Locks the shard of a key for which clients wait, to serve them. Returns none if it is locked
    /// and the thread must not wait for it.
    pub(crate) fn lock_to_serve(&self, key: &Key<'_>) -> Option<Txn<'_>> {
        let now = self.clock.unix_ms();
        let serves_others = self.host().is_some() || !self.running_scripts().is_empty();
        let lock = |shards: &[usize]| match serves_others {
            true => self.keyspace().try_begin(shards.iter().copied(), now).ok_or(()),
            false => Ok(self.keyspace().begin(shards, now)),
        };
        let keys = std::slice::from_ref(key);
        self.extend_lock_set(lock(&[key.shard()]).ok()?, keys, TARGETS_IN_ADVANCE, lock).ok()
    }

    /// Locks the shards of a run. Returns none if one of them is locked, or if a client waits for a
    /// key that a step may fill: such clients are to be served after each command.
    #[inline]
    pub(super) fn try_lock_steps(
        &self,
        session: &Session,
        steps: &[Step<'_>],
        now: u64,
    ) -> Option<Txn<'_>> {
        let shards = steps.iter().flat_map(|step| step.keys).map(Key::shard);
        let mut txn = self.keyspace().try_begin_as(shards, now, session.shard_wait.as_ref())?;
        self.date_uses(session, &mut txn);
        let awaited = |step: &Step<'_>| {
            step.command.spec.has(WRITE) && step.keys.iter().any(|key| self.waiting().has(key))
        };
        let fills = !self.waiting().is_empty() && steps.iter().any(awaited);
        (!fills).then_some(txn)
    }

    /// Writes a large value to the heap before the key's shard is locked.
    #[inline]
    pub(super) fn prepare(
        &self,
        call: &Call<'_>,
        scope: Scope,
    ) -> Result<Option<Prepared<'_>>, Failure> {
        let (Scope::Keys, [key]) = (scope, call.keys) else { return Ok(None) };
        let value = call.command.spec.value.and_then(|at| call.args.get(at));
        let Some(value) = value.filter(|value| value.len() >= Keyspace::LARGE) else {
            return Ok(None);
        };
        // Reserving blocks takes the shard's lock for a moment.
        if call.session.gives_way {
            let wait = call.session.shard_wait.as_ref();
            let prepared = self.keyspace().try_prepare(key, value, wait)?;
            if prepared.is_none() {
                self.check_holders(&[key.shard()])?;
                return Err(Failure::locked([key.shard()]));
            }
            return Ok(prepared);
        }
        if self.is_locked_by_script(key.shard()) {
            return Ok(None);
        }
        Ok(Some(self.keyspace().prepare(key, value)?))
    }

    /// Locks also the shards needed to serve the clients that wait for `keys`, if no more than
    /// `most` elements come to each key: those of the targets of moves, and of the clients that
    /// wait for these. `txn` holds the shards of `keys`, and nothing was done in it yet. Clients
    /// that are left out here are served by `BlockedClients::serve_deferred`.
    fn extend_lock_set<'k, E>(
        &'k self,
        txn: Txn<'k>,
        keys: &[Key<'_>],
        most: usize,
        lock: impl Fn(&[usize]) -> Result<Txn<'k>, E>,
    ) -> Result<Txn<'k>, E> {
        let mut txn = txn;
        let most = most.min(TARGETS_IN_ADVANCE);
        let mut shards = shards_of(keys);
        while !self.waiting().has_no_targets() && !txn.covers_all() {
            let before = shards.len();
            self.add_targets(&txn, keys, most, &mut shards);
            if shards.len() == before {
                break;
            }
            drop(txn);
            txn = lock(&shards)?;
        }
        Ok(txn)
    }

    /// Adds the shards of those targets that the transaction does not hold.
    fn add_targets(&self, txn: &Txn<'_>, keys: &[Key<'_>], most: usize, shards: &mut Shards) {
        let mut seen: HashSet<Box<[u8]>> = HashSet::new();
        let mut found: Vec<Box<[u8]>> =
            keys.iter().flat_map(|key| self.waiting().targets(key, most)).collect();
        while let Some(bytes) = found.pop() {
            let key = self.keyspace().key(&bytes);
            if !txn.covers(&key) && !shards.contains(&key.shard()) {
                shards.push(key.shard());
            }
            let more = self.waiting().targets(&key, most);
            if seen.insert(bytes) && seen.len() < MOST_TARGETS {
                found.extend(more);
            }
        }
    }
}
