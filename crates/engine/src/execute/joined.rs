//! A run of pipelined commands as one transaction: one look at the clock, one lock per shard, one
//! commit, one fence.
//!
//! A client that sends commands without waiting for their replies learns nothing between them, so
//! they may happen together and become durable together. They keep their order, and each fails for
//! itself. In a pool the run is one record: a crash leaves all of it or nothing. In an append-only
//! file its commands follow one another: a crash may leave the first few. Either way the client
//! finds a prefix of what it sent. The shards of the run are locked at once. If another thread has
//! locked one of them, the commands are executed one by one instead, so that a run never makes
//! others wait for long.
//!
//! Commands of a run that follow each other and change one key in the same way, such as pushes to a
//! list, are executed as one change of it, if their command has a form for that
//! ([`CommandSpec::joined`](crate::CommandSpec::joined)): the key is looked up once, and its words
//! change once. Each has its own reply, events and place in the log. What could fail, and what
//! creates or deletes the key, is executed one by one.
//!
//! The command log contains each command of a run as if it had been executed by itself, without
//! MULTI and EXEC around the run. All are appended at once, and all replies wait until the log is
//! settled up to the end of the last.
//!
//! [`Engine::admit`] checks a command that is executed by itself. A run has the same checks, here:
//! a condition on which some command is refused makes the run end before it, so that it is executed
//! by itself, and refused there. A script's commands are checked by its host.

use keyspace::{Key, Losses, Txn};
use resp::Writer;
use smallvec::SmallVec;
use std::sync::atomic::Ordering::Relaxed;

use super::commit::{Role, Shown, Unit};
use super::outcome::{Executed, OneByOne};
use super::step::Step;
use super::weight::weight_of;
use crate::engine::Engine;
use crate::execute::call::{Call, MOST_REPLY, Next, Run};
use crate::execute::request::Batch;
use crate::log::Effects;
use crate::observe::hooks;
use crate::session::kept_words::LARGE;
use crate::session::{ReplyMode, Session};
use crate::table::spec::{BLOCKING, BOUNDED, DENYOOM, LONG, READONLY, WRITE};

/// Maximum of commands in a run: its locks are held while they are executed.
const LONGEST: usize = 16;
/// Maximum of keys, of words and of bytes of one command: longer ones have a transaction of their
/// own.
const MOST_KEYS: usize = 8;
const MOST_WORDS: usize = 512;
const MOST_BYTES: usize = 8 * 1024;
/// Maximum of bytes that the frame of such a request has for each word, and for their number.
const FRAME: usize = 9;
/// Maximum length of such a request, in bytes.
const MOST_REQUEST: usize = MOST_BYTES + (MOST_WORDS + 1) * FRAME;
/// Maximum weight of a command that is not quick, but bounded by its weight: some 50 microseconds.
const LIGHT: u64 = 512;
/// Weight up to which the time of such a command is shared among those of its run.
const QUICK: u64 = 128;

type Steps<'a> = SmallVec<[Step<'a>; LONGEST]>;

impl Engine {
    /// Returns true if commands may be joined at all.
    pub fn joins_commands(&self) -> bool {
        self.durability().takes_writes()
            && self.monitors() == 0
            && self.admin().paused_until_ms() == 0
            && !self.config().loading()
            && (!self.config().refuses_writes() || self.config().is_read_only_replica())
            && !self.replication().hides_stale_data()
    }

