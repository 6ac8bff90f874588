//! The unit of work: what is owed for a transaction of the keyspace, whoever ran it.
//!
//! A command, a pipelined run, an EXEC, the operations of blocked clients that are served, and a
//! deletion in the background (expiry, eviction, a key that a reader found expired) each change
//! data in a transaction. What follows from that is the same for all of them, and is done here
//! alone, in this order, while the shards are still locked:
//!
//! 1. If the medium lost bytes meanwhile, nothing is committed: zeros may have been read in their
//!    place.
//! 2. The transaction is committed, which tells those who watch a key. What expired or was evicted
//!    is logged before what the command did.
//! 3. The effects are appended to the command log, so that its order is the order of the changes,
//!    and the shards that were changed remember where they end. Where a journal is in the place of
//!    the log, it has the changes since the commit.
//! 4. The offset is found up to which the log must be durable before the reply may leave.
//! 5. Messages, events of keys, lines for those who monitor, and the replies of blocked clients
//!    that were served are delivered.
//! 6. Clients that track one of the changed keys are notified.
//! 7. Clients that wait for one of the changed keys are served, by a unit of work on the same
//!    locks.
//! 8. Keys that were found expired are deleted, by a unit of work on the same locks.
//!
//! [`Engine::unlocked`] does what is owed once the locks were released: it serves the clients that
//! need shards which were not locked, and sends the large string that ends the reply.
//!
//! A new obligation is added here. That nothing is committed elsewhere is tested in
//! `tests/it/obligations.rs`.

use std::sync::atomic::Ordering::Relaxed;

use keyspace::{Key, Losses, Txn};
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::execute::call::Call;
use crate::failure::{Done, Failure};
use crate::log::Effects;
use crate::notify::tracking::Changes;
use crate::session::Session;
use crate::session::client::Served;

type Shards = SmallVec<[usize; 8]>;

/// One unit of work: for whom a transaction is committed, and what follows from it.
pub struct Unit<'u> {
    /// The engine.
    pub engine: &'u Engine,
    /// The session that ran it; none for what the store does by itself.
    pub session: Option<&'u mut Session>,
    /// What goes into the command log, and what is sent to clients.
    pub effects: &'u mut Effects,
    /// What its replies show.
    pub shown: Shown<'u>,
    /// Who made the transaction.
    pub role: Role<'u>,
    /// What the medium had lost before the unit began.
    pub losses: Losses,
}

/// What the reply shows of the data: it may not leave before that is durable.
#[derive(Clone, Copy)]
pub enum Shown<'u> {
    /// Its replies show no data.
    Nothing,
    /// Something of these keys; where there are none, of any.
    Keys(&'u [Key<'u>]),
}

/// What a transaction is for.
pub enum Role<'u> {
    /// A command, a run, an EXEC, a deletion.
    Whole {
        /// It may have changed whole databases.
        databases: bool,
    },
    /// A part of a command that goes on: it serves nobody who waits for a key.
    Part,
    /// Serving blocked clients: each of these gets its reply. They are left here if nothing was
    /// committed.
    Serve(&'u mut Vec<Served>),
}

impl Unit<'_> {
    /// Commits the transaction and does all that is owed for it. Returns up to where the log must
    /// be durable before the reply may leave. After an error nothing was committed, unless it is
    /// the log's.
    #[inline]
    pub fn commit(self, txn: &mut Txn<'_>) -> Result<u64, Failure> {
        self.engine.keyspace().check_losses(self.losses)?;
        let lists = txn.pending_changes() > 0;
        if lists {
            self.effects.notify_of(txn.changes());
            if txn.has_dropped_missed() {
                self.engine.report_dropped_events();
            }
        }
        let changed = lists && !txn.has_only_missed();
        let mut committed = None;
        if changed || txn.is_dirty() {
            self.effects.put_before(txn.changes());
            let shards = self.changed_shards(txn);
            txn.commit()?;
            committed = Some(shards);
        }
        self.follow(txn, changed, committed)
    }

    /// Does what is owed for a transaction that the keyspace has committed by itself, and that is
    /// still locked.
    fn adopt(self, txn: &mut Txn<'_>) -> Result<u64, Failure> {
        self.effects.put_before(txn.changes());
        self.effects.notify_of(txn.changes());
        let shards: Shards = txn.locked().collect();
        self.follow(txn, true, Some(shards))
    }

    /// Returns the shards of which readers may see something that this changes: where databases are
    /// swapped, that is more than what is to be committed there. A part may log an earlier swap.
    #[inline]
    fn changed_shards(&self, txn: &Txn<'_>) -> Shards {
        match self.role {
            _ if self.engine.log().is_none() => Shards::new(),
            Role::Part | Role::Whole { databases: true } => txn.locked().collect(),
            _ => txn.dirty().collect(),
        }
    }

    /// `changed` says that the changes which the transaction lists are this unit's; where something
    /// was committed, `committed` are the shards that it changed.
    #[inline]
    fn follow(
        mut self,
        txn: &mut Txn<'_>,
        changed: bool,
        committed: Option<Shards>,
    ) -> Result<u64, Failure> {
        let durable_at = self.append(committed)?;
        let engine = self.engine;
        let flushes = self.effects.flushes();
        engine.deliver_all(self.session.as_deref_mut(), self.effects, durable_at);
        if let Role::Serve(served) = &mut self.role {
            engine.let_go(served, durable_at);
        }
        let changes = Changes { changed, flushes: &flushes, after: durable_at };
        engine.notify_trackers(txn, changes, self.session.as_deref_mut());
        if let Role::Whole { databases } = self.role {
            let stripe = self.session.map_or(0, |session| session.stripe);
            let served = engine.serve_waiting(txn, changed, databases, (stripe, self.losses));
            if served && txn.has_lazily_expired() {
                engine.delete_lazily_expired(txn);
            }
        }
        Ok(durable_at)
    }

    /// Appends the effects to the log, and finds out what the reply must wait for. A journal has
    /// what was committed.
    #[inline]
    fn append(&mut self, committed: Option<Shards>) -> Result<u64, Failure> {
        let Some(log) = self.engine.log() else { return Ok(0) };
        let end = match self.engine.logs_commands() {
            true => {
                let replays = || self.session.as_ref().is_some_and(|session| session.replay);
                if committed.is_some() && !self.effects.enabled() && !replays() {
                    log.note_skipped();
                }
                self.effects.append_to(log)
            }
            false => committed.is_some().then(|| log.end()),
        };
        if let Some(end) = end {
            let shards = committed.into_iter().flatten();
            shards.for_each(|shard| self.engine.log_ends[shard].store(end, Relaxed));
            return Ok(end);
        }
        let Shown::Keys(keys) = self.shown else { return Ok(0) };
        let seen = self.engine.logged_until(keys);
        if seen == 0 {
            return Ok(0);
        }
        match self.engine.check_read(keys, seen) {
            // Whoever was blocked waits for the log as it waited for the key.
            Err(_) if matches!(self.role, Role::Serve(_)) => Ok(seen),
            checked => checked,
        }
    }
}

