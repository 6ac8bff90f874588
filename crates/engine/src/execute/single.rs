//! A single command: from its arguments to its reply. Nothing here allocates for one with up to
//! four keys.

use std::sync::atomic::Ordering::Relaxed;

use keyspace::{Key, Txn};
use resp::{Mark, Writer};

use super::admit::{unknown_command, unknown_subcommand};
use super::commit::{Role, Shown, Unit};
use super::large::{has_large_arguments, unless_large};
use super::locks::Scope;
use super::moved::end_command;
use super::step::Step;
use super::weight::weight_of;
use crate::engine::Engine;
use crate::execute::call::{Call, Next, Outcome, Run};
use crate::execute::http::{is_http, is_request_line};
use crate::execute::queue;
use crate::execute::request::{Keys, Request};
use crate::failure::{Done, Failure};
use crate::observe::hooks;
use crate::scripts::running::LongSince;
use crate::session::Session;
use crate::table::spec::{
    ADMIN, COMPILES, CommandSpec, Group, IMMEDIATE, LONG, MANY_WORDS, READONLY, SKIP_MONITOR,
    TAKES_LONG, WRITE,
};
use crate::table::{Command, Lookup};
use crate::wait::stop::stop_waiting;

impl Engine {
    /// Executes one request: `args` are its words, never empty. The reply goes to `out`.
    pub fn execute(&self, session: &mut Session, args: &[&[u8]], out: &mut Writer) -> Outcome {
        let lookup = match session.replay {
            true => self.table().find_original(args),
            false => self.table().find(args),
        };
        let mut keys = Keys::new();
        self.keys_of(lookup, args, |key| keys.push(key));
        self.perform(session, Request { args, lookup, keys: &keys }, out)
    }

    /// Executes a request that was looked up. The reply goes to `out`.
    pub fn perform(
        &self,
        session: &mut Session,
        request: Request<'_>,
        out: &mut Writer,
    ) -> Outcome {
        let args = request.args;
        let known = match request.lookup {
            Lookup::Found(command) => command.id,
            Lookup::Container(_) | Lookup::Unknown => usize::MAX,
        };
        session.client.last_command.store(known, Relaxed);
        let command = match request.lookup {
            Lookup::Found(command) => command,
            Lookup::Container(command) => {
                return self.reject(session, None, args, unknown_subcommand(command, args), out);
            }
            Lookup::Unknown if is_http(args[0]) || is_request_line(args) => {
                return self.refuse_http();
            }
            Lookup::Unknown => {
                return self.reject(session, None, args, unknown_command(args), out);
            }
        };
        if let Err(mut failure) = self.admit(session, command, &request) {
            if let Some(shards) = failure.wanted_shards() {
                match self.check_holders(shards) {
                    Ok(()) => return self.wait_for_shards(session, shards),
                    Err(busy) => failure = busy,
                }
            }
            session.end_wait();
            if is_request_line(args) {
                return self.refuse_http();
            }
            return self.reject(session, Some(command), args, failure, out);
        }
        if session.in_multi() && !command.spec.is(IMMEDIATE) {
            session.end_wait();
            queue::push(self, session, command, &request);
            out.simple("QUEUED");
            return Outcome::default();
        }
        // Nothing expires while a log is replayed: its commands must find what they found then.
        let now_ns = if session.replay { 0 } else { self.begin_ns(session) };
        session.client.seen_ms.store(now_ns / 1_000_000, Relaxed);
        let outcome = self.call(session, command, request, out, now_ns);
        end_command(session, command, outcome.next);
        outcome
    }