    /// Executes requests `from` and following as one transaction. If that is not possible,
    /// nothing was changed.
    pub fn execute_run(
        &self,
        session: &mut Session,
        batch: &Batch<'_>,
        from: usize,
        out: &mut Writer,
    ) -> Result<Executed, OneByOne> {
        let is_received = session.received.is_some();
        if batch.len() - from < 2 || session.in_multi() || session.replay && !is_received {
            return Err(OneByOne(1));
        }
        if session.only_listens() || session.caching {
            return Err(OneByOne(1));
        }
        session.role.set(self.replication().roles());
        let losses = self.keyspace().losses();
        if self.permissions().must_authenticate(session)
            || session.reply != ReplyMode::On
            || self.keyspace().has_media_errors()
            || hooks::logs_small(self, MOST_REQUEST, MOST_REPLY)
            || self.keyspace().excess() > 0 && self.memory_limits().may_evict_for(session)
        {
            return Err(OneByOne(1));
        }
        let mut steps = run_of(batch, from);
        if session.is_limited() {
            // A denied command is refused when it is executed by itself.
            let commands = steps.iter().map(|step| (step.command, step.args));
            steps.truncate(self.permissions().permitted(session, commands));
        }
        if self.config().refuses_writes() && !is_received {
            // A write is refused when it is executed by itself.
            let writes = steps.iter().position(|step| step.command.spec.has(WRITE));
            steps.truncate(writes.unwrap_or(steps.len()));
        }
        if self.cluster().is_on() && !is_received {
            // A request for another node is refused when it is executed by itself.
            let served = self.count_served(session, &steps);
            steps.truncate(served);
        }
        if steps.len() < 2 {
            return Err(OneByOne(1));
        }
        let needs_memory = steps.iter().any(|step| step.command.spec.has(DENYOOM));
        if needs_memory
            && !is_received
            && !matches!(self.memory_limits().evict_until_under_limit(session), Ok(true))
        {
            return Err(OneByOne(steps.len()));
        }
        session.set_shows_data();
        let mark = out.mark();
        let buffer = std::mem::take(&mut session.effects);
        let collects = if is_received { self.logs_commands() } else { self.collects_commands() };
        let mut effects = self.new_effects(buffer, collects);
        if session.can_wait() {
            out.begin_limit(LARGE);
        }
        let executed = self.execute_steps(session, losses, &steps, out, &mut effects);
        out.end_limit();
        session.effects = effects.into_buffer();
        match executed {
            Ok(done) => {
                session.written_to = session.written_to.max(done.reply_after);
                Ok(done)
            }
            Err(alone) => {
                out.truncate(mark);
                Err(alone)
            }
        }
    }

    /// Executes steps from the front in one transaction. If one of their shards is locked, there is
    /// no free memory, a reply is large, the medium lost bytes, or the log has failed, no data was
    /// changed.
    fn execute_steps(
        &self,
        session: &mut Session,
        losses: Losses,
        steps: &[Step<'_>],
        out: &mut Writer,
        effects: &mut Effects,
    ) -> Result<Executed, OneByOne> {
        let all = OneByOne(steps.len());
        let since_ns = self.begin_ns(session);
        // What a primary sends must find what it found there, before anything expired.
        let now_ns = if session.replay { 0 } else { since_ns };
        let mut txn = self.try_lock_steps(session, steps, now_ns / 1_000_000).ok_or(all)?;
        session.shard_wait = None;
        if !session.replay && !self.has_current_view(session) {
            return Err(all);
        }
        session.reads_of_changed.clear();
        let mut call = Call::new(self, session, steps[0].command, out, now_ns, effects);
        call.losses = losses;
        let mut times = Times { since_ns, from: 0 };
        let executed = self.execute_front(&mut call, &mut txn, steps, &mut times)?;
        let shown = self.shown_by(&steps[..executed]);
        if let Some(received) = &mut call.session.received {
            received.cover(executed);
        }
        let unit = Unit {
            engine: self,
            session: Some(&mut *call.session),
            effects: &mut *call.effects,
            shown: Shown::Keys(&shown),
            role: Role::Whole { databases: false },
            losses: call.losses,
        };
        let committed = unit.commit(&mut txn);
        drop(txn);
        if let Some(received) = &mut call.session.received
            && committed.is_err()
        {
            received.uncover(executed);
        }
        // Executed by itself, a command frees memory, or reports the loss of its own keys only.
        call.reply_after = committed.map_err(|_| all)?;
        self.unlocked(&mut call).map_err(|_| all)?;
        times.share(&mut call, &steps[..executed]);
        // Only the last reply of a run may be large.
        if hooks::is_large(&call) {
            hooks::observe_sizes(&call);
        }
        call.session.client.seen_ms.store(since_ns / 1_000_000, Relaxed);
        call.session.client.last_command.store(steps[executed - 1].command.id, Relaxed);
        Ok(Executed { requests: executed, next: Next::Reply, reply_after: call.reply_after })
    }

    /// Executes steps from the front in an open transaction; returns how many.
    #[inline(always)]
    fn execute_front<'a>(
        &self,
        call: &mut Call<'a>,
        txn: &mut Txn<'_>,
        steps: &[Step<'a>],
        times: &mut Times,
    ) -> Result<usize, OneByOne> {
        let begin = call.out.len();
        let mut executed = 0;
        while let Some(step) = steps.get(executed) {
            let is_bounded = step.command.spec.is(BOUNDED);
            let weight = match step.command.spec.weigh {
                Some(_) => weight_of(step, txn, call.db()),
                None => 0,
            };
            if weight > if is_bounded { LIGHT } else { LONG } {
                // It is executed by itself.
                if executed == 0 {
                    return Err(OneByOne(1));
                }
                break;
            }
            let is_quick = is_bounded && weight <= QUICK || step.is_quick();
            if !is_quick {
                times.share(call, &steps[..executed]);
            }
            // A string that is copied after the locks were released must be committed, and its
            // reply must be the last.
            call.may_pin = !txn.is_dirty();
            call.reply_from = call.out.len();
            let joined = Step::run_joined(&steps[executed..], call, txn);
            if joined == 0
                && let Err(failed) = step.run(call, txn)
            {
                // A command of the primary does not fail: executed by itself, it says why.
                if failed.out_of_memory || failed.takes_long || call.session.received.is_some() {
                    return Err(OneByOne(steps.len()));
                }
                self.stats().failed(call.session.thread, step.command.id);
            }
            call.effects.end_group();
            executed += joined.max(1);
            if !is_quick {
                times.share(call, &steps[..executed]);
            }
            if call.pinned.is_some() || call.out.len() - begin > MOST_REPLY {
                break;
            }
        }
        Ok(executed)
    }

    /// Returns the keys that steps show, if replies to reads wait for the log.
    #[inline]
    fn shown_by<'a>(&self, steps: &[Step<'a>]) -> SmallVec<[Key<'a>; LONGEST]> {
        if self.log().is_none() {
            return SmallVec::new();
        }
        steps.iter().flat_map(|step| step.keys).copied().collect()
    }
}