impl Engine {
    /// Returns up to where the log must be settled before a reply may leave that shows something of
    /// these keys as they are, or with no keys, of any. Their shards are locked.
    pub fn logged_until(&self, keys: &[Key<'_>]) -> u64 {
        if self.log().is_none() {
            return 0;
        }
        let last = |shard: usize| self.log_ends[shard].load(Relaxed);
        let newest = match keys {
            [] => (0..self.log_ends.len()).map(last).max(),
            keys => keys.iter().map(Key::shard).map(last).max(),
        };
        newest.unwrap_or(0)
    }

    /// Does what is owed for a step of the keyspace's own (expiry, eviction), whose transaction
    /// comes back committed and still locked.
    pub fn finish_step(&self, txn: &mut Txn<'_>) {
        // Where the log has failed, what was deleted stays deleted: no reply shows it.
        let _ = self.own_unit(&mut self.own_effects()).adopt(txn);
    }

    /// Deletes the expired keys that commands found while they read, after their commit. Where that
    /// cannot be done, the keys are as good as gone all the same.
    #[cold]
    fn delete_lazily_expired(&self, txn: &mut Txn<'_>) {
        let (mut effects, may_write) = (self.own_effects(), self.may_delete_now());
        let unit = self.own_unit(&mut effects);
        if may_write && txn.delete_lazily_expired() {
            let _ = unit.commit(txn);
        }
    }

    /// Says that more happened to keys in a transaction than is published.
    #[cold]
    pub(crate) fn report_dropped_events(&self) {
        if let Some(host) = self.host() {
            host.log("events of keys were dropped: one transaction had more than 64 MiB of them");
        }
    }

    /// Returns true if keys may be deleted that nobody asked to delete: not while clients are
    /// paused, or the log has failed.
    pub(crate) fn may_delete_now(&self) -> bool {
        self.admin().paused_until_ms() == 0 && self.takes_writes()
    }

    /// Effects of work that no client asked for.
    fn own_effects(&self) -> Effects {
        self.new_effects(Vec::new(), self.logs_commands())
    }

    fn own_unit<'u>(&'u self, effects: &'u mut Effects) -> Unit<'u> {
        Unit {
            engine: self,
            session: None,
            effects,
            shown: Shown::Nothing,
            role: Role::Whole { databases: false },
            losses: self.keyspace().losses(),
        }
    }

    /// Does what is owed after the locks were released: serves the clients that need shards which
    /// were not locked, and ends the reply with its large string. An error if the medium lost bytes
    /// while that was copied.
    #[inline]
    pub fn unlocked(&self, call: &mut Call<'_>) -> Done {
        if !self.waiting().is_empty() {
            self.serve_deferred(call.session.stripe);
        }
        if call.pinned.is_some() { self.end_with_pinned(call) } else { Ok(()) }
    }

    #[inline(never)]
    fn end_with_pinned(&self, call: &mut Call<'_>) -> Done {
        let Some(value) = call.pinned.take() else { return Ok(()) };
        call.out.bulk_header(value.len());
        value.append_to(call.out.buffer());
        call.out.bulk_end();
        Ok(self.keyspace().check_losses(call.losses)?)
    }
}

impl Call<'_> {
    /// Commits what the command did so far, and goes on in the same locks: for one that changes
    /// more than a transaction can hold.
    pub fn commit_part(&mut self, txn: &mut Txn<'_>) -> Done {
        self.commit_as(Role::Part, txn)
    }

    /// Commits what changed whole databases, and goes on in the same locks.
    pub fn commit_databases(&mut self, txn: &mut Txn<'_>) -> Done {
        self.commit_as(Role::Whole { databases: true }, txn)
    }

    fn commit_as(&mut self, role: Role<'_>, txn: &mut Txn<'_>) -> Done {
        let unit = Unit {
            engine: self.engine,
            session: Some(self.session),
            effects: self.effects,
            shown: Shown::Nothing,
            role,
            losses: self.losses,
        };
        unit.commit(txn).map(drop)
    }
}