    /// Executes a command that was admitted, at the time `now_ns`. The reply goes to `out`.
    pub(crate) fn call(
        &self,
        session: &mut Session,
        command: &Command,
        request: Request<'_>,
        out: &mut Writer,
        now_ns: u64,
    ) -> Outcome {
        let has_log = self.log().is_some();
        let logged = match (&session.received, session.replay) {
            (Some(_), _) => self.logs_commands(),
            (None, replays) => !replays && self.collects_commands(),
        };
        let buffer = if logged { std::mem::take(&mut session.effects) } else { Vec::new() };
        let mut effects = self.new_effects(buffer, logged);
        let mark = out.mark();
        let (args, keys) = (request.args, request.keys);
        let call = Call::new(self, session, command, out, now_ns, &mut effects);
        let mut call = Call { args, keys, ..call };
        let done = self.attempt_here_or_elsewhere(&mut call, mark);
        match &done {
            Err(failure) if failure.comes_again() => {
                if let Some(shards) = failure.wanted_shards() {
                    call.next = self.wait_for_shards(call.session, shards).next;
                }
            }
            Err(failure) => self.fail(&mut call, failure),
            Ok(()) => {}
        }
        if !matches!(call.next, Next::Walk | Next::Locked) && call.session.moved.is_none() {
            self.finish(&mut call, now_ns, done.is_err());
        }
        if call.shows_data {
            call.session.set_shows_data();
        }
        let outcome = Outcome { next: call.next, reply_after: call.reply_after };
        if logged {
            session.effects = effects.into_buffer();
        }
        if has_log {
            session.written_to = session.written_to.max(outcome.reply_after);
        }
        outcome
    }

    /// Answers a failed command with its error.
    #[cold]
    fn fail(&self, call: &mut Call<'_>, failure: &Failure) {
        if failure.is_out_of_memory() {
            self.full_store().record_refused();
        }
        call.out.error(self.full_store().text_of(failure));
        self.stats().error(failure.code());
        // A shutdown may have undone a script: its client's later commands must not be executed
        // without it.
        if self.running_scripts().is_ending() {
            call.next = Next::Close;
        }
    }

    /// Returns the time at which a command that the session executes now begins.
    pub fn begin_ns(&self, session: &Session) -> u64 {
        session.ended_ns.unwrap_or_else(|| self.clock.unix_ns())
    }

    /// Counts an execution, and shows it to the slow log and to clients in MONITOR mode.
    pub fn finish(&self, call: &mut Call<'_>, started_ns: u64, failed: bool) {
        if call.session.replay {
            if call.session.received.is_some() {
                self.stats().called(call.session.thread, call.command.id, 1, 0);
            }
            return;
        }
        let ended_ns = self.clock.unix_ns();
        let waited_ns = heap::waited_ns().wrapping_sub(call.waited_ns);
        let nanos = ended_ns.saturating_sub(started_ns).saturating_sub(waited_ns);
        if call.session.in_batch {
            call.session.ended_ns = Some(ended_ns);
        }
        let (thread, id) = (call.session.thread, call.command.id);
        self.stats().called(thread, id, 1, nanos);
        if failed {
            self.stats().failed(thread, id);
        }
        hooks::count(self, thread, id, 1, nanos);
        if hooks::is_slow(self, nanos) {
            if call.next == Next::Block {
                call.session.slow_block = hooks::slow_block(call, nanos);
            } else {
                hooks::observe(call, nanos);
            }
        }
        if hooks::is_large(call) {
            hooks::observe_sizes(call);
        }
        if self.monitors() > 0 && !call.command.spec.has(SKIP_MONITOR | ADMIN) {
            hooks::monitor(call);
        }
    }

