//! The unit of work: the consequences of a transaction of the keyspace, whatever ran it.
//!
//! A command, a pipelined run, an EXEC, the operations of blocked clients that are served, and a
//! deletion in the background (expiry, eviction, a key that a reader found expired) each change
//! data in a transaction. The consequences are the same for all of them, and are handled here and
//! in [`super::commit`] alone, in this order, while the shards are still locked:
//!
//! 1. If the medium lost bytes meanwhile, nothing is committed: zeros may have been read instead.
//! 2. The transaction is committed, which notifies those who watch a key. Expired and evicted keys
//!    are logged before the command's own effects.
//! 3. The effects are appended to the log and to the stream for replicas. The offset up to which
//!    the log must be settled before the reply may leave is determined.
//! 4. Messages, keyspace events, lines for clients in MONITOR mode, and the replies of blocked
//!    clients that were served are delivered.
//! 5. Clients that track one of the changed keys are notified.
//! 6. Clients that wait for one of the changed keys are served, by a unit of work on the same
//!    locks.
//! 7. Keys that were found expired are deleted, by a unit of work on the same locks.
//!
//! [`Engine::unlocked`] takes the steps after the locks are released: it serves the clients that
//! need shards which were not locked, and sends the large string that ends the reply.
//!
//! New consequences are added here. `crates/commands/tests/it/obligations.rs` tests that nothing is
//! committed elsewhere.

use keyspace::{Losses, Txn};

use super::commit::{Committed, Role, Shown, Unit};
use crate::engine::Engine;
use crate::execute::call::Call;
use crate::failure::{Done, Failure};
use crate::log::Effects;

impl Unit<'_> {
    /// Commits the transaction and handles all its consequences. Returns the offset up to which the
    /// log must be settled before the reply may leave. After an error nothing was committed, unless
    /// the log failed.
    #[inline]
    pub fn commit(mut self, txn: &mut Txn<'_>) -> Result<u64, Failure> {
        let committed = self.commit_and_notify(txn)?;
        Ok(self.serve(txn, committed))
    }

    /// Serves the clients that wait for what was changed, and deletes keys that were found expired.
    #[inline]
    fn serve(self, txn: &mut Txn<'_>, committed: Committed) -> u64 {
        let Committed { reply_after, changed } = committed;
        if let Role::Whole { databases } = self.role {
            let thread = self.session.map_or(0, |session| session.thread);
            let served =
                self.engine.blocked_clients().serve(txn, changed, databases, thread, self.losses);
            if served && txn.has_lazily_expired() {
                self.engine.delete_lazily_expired(txn);
            }
        }
        reply_after
    }
}

impl Engine {
    /// Commits a step of the store itself (expiry, eviction). `losses` were read before the step
    /// was staged. Returns false, with the keys left in place, if the commit failed or this server
    /// has become a replica: its primary will send the deletions.
    pub fn commit_step(&self, txn: &mut Txn<'_>, losses: Losses) -> bool {
        let mut effects = self.own_effects();
        let unit = Unit { losses, ..self.own_unit(&mut effects) };
        // If the log fails, deleted keys stay deleted: no reply shows it.
        !self.replication().is_replica() && unit.commit(txn).is_ok()
    }

    /// Deletes the expired keys that commands found while they read, after their commit. If that
    /// fails, the keys are treated as expired all the same.
    #[cold]
    fn delete_lazily_expired(&self, txn: &mut Txn<'_>) {
        let (mut effects, may_write) = (self.own_effects(), self.may_delete_unasked());
        let unit = self.own_unit(&mut effects);
        if may_write && txn.delete_lazily_expired() {
            let _ = unit.commit(txn);
        }
    }

    /// Returns true if keys may be deleted without a client's request. Not while clients are paused
    /// or replicas are to catch up with the end of the stream, so that the data stays as it is; not
    /// while the log has little space, nor after it has failed, because reads that would have to
    /// wait for the deletion's place in the log could no longer be answered; nor on a replica,
    /// whose primary says what is gone.
    pub fn may_delete_unasked(&self) -> bool {
        let paused_until = self.admin().paused_until_ms();
        self.durability().takes_writes()
            && !self.durability().is_nearly_full()
            && !self.replication().is_replica()
            && !self.admin().holds_writes()
            && (paused_until == 0 || paused_until <= self.clock().unix_ms())
    }

    /// Effects of work that no client asked for.
    fn own_effects(&self) -> Effects {
        self.new_effects(Vec::new(), self.collects_commands())
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

    /// Takes the steps after the locks are released: serves the clients that need shards which were
    /// not locked, and ends the reply with its large string. Returns an error if the medium lost
    /// bytes while that was copied.
    #[inline]
    pub fn unlocked(&self, call: &mut Call<'_>) -> Done {
        if !self.waiting().is_empty() {
            self.blocked_clients().serve_deferred(call.session.thread);
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
    /// Commits what the command did so far, and goes on under the same locks: for a command that
    /// changes more than a transaction can hold.
    pub fn commit_part(&mut self, txn: &mut Txn<'_>) -> Done {
        self.commit_as(Role::Part, txn)
    }

    /// Commits a change of whole databases, and goes on under the same locks.
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