/// Returns the longest run of plain commands at the front.
fn run_of<'a>(batch: &'a Batch<'_>, from: usize) -> Steps<'a> {
    let plain = |request| Step::of(request).filter(is_plain);
    batch.from(from).take(LONGEST).map_while(plain).collect()
}

/// Returns true if a command may be part of a run. One that reads for long would do so under the
/// locks of all.
#[inline]
fn is_plain(step: &Step<'_>) -> bool {
    let spec = step.command.spec;
    matches!(spec.run, Run::Keys(_))
        && !spec.has(BLOCKING)
        && (spec.has(WRITE) || spec.has(READONLY) && (step.is_quick() || spec.is(BOUNDED)))
        && (1..=MOST_KEYS).contains(&step.keys.len())
        && step.args.len() <= MOST_WORDS
        && step.args.iter().map(|arg| arg.len()).sum::<usize>() <= MOST_BYTES
}

/// Shares the time of a run among its commands: a look at the clock takes as long as a quick
/// command.
struct Times {
    since_ns: u64,
    /// The first step that was not counted.
    from: usize,
}

impl Times {
    /// Counts the steps up to here, each with an equal share of the time.
    fn share(&mut self, call: &mut Call<'_>, executed: &[Step<'_>]) {
        let steps = &executed[self.from..];
        if steps.is_empty() {
            return;
        }
        let ended_ns = call.engine.clock.unix_ns();
        let nanos = ended_ns.saturating_sub(self.since_ns) / steps.len() as u64;
        let same_command = |a: &Step<'_>, b: &Step<'_>| a.command.id == b.command.id;
        for same in steps.chunk_by(same_command) {
            let (thread, id, count) = (call.session.thread, same[0].command.id, same.len() as u64);
            call.engine.stats().called(thread, id, count, nanos);
            hooks::count(call.engine, thread, id, count, nanos);
        }
        if hooks::is_slow(call.engine, nanos) {
            let mut call = call.inner();
            for step in steps {
                step.enter(&mut call);
                hooks::observe(&call, nanos);
            }
        }
        *self = Times { since_ns: ended_ns, from: executed.len() };
        call.session.ended_ns = Some(ended_ns).filter(|_| call.session.in_batch);
    }
}