    /// Runs a command by itself, or on another thread if it takes long.
    fn attempt_here_or_elsewhere(&self, call: &mut Call<'_>, mark: Mark) -> Done {
        let moves_again = call.session.moves_again.take().filter(|_| call.may_move());
        let mut done = match moves_again {
            Some(since) => Err(Failure::takes_long(since)),
            None => self.attempt_with_memory(call, mark),
        };
        // A thread that may wait does so.
        while !call.session.gives_way
            && let Some(shards) = done.as_ref().err().and_then(Failure::wanted_shards)
        {
            self.wait_by_thread(shards);
            done = self.attempt_with_memory(call, mark);
        }
        let Some(since) = done.as_ref().err().and_then(Failure::long_since) else { return done };
        if call.move_away(since, Engine::call) {
            return done;
        }
        // No thread is available, so it runs here.
        let can_walk = std::mem::replace(&mut call.session.can_walk, false);
        let done = self.attempt_with_memory(call, mark);
        call.session.can_walk = can_walk;
        done
    }

    /// Runs a command by itself, and again if memory was freed for it.
    fn attempt_with_memory(&self, call: &mut Call<'_>, mark: Mark) -> Done {
        let mut done = self.attempt(call, mark);
        let mut tries = 0;
        while done.as_ref().is_err_and(|failure| self.may_run_again(call, failure, tries)) {
            tries += 1;
            done = self.attempt(call, mark);
        }
        done
    }

    /// Runs a command by itself, and again if it may have read what the medium lost. If it fails,
    /// nothing is left of it.
    fn attempt(&self, call: &mut Call<'_>, mark: Mark) -> Done {
        self.keyspace().retry_losses(Failure::has_unresolved_losses, |losses| {
            call.losses = losses;
            let done = self.dispatch(call);
            if done.is_err() {
                self.undo(call, mark);
            }
            done
        })
    }

    /// Undoes the output of a command that failed.
    #[cold]
    fn undo(&self, call: &mut Call<'_>, mark: Mark) {
        stop_waiting(self, call.session);
        call.out.truncate(mark);
        call.effects.clear();
        call.pinned = None;
        call.next = Next::Reply;
    }

    /// Frees memory for a command that found none. Returns false if that would not help it.
    #[cold]
    fn may_run_again(&self, call: &Call<'_>, failure: &Failure, tries: usize) -> bool {
        failure.is_out_of_memory()
            && self.memory_limits().free_for(call.args.iter().map(|arg| arg.len()).sum(), tries)
    }

    /// Returns false for what a node of a cluster alone has to ask, elsewhere.
    fn may_take_long(&self, spec: &CommandSpec) -> bool {
        spec.group != Group::Cluster || self.cluster().is_on()
    }

    fn dispatch(&self, call: &mut Call<'_>) -> Done {
        let spec = call.command.spec;
        let takes_long = spec.is(TAKES_LONG) && self.may_take_long(spec)
            || spec.is(COMPILES) && has_long_text(call.args)
            || has_large_arguments(call);
        if takes_long && call.may_move() {
            let started_ns = self.clock.unix_ns();
            let since = match spec.run {
                Run::Script(script) => Some(LongSince { kind: script.kind, started_ns }),
                _ => None,
            };
            return Err(Failure::takes_long(since));
        }
        match call.command.spec.run {
            Run::Container => Err(Failure::text(format!(
                "ERR wrong number of arguments for '{}' command",
                call.command.spec.name
            ))),
            Run::Session(run) | Run::OwnLocks { run, .. } => run(call),
            Run::Script(script) => {
                hooks::monitor_script(call);
                (script.alone)(call)
            }
            Run::KeysOrAll { needs_all, run } if needs_all(call.args) => {
                self.transact(call, Scope::All, unless_large(run))
            }
            Run::Keys(run) | Run::KeysOrAll { run, .. } => {
                self.transact(call, Scope::Keys, unless_large(run))
            }
            Run::All(run) => {
                let held = self.keyspace().time_lock_hold();
                let done = self.transact_once(call, Scope::All, run);
                held.done();
                let unlocked = self.unlocked(call);
                done.and(unlocked)
            }
        }
    }

