//! The commit of a transaction, and its consequences for the log and the clients: the first steps
//! of [a unit of work](super::unit).

use std::sync::atomic::Ordering::Relaxed;

use ::replication::stream::Reserved;
use keyspace::{CommitError, Key, Losses, Txn};
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::failure::{Failure, NOT_FOLLOWED, READ_ONLY};
use crate::log::Effects;
use crate::notify::tracking::Changes;
use crate::session::Session;
use crate::session::client::{Ending, Served};

type Shards = SmallVec<[usize; 8]>;

/// One unit of work: for whom a transaction is committed, and what follows from it.
pub struct Unit<'u> {
    /// The engine.
    pub engine: &'u Engine,
    /// The session that ran it; none for the store's own work and for serving blocked clients.
    pub session: Option<&'u mut Session>,
    /// Commands for the log, and messages for clients.
    pub effects: &'u mut Effects,
    /// The data that its replies show.
    pub shown: Shown<'u>,
    /// The purpose of the transaction.
    pub role: Role<'u>,
    /// Losses of the medium before the unit began.
    pub losses: Losses,
}

/// The data that a reply shows. The reply may not leave before they are durable.
#[derive(Clone, Copy)]
pub enum Shown<'u> {
    /// Its replies show no data.
    Nothing,
    /// Data of these keys; if there are none, data of any key.
    Keys(&'u [Key<'u>]),
}

/// The purpose of a transaction.
pub enum Role<'u> {
    /// A command, a run, an EXEC, a deletion.
    Whole {
        /// It may have changed whole databases.
        databases: bool,
    },
    /// A part of a command that goes on: it serves no client that waits for a key.
    Part,
    /// Serving blocked clients: each of these gets its reply. They stay here if nothing was
    /// committed.
    Serve(&'u mut Vec<Served>),
}

/// The outcome of a commit.
pub(crate) struct Committed {
    /// Up to where the log must be settled before the reply may leave.
    pub(crate) reply_after: u64,
    /// Whether the changes that the transaction lists are this unit's.
    pub(crate) changed: bool,
}

/// The outcome of a commit, for those who notify of it.
struct Done<'u> {
    /// The shards that it changed.
    shards: Shards,
    /// Its place in the stream for replicas, if that was reserved.
    reserved: Option<Reserved<'u>>,
}

impl<'u> Unit<'u> {
    /// Commits the transaction, logs its effects, and notifies clients. After an error nothing was
    /// committed, unless the log failed.
    #[inline]
    pub(crate) fn commit_and_notify(&mut self, txn: &mut Txn<'_>) -> Result<Committed, Failure> {
        self.engine.keyspace().check_losses(self.losses)?;
        let is_received = self.session.as_ref().is_some_and(|session| session.received.is_some());
        let _history = is_received.then(|| self.engine.replication().hold_history());
        let lists = txn.pending_changes() > 0;
        if lists {
            self.effects.notify_of(txn.changes());
            if txn.has_dropped_missed() {
                self.engine.report_dropped_events();
            }
        }
        let changed = lists && !txn.has_only_missed();
        let mut committed = None;
        if changed || txn.is_dirty() || self.needs_home(txn) {
            self.check_role()?;
            let keeps_position = self.engine.keyspace().position().is_kept();
            if keeps_position {
                // A place in the stream stays, also that of a commit that is refused.
                self.engine.keyspace().heap().check_open()?;
            }
            self.effects.put_before(txn.changes());
            let shards = self.changed_shards(txn);
            let mut reserved = None;
            if keeps_position {
                reserved = self.set_position(txn);
            }
            if self.engine.replication().is_replica() {
                self.note_own_change();
            }
            if let Err(error) = txn.commit() {
                reserved.into_iter().for_each(|reserved| give_up(reserved, error));
                return Err(error.into());
            }
            committed = Some(Done { shards, reserved });
        }
        self.notify(txn, changed, committed)
    }

    /// Refuses to commit a client's write that was admitted when this server had another role, if
    /// it is a read-only replica now, since the write would be nowhere else; and what was received
    /// before a promotion or a new dump, since it is no part of this server's history.
    #[inline]
    fn check_role(&self) -> Result<(), Failure> {
        let Some(session) = &self.session else { return Ok(()) };
        let replication = self.engine.replication();
        match &session.received {
            Some(received) if received.epoch != replication.stream().epoch() => {
                Err(NOT_FOLLOWED.into())
            }
            None if session.role.get() != replication.roles()
                && !session.replay
                && self.engine.config().is_read_only_replica() =>
            {
                Err(READ_ONLY.into())
            }
            _ => Ok(()),
        }
    }

