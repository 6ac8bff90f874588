//! Which shards are locked for a unit of work. No other part of the crate opens a transaction.
//!
//! In addition to the shards of its keys, a command that may fill a key locks those that serving
//! the clients which wait for it will need: the targets of their moves, and of those who wait for
//! these.

use std::collections::HashSet;
use std::time::Duration;

use keyspace::{Key, Keyspace, Prepared, Txn};
use smallvec::SmallVec;

use super::step::Step;
use crate::call::Call;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::spec::WRITE;

/// How many clients of a queue have the shards of their targets locked ahead, at most.
pub(crate) const TARGETS_IN_ADVANCE: usize = 16;
/// How many keys are looked at to find what serving leads to.
const MOST_TARGETS: usize = 64;

/// Between two tries to lock what a script that runs long may have.
const BETWEEN_TRIES: Duration = Duration::from_micros(200);

/// What a call locks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The shards of its keys.
    Keys,
    /// One shard, on its way through all of them.
    Shard(usize),
    All,
}

impl Engine {
    /// Locks what a call needs.
    #[inline]
    pub(super) fn lock<'k>(&'k self, call: &Call<'_>, scope: Scope) -> Result<Txn<'k>, Failure> {
        let (keyspace, now) = (self.keyspace(), call.now_ms());
        if !self.running_scripts().is_empty() {
            let keys = call.keys.iter().map(Key::shard);
            return match scope {
                Scope::All => self.lock_with_scripts((0..keyspace.shards()).collect(), now),
                Scope::Shard(shard) => self.lock_with_scripts(vec![shard], now),
                Scope::Keys => self.lock_with_scripts(keys.collect(), now),
            };
        }
        let txn = match (scope, call.keys) {
            (Scope::All, _) => return Ok(keyspace.begin_all(now)),
            (Scope::Shard(shard), _) => return Ok(keyspace.begin_one(shard, now)),
            (Scope::Keys, [key]) => keyspace.begin_one(key.shard(), now),
            (Scope::Keys, keys) => {
                let shards: SmallVec<[usize; 8]> = keys.iter().map(Key::shard).collect();
                keyspace.begin(&shards, now)
            }
        };
        if self.waiting().has_no_targets() || !call.command.spec.has(WRITE) {
            return Ok(txn);
        }
        // No more elements come than there are arguments.
        Ok(self.extend_lock_set(txn, call.keys, call.args.len()))
    }

    /// Locks the shards of these keys, or all of them.
    pub(crate) fn lock_keys(&self, keys: Option<&[Key<'_>]>, now: u64) -> Result<Txn<'_>, Failure> {
        if !self.running_scripts().is_empty() {
            let shards = match keys {
                None => (0..self.keyspace().shards()).collect(),
                Some(keys) => keys.iter().map(Key::shard).collect(),
            };
            return self.lock_with_scripts(shards, now);
        }
        Ok(match keys {
            None => self.keyspace().begin_all(now),
            Some([]) => self.keyspace().begin_one(0, now),
            Some(keys) => {
                let shards: Vec<usize> = keys.iter().map(Key::shard).collect();
                self.extend_lock_set(self.keyspace().begin(&shards, now), keys, usize::MAX)
            }
        })
    }

    /// Locks shards while a script runs long: an error if it has one of them, and has had for
    /// longer than `busy-reply-threshold`. Who waits for a key is served later, if that needs other
    /// shards.
    #[cold]
    fn lock_with_scripts(&self, shards: Vec<usize>, now: u64) -> Result<Txn<'_>, Failure> {
        loop {
            if let Some(txn) = self.keyspace().try_begin(shards.iter().copied(), now) {
                return Ok(txn);
            }
            let threshold = self.config().busy_reply_threshold_ns();
            if let Some(script) = self.running_scripts().holder(&shards)
                && script.is_busy(self.clock.unix_ns(), threshold)
            {
                return Err(script.busy());
            }
            match self.host() {
                Some(host) => host.sleep(BETWEEN_TRIES),
                None => std::hint::spin_loop(),
            }
        }
    }

    /// Waits for scripts that run long, with no shard locked; an error if one takes longer than
    /// `busy-reply-threshold`.
    pub(crate) fn wait_for_scripts(&self) -> Result<(), Failure> {
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

    /// Locks the shard of a key for which clients wait, to serve them. None if a script that runs
    /// long has it.
    pub(crate) fn lock_to_serve(&self, key: &Key<'_>) -> Option<Txn<'_>> {
        let now = self.clock.unix_ms();
        if !self.running_scripts().is_empty() {
            return self.keyspace().try_begin(std::iter::once(key.shard()), now);
        }
        let txn = self.keyspace().begin_one(key.shard(), now);
        Some(self.extend_lock_set(txn, std::slice::from_ref(key), TARGETS_IN_ADVANCE))
    }

    /// Locks the shards of a run. None where one of them is locked, or where somebody waits for a
    /// key that a step may fill: then each command is followed by serving them.
    #[inline]
    pub(super) fn try_lock_steps(&self, steps: &[Step<'_>], now: u64) -> Option<Txn<'_>> {
        let shards = steps.iter().flat_map(|step| step.keys).map(Key::shard);
        let txn = self.keyspace().try_begin(shards, now)?;
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
        // To reserve blocks takes the shard's lock for a moment, which a script that runs long may
        // have.
        if self.is_locked_by_script(key.shard()) {
            return Ok(None);
        }
        let value = call.command.spec.value.and_then(|at| call.args.get(at));
        match value.filter(|value| value.len() >= Keyspace::LARGE) {
            Some(value) => Ok(Some(self.keyspace().prepare(key, value)?)),
            None => Ok(None),
        }
    }

    /// Locks also what serving those who wait for `keys` will need, if no more than `most` elements
    /// come to each: the targets of moves, and of those who wait for these. `txn` holds the shards
    /// of `keys` and nothing was done in it yet. Whom this leaves out is served by
    /// [`Engine::serve_deferred`].
    fn extend_lock_set<'k>(&'k self, txn: Txn<'k>, keys: &[Key<'_>], most: usize) -> Txn<'k> {
        let mut txn = txn;
        let most = most.min(TARGETS_IN_ADVANCE);
        let mut shards: SmallVec<[usize; 8]> = keys.iter().map(Key::shard).collect();
        while !self.waiting().has_no_targets() && !txn.covers_all() {
            let before = shards.len();
            self.add_targets(&txn, (keys, most), &mut shards);
            if shards.len() == before {
                break;
            }
            let now = txn.now();
            drop(txn);
            txn = self.keyspace().begin(&shards, now);
        }
        txn
    }

    /// Adds the shards of the targets that the transaction does not hold.
    fn add_targets(
        &self,
        txn: &Txn<'_>,
        (keys, most): (&[Key<'_>], usize),
        shards: &mut SmallVec<[usize; 8]>,
    ) {
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