    /// Runs a command as a unit of work, including the steps after its locks are released. If it
    /// fails, nothing has happened.
    #[inline]
    pub fn transact(
        &self,
        call: &mut Call<'_>,
        scope: Scope,
        run: impl FnOnce(&mut Call<'_>, &mut Txn<'_>) -> Done,
    ) -> Done {
        let done = self.transact_once(call, scope, run);
        let unlocked = self.unlocked(call);
        done.and(unlocked)
    }

    /// Runs a command as a unit of work; the caller is to call [`Engine::unlocked`] next.
    #[inline]
    pub fn transact_once(
        &self,
        call: &mut Call<'_>,
        scope: Scope,
        run: impl FnOnce(&mut Call<'_>, &mut Txn<'_>) -> Done,
    ) -> Done {
        if self.keyspace().has_media_errors() {
            self.refuse_damaged(call.db(), call.command, call.args, call.keys)?;
        }
        let prepared = self.prepare(call, scope)?;
        let mut txn = self.lock(call, scope)?;
        debug_assert!(
            matches!(scope, Scope::Shard(_)) || call.keys.iter().all(|key| txn.covers(key)),
            "the shards of all keys are locked"
        );
        let may_be_long = call.command.spec.weigh.is_some() || call.args.len() > MANY_WORDS;
        if may_be_long && call.may_move() && weight_of(&Step::in_call(call), &txn, call.db()) > LONG
        {
            return Err(Failure::takes_long(None));
        }
        if let Some(value) = prepared {
            txn.attach(value);
        }
        self.transact_locked(call, &mut txn, run)
    }

    #[inline]
    fn transact_locked(
        &self,
        call: &mut Call<'_>,
        txn: &mut Txn<'_>,
        run: impl FnOnce(&mut Call<'_>, &mut Txn<'_>) -> Done,
    ) -> Done {
        txn.set_touches(call.command.touches(&call.session.client));
        call.session.reads_of_changed.clear();
        let done = run(call, txn);
        self.tracking_clients().remember_reads(call, txn);
        let spec = call.command.spec;
        // A command that holds all shards may have read any key, and a script may have read keys
        // that the command does not name.
        let is_script = matches!(spec.run, Run::Script(..));
        let names_all = matches!(spec.run, Run::Keys(_)) || !(is_script || txn.covers_all());
        let keys = if names_all { call.keys } else { &[] };
        let shows = spec.has(READONLY | WRITE) || is_script || call.shows_data;
        let databases =
            matches!(spec.run, Run::All(_)) && spec.has(WRITE) || call.changed_databases;
        let committed = done.and_then(|()| {
            let unit = Unit {
                engine: self,
                session: Some(&mut *call.session),
                effects: &mut *call.effects,
                // A command that shows no data (INFO) answers even if the log has failed.
                shown: if shows { Shown::Keys(keys) } else { Shown::Nothing },
                role: Role::Whole { databases },
                losses: call.losses,
            };
            unit.commit(txn)
        });
        match committed {
            Ok(reply_after) => {
                call.reply_after = reply_after;
                Ok(())
            }
            Err(failure) => self.fail_locked(call, keys, failure),
        }
    }

    /// Ends a failed command while nobody else can change the data that its error shows.
    #[cold]
    fn fail_locked(&self, call: &mut Call<'_>, keys: &[Key<'_>], failure: Failure) -> Done {
        // Before another thread can serve it: the command that blocks has failed.
        stop_waiting(self, call.session);
        call.pinned = None;
        self.keyspace().check_losses(call.losses)?;
        // An error shows data too: that there is no such key, or another type.
        if call.command.spec.has(READONLY | WRITE) || call.shows_data {
            call.reply_after =
                self.durability().check_read(keys, self.durability().logged_until(keys))?;
        }
        Err(failure)
    }
}

/// Returns true if one of these words is a text that takes long to compile.
fn has_long_text(args: &[&[u8]]) -> bool {
    const LONG_TEXT: usize = 64 << 10;
    args.iter().skip(1).take(3).any(|arg| arg.len() > LONG_TEXT)
}