    /// Returns true if a command that changed no data, such as FLUSHALL of an empty database, must
    /// be committed to record its place in the stream. A crash may take back the commits before it,
    /// such as the one that emptied the database, and is to take back its place with them:
    /// otherwise replicas would execute it on data that is there again.
    #[inline]
    fn needs_home(&self, txn: &Txn<'_>) -> bool {
        self.engine.keyspace().position().is_kept() && self.are_homeless(txn)
    }

    #[cold]
    fn are_homeless(&self, txn: &Txn<'_>) -> bool {
        let replication = self.engine.replication();
        let is_received = self.session.as_ref().is_some_and(|session| session.received.is_some());
        let is_own = !is_received && !matches!(self.role, Role::Part);
        is_own
            && replication.stream().reserves()
            && replication.takes_effects()
            && self.effects.are_streamed()
            && txn.locked().next().is_some()
    }

    /// Says where the data is in the stream after the commit: what a primary has sent, for which
    /// the history is held, or in this server's own stream, in which the commit's place is reserved
    /// then. A part of a command is at no place: executing it once more might change the data
    /// again.
    #[cold]
    fn set_position(&mut self, txn: &mut Txn<'_>) -> Option<Reserved<'u>> {
        if matches!(self.role, Role::Part) {
            return None;
        }
        let engine = self.engine;
        let stream = engine.replication().stream();
        let session = self.session.as_ref();
        if let Some((session, received)) =
            session.and_then(|session| Some((session, session.received.as_ref()?)))
        {
            let end = stream.end() + received.to_pass_on() as u64;
            txn.set_stream_position(end, session.db);
            return None;
        }
        if !stream.reserves() || !engine.replication().takes_effects() {
            return None;
        }
        let is_collected = self.effects.enabled();
        let Some((first, last, commands)) = self.effects.commands() else {
            // Replicas do not need the change, such as the time when a consumer was seen.
            if is_collected {
                txn.keep_stream_position();
            }
            return None;
        };
        let changed = txn.dirty().next();
        let home = changed.or_else(|| txn.locked().next())?;
        let reserved =
            stream.reserve(home, first.number() as u32, last.number() as u32, commands)?;
        match changed {
            Some(_) => txn.set_stream_position(reserved.end(), last),
            None => txn.stage_stream_position(reserved.end(), last),
        }
        Some(reserved)
    }

    /// Notes a change of a replica's data that its primary did not send.
    #[cold]
    fn note_own_change(&self) {
        // What is replayed was received, or is what there is.
        let is_own = self.session.as_ref().is_none_or(|session| !session.replay);
        if is_own {
            self.engine.replication().set_own_changes(true);
        }
    }

    /// Returns the shards in which readers may see a change: if databases were swapped, more than
    /// those with changes to commit. A part may log an earlier swap.
    #[inline]
    fn changed_shards(&self, txn: &Txn<'_>) -> Shards {
        match self.role {
            _ if self.engine.log().is_none() => Shards::new(),
            Role::Part | Role::Whole { databases: true } => txn.locked().collect(),
            _ => txn.dirty().collect(),
        }
    }

    /// Logs the effects and notifies clients. `changed` says that the changes listed by the
    /// transaction are this unit's; `committed` is what a commit has left, if there was one.
    #[inline]
    fn notify(
        &mut self,
        txn: &mut Txn<'_>,
        changed: bool,
        committed: Option<Done<'u>>,
    ) -> Result<Committed, Failure> {
        let reply_after = self.append(committed)?;
        let engine = self.engine;
        let flushes = self.effects.flushes();
        engine.deliver_all(self.session.as_deref_mut(), self.effects, reply_after);
        if let Role::Serve(served) = &mut self.role {
            let_go(engine, served, reply_after);
        }
        let changes = Changes { changed, flushes: &flushes, after: reply_after };
        engine.tracking_clients().notify(txn, changes, self.session.as_deref_mut());
        Ok(Committed { reply_after, changed })
    }

    /// Appends the effects to the log, and returns the offset that the reply must wait for. A
    /// journal has the committed changes already.
    #[inline]
    fn append(&mut self, committed: Option<Done<'u>>) -> Result<u64, Failure> {
        let (committed, reserved) = match committed {
            Some(Done { shards, reserved }) => (Some(shards), reserved),
            None => (None, None),
        };
        let logged = self.append_commands(committed.is_some(), reserved);
        let Some(log) = self.engine.log() else { return Ok(0) };
        let end = match self.engine.logs_commands() {
            true => logged,
            false => committed.is_some().then(|| log.end()),
        };
        if let Some(end) = end {
            let shards = committed.into_iter().flatten();
            shards.for_each(|shard| self.engine.log_ends[shard].store(end, Relaxed));
            return Ok(end);
        }
        let Shown::Keys(keys) = self.shown else { return Ok(0) };
        let seen = self.engine.durability().logged_until(keys);
        if seen == 0 {
            return Ok(0);
        }
        match self.engine.durability().check_read(keys, seen) {
            // A client that was blocked waits for the log as it waited for the key.
            Err(_) if matches!(self.role, Role::Serve(_)) => Ok(seen),
            checked => checked,
        }
    }

    /// Appends the effects to the log, if it takes commands, and to the stream for replicas, in
    /// which they may have a place already. Returns where they end in the log.
    #[inline]
    fn append_commands(&mut self, committed: bool, reserved: Option<Reserved<'u>>) -> Option<u64> {
        let engine = self.engine;
        let log = engine.command_log();
        // What a primary has sent is passed on as it came, even if this server has just become one.
        let is_received = self.session.as_ref().is_some_and(|session| session.received.is_some());
        let is_streamed = engine.replication().takes_effects() && !is_received;
        if engine.replication().stream().is_on() && !is_streamed && reserved.is_none() {
            self.pass_on(committed);
        }
        if log.is_none() && !is_streamed && reserved.is_none() {
            return None;
        }
        // What is replayed is in the log already.
        let replays =
            || self.session.as_ref().is_some_and(|session| session.replay && !is_received);
        if committed && !self.effects.enabled() && !replays() {
            log.iter().for_each(|log| log.note_skipped());
            if is_streamed {
                let end = engine.replication().stream().note_skipped();
                if let Some(session) = &mut self.session {
                    session.replicated_to = end;
                }
            }
        }
        let (first, last, commands) = self.effects.commands()?;
        let end = log.map(|log| log.append(first, last, commands));
        let streamed = match reserved {
            Some(reserved) => Some(reserved.publish()),
            None if is_streamed => {
                let (first, last) = (first.number() as u32, last.number() as u32);
                Some(engine.replication().stream().append(first, last, commands))
            }
            None => None,
        };
        if let (Some(end), Some(session)) = (streamed, &mut self.session) {
            session.replicated_to = end;
        }
        self.effects.forget_commands();
        end
    }

    /// As a replica: passes on to the stream the commands of its primary that are committed now, or
    /// that changed nothing.
    #[cold]
    fn pass_on(&mut self, committed: bool) {
        let stream = self.engine.replication().stream();
        let is_part = matches!(self.role, Role::Part);
        let received = self.session.as_mut().filter(|session| session.received.is_some());
        let is_passed = match received {
            Some(session) => is_part || self.engine.pass_on(session),
            None => !self.effects.are_streamed(),
        };
        // If this server became a primary just now, it is a change of its own, in no stream. If it
        // became a replica, its primary does not have the change.
        if !is_passed && committed {
            stream.note_skipped();
        }
    }
}

/// Ends the place of a commit that failed.
#[cold]
fn give_up(reserved: Reserved<'_>, error: CommitError) {
    match error {
        CommitError::Paused
        | CommitError::Closed
        | CommitError::UnresolvedLosses
        | CommitError::Full => reserved.make_void(),
        // Its record may have been written, and count after all.
        _ => reserved.leave_open(),
    }
}

/// Gives clients that were served their replies, which may leave when the log is settled up to
/// `reply_after`.
fn let_go(engine: &Engine, served: &mut Vec<Served>, reply_after: u64) {
    let now = engine.clock().unix_ms();
    for Served { waiter, reply, failed } in served.drain(..) {
        if let Some(code) = &failed {
            engine.stats().error(code);
        }
        waiter.end(Ending { reply, reply_after, failed: failed.is_some() }, now);
    }
}
