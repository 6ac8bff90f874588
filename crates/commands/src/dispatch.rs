//! The path of a command: from its words to its reply.
//!
//! Checks stand in Redis's order, since clients see which error comes first. Nothing here allocates for
//! a command with up to four keys. A command's effects are logged while its shards are still locked.

use keyspace::{Key, Keyspace, Prepared, Txn};
use resp::Writer;
use smallvec::SmallVec;
use std::sync::atomic::Ordering::Relaxed;

use crate::admin;
use crate::call::{Call, Next, Outcome, Run};
use crate::cross_protocol::is_http;
use crate::engine::Engine;
use crate::failure::{self, Done, Failure};
use crate::log::Effects;
use crate::request::{Keys, Request};
use crate::session::Session;
use crate::spec::*;
use crate::table::{Command, Lookup};
use crate::transactions;

impl Engine {
    /// Executes one request: `args` are its words, never empty. The reply goes to `out`.
    pub fn execute(&self, session: &mut Session, args: &[&[u8]], out: &mut Writer) -> Outcome {
        let lookup = self.table().find(args);
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
                return self.reject(session, None, unknown_subcommand(command, args), out);
            }
            Lookup::Unknown if is_http(args[0]) => return self.refuse_http(),
            Lookup::Unknown => return self.reject(session, None, unknown_command(args), out),
        };
        if let Err(failure) = self.admit(session, command, args.len()) {
            return self.reject(session, Some(command), failure, out);
        }
        if session.in_multi() && !transactions::is_immediate(command) {
            transactions::queue(session, command, args);
            out.simple("QUEUED");
            return Outcome::default();
        }
        // While a log is replayed nothing expires: what its commands found then, they must find now.
        let now_ns = if session.replay { 0 } else { self.begin_ns(session) };
        session.client.seen_ms.store(now_ns / 1_000_000, Relaxed);
        let outcome = self.call(session, command, request, out, now_ns);
        let is_of_client = command.parent.is_some_and(|parent| parent.name == "client");
        session.caching &= is_of_client || session.in_multi();
        session.forgotten.clear();
        outcome
    }

    /// What must hold before a command is queued or executed.
    pub(crate) fn admit(&self, session: &Session, command: &Command, argc: usize) -> Done {
        if !command.spec.accepts(argc) {
            let name = command.full_name();
            let text = format!("ERR wrong number of arguments for '{name}' command");
            return Err(Failure::text(text));
        }
        if session.replay {
            return Ok(());
        }
        if !session.authenticated && !command.spec.has(NO_AUTH) {
            return Err(failure::NO_AUTH.into());
        }
        if session.in_multi() && command.spec.has(NO_MULTI) {
            return Err("ERR Command not allowed inside a transaction".into());
        }
        self.check_memory(session, command)?;
        if let Some(text) = self.log_failure()
            && (transactions::writes(session, command) || command.spec.name == "ping")
        {
            return Err(Failure::text(format!("{}{text}", failure::LOG_FAILED)));
        }
        if self.config().refuses_writes() && transactions::writes(session, command) {
            return Err(self.config().why_writes_are_refused());
        }
        if session.only_listens() && !is_for_listeners(command) {
            let name = command.full_name();
            return Err(Failure::text(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
            )));
        }
        if self.config().loading() && !command.spec.has(LOADING) {
            return Err(failure::LOADING_DATA.into());
        }
        // Redis has those who monitor among its replicas.
        if session.client.monitor.load(Relaxed) && transactions::touches_keys(session, command) {
            return Err("ERR Replica can't interact with the keyspace".into());
        }
        Ok(())
    }

    /// Returns true unless the log has failed: nothing is to be deleted by itself meanwhile, since what the deletion's
    /// place in the log is waited for could no longer be read.
    pub fn takes_writes(&self) -> bool {
        self.log_failure().is_none()
    }

    fn log_failure(&self) -> Option<String> {
        self.log().and_then(|log| log.failure())
    }

    /// Refuses a command before it was executed: a transaction that is being queued is spoilt by it.
    pub(crate) fn reject(
        &self,
        session: &mut Session,
        command: Option<&Command>,
        failure: Failure,
        out: &mut Writer,
    ) -> Outcome {
        if let Some(command) = command {
            self.stats().rejected(session.stripe, command.id);
        }
        if command.is_some_and(transactions::is_exec) {
            transactions::discard(self, session);
            let mut text = b"EXECABORT Transaction discarded because of: ".to_vec();
            let cause = failure.as_bytes();
            text.extend_from_slice(cause.strip_prefix(b"ERR ").unwrap_or(cause));
            self.stats().error(b"EXECABORT");
            out.error(text);
        } else {
            transactions::spoil(session);
            session.caching &= session.in_multi();
            self.stats().error(failure.code());
            out.error(failure.as_bytes());
        }
        Outcome::default()
    }

    fn call(
        &self,
        session: &mut Session,
        command: &Command,
        request: Request<'_>,
        out: &mut Writer,
        now_ns: u64,
    ) -> Outcome {
        let logged = self.log().is_some() && !session.replay;
        let room = if logged { std::mem::take(&mut session.effects) } else { Vec::new() };
        let mut effects = Effects::new(room, logged);
        let mark = out.mark();
        let (args, keys) = (request.args, request.keys);
        let call = Call::new(self, session, command, out, now_ns, &mut effects);
        let mut call = Call { args, keys, ..call };
        let mut done = self.run(&mut call);
        if done.is_err() {
            done = self.again(&mut call, mark, done);
        }
        if let Err(failure) = &done {
            self.stop_waiting(call.session);
            if failure.is_no_room() {
                self.note_full();
            }
            call.next = Next::Reply;
            call.out.truncate(mark);
            call.out.error(failure.as_bytes());
            self.stats().error(failure.code());
        }
        if call.next != Next::Walk {
            self.finish(&mut call, now_ns, done.is_err());
        }
        let outcome = Outcome { next: call.next, durable_at: call.durable_at };
        if logged {
            session.effects = effects.into_room();
            session.written_to = session.written_to.max(outcome.durable_at);
        }
        outcome
    }

    /// When a command of the session that is executed now begins.
    pub(crate) fn begin_ns(&self, session: &Session) -> u64 {
        session.ended_ns.unwrap_or_else(|| self.clock.unix_ns())
    }

    /// Counts an execution and shows it to those who watch.
    pub(crate) fn finish(&self, call: &mut Call<'_>, started_ns: u64, failed: bool) {
        if call.session.replay {
            return;
        }
        let ended_ns = self.clock.unix_ns();
        let waited_ns = heap::waited_ns().wrapping_sub(call.waited_ns);
        let nanos = ended_ns.saturating_sub(started_ns).saturating_sub(waited_ns);
        if call.session.in_batch {
            call.session.ended_ns = Some(ended_ns);
        }
        let (stripe, id) = (call.session.stripe, call.command.id);
        self.stats().called(stripe, id, 1, nanos);
        if failed {
            self.stats().failed(stripe, id);
        }
        admin::count(self, stripe, id, 1, nanos);
        if admin::is_slow(self, nanos) {
            admin::observe(call, nanos);
        }
        if self.monitors() > 0 && !call.command.spec.has(SKIP_MONITOR | ADMIN) {
            admin::monitor(call);
        }
    }

    pub(crate) fn run(&self, call: &mut Call<'_>) -> Done {
        let now = call.now_ms();
        let keyspace = self.keyspace();
        if keyspace.has_alert() {
            self.refuse_harmed(call.db(), call.command, call.args, call.keys)?;
        }
        let done = match call.command.spec.run {
            Run::Container => Err(Failure::text(format!(
                "ERR wrong number of arguments for '{}' command",
                call.command.spec.name
            ))),
            Run::Session(run) => run(call),
            Run::Reach(beyond, run) if beyond(call.args) => {
                self.transact(call, &mut keyspace.begin_all(now), run)
            }
            Run::Keys(run) | Run::Reach(_, run) => match call.keys {
                [key] => {
                    let prepared = self.prepare(call, key)?;
                    let txn = keyspace.begin_one(key.shard(), now);
                    let mut txn = self.cover_writes(txn, call);
                    if let Some(value) = prepared {
                        txn.offer(value);
                    }
                    self.transact(call, &mut txn, run)
                }
                keys => {
                    let shards: SmallVec<[usize; 8]> = keys.iter().map(Key::shard).collect();
                    let txn = keyspace.begin(&shards, now);
                    self.transact(call, &mut self.cover_writes(txn, call), run)
                }
            },
            Run::All(run) => {
                let held = keyspace.hold();
                let done = self.transact(call, &mut keyspace.begin_all(now), run);
                held.done();
                done
            }
            Run::Walk(run, _) => run(call),
        };
        if !self.waiting().is_empty() {
            self.serve_uncovered(call.session.stripe);
        }
        if done.is_ok() && send_pinned(call) && keyspace.has_lost_since(call.losses) {
            return Err(Failure::unsettled());
        }
        done
    }

    /// The locks for a command that may fill keys for which clients wait.
    #[inline]
    fn cover_writes<'k>(&'k self, txn: Txn<'k>, call: &Call<'_>) -> Txn<'k> {
        if self.waiting().has_no_targets() || !call.command.spec.has(WRITE) {
            return txn;
        }
        // No more elements come than there are words.
        self.cover(txn, call.keys, call.args.len())
    }

    /// Runs a command in a transaction of its own. Dropped uncommitted, the transaction did nothing.
    pub(crate) fn transact(
        &self,
        call: &mut Call<'_>,
        txn: &mut Txn<'_>,
        run: impl FnOnce(&mut Call<'_>, &mut Txn<'_>) -> Done,
    ) -> Done {
        txn.set_touches(call.session.touches(call.command));
        call.session.reads_of_changed.clear();
        let mut done = run(call, txn);
        self.remember_reads(call, txn);
        if self.keyspace().has_lost_since(call.losses) {
            done = Err(Failure::unsettled());
        }
        // Who holds all shards may have read from any.
        let keys = if txn.covers_all() { &[] } else { call.keys };
        let settled = match done.and_then(|()| self.commit(txn, call.effects, keys)) {
            Ok(settled) => settled,
            Err(failure) => {
                // While nobody else can serve it: the command that blocks has failed.
                self.stop_waiting(call.session);
                // An error shows data too: that there is no such key, or another type.
                if call.command.spec.has(READONLY | WRITE) {
                    call.durable_at = self.check_read(keys, self.logged_until(keys))?;
                }
                return Err(failure);
            }
        };
        // What shows no data (INFO) answers also when the log has failed.
        call.durable_at = match call.command.spec {
            spec if spec.has(READONLY) && settled > 0 => {
                let names_all = matches!(spec.run, Run::Keys(_));
                self.check_read(if names_all { call.keys } else { keys }, settled)?
            }
            spec if spec.has(READONLY | WRITE) => settled,
            _ => 0,
        };
        self.deliver_all(call.session, call.effects);
        self.tell_trackers(txn, Some(call.session));
        if !self.waiting().is_empty() && call.command.spec.has(WRITE) {
            self.serve_waiting(
                txn,
                call.session.stripe,
                matches!(call.command.spec.run, Run::All(_)),
            );
        }
        if txn.has_met_expired() {
            self.delete_met(txn);
        }
        Ok(())
    }

    /// Deletes the expired keys that the commands of a transaction met while they read, behind its commit. Where that cannot
    /// be, the keys are still as good as gone.
    #[cold]
    pub(crate) fn delete_met(&self, txn: &mut Txn<'_>) {
        let may_write = self.admin().paused_until_ms() == 0 && self.log_failure().is_none();
        if may_write && txn.delete_met() && txn.commit().is_ok() {
            self.log_changes(txn);
        }
    }

    /// Writes a large value to the heap before the key's shard is locked.
    fn prepare(&self, call: &Call<'_>, key: &Key<'_>) -> Result<Option<Prepared<'_>>, Failure> {
        let value = call.command.spec.value.and_then(|at| call.args.get(at));
        match value.filter(|value| value.len() >= Keyspace::LARGE) {
            Some(value) => Ok(Some(self.keyspace().prepare(key, value)?)),
            None => Ok(None),
        }
    }

    /// Commits, logs while the shards are locked, and says how far the log must be durable before the
    /// reply may leave. `keys` name the shards; with none, all are meant.
    pub(crate) fn commit(
        &self,
        txn: &mut Txn<'_>,
        effects: &mut Effects,
        keys: &[Key<'_>],
    ) -> Result<u64, Failure> {
        if txn.is_dirty() || txn.pending_changes() > 0 {
            effects.put_before(txn.changes());
            txn.commit()?;
        }
        let Some(log) = self.log() else { return Ok(0) };
        let Some(end) = effects.append_to(log) else { return Ok(self.logged_until(keys)) };
        let note = |shard: usize| self.log_ends[shard].store(end, Relaxed);
        if keys.is_empty() {
            (0..self.log_ends.len()).for_each(note);
        } else {
            keys.iter().map(Key::shard).for_each(note);
        }
        Ok(end)
    }

    /// How far the log must be durable before a reply may leave that shows something of these keys as they are, or with no
    /// keys, of any.
    pub(crate) fn logged_until(&self, keys: &[Key<'_>]) -> u64 {
        if !self.log().is_some_and(|log| log.is_synchronous()) {
            return 0;
        }
        let last = |shard: usize| self.log_ends[shard].load(Relaxed);
        let newest = match keys {
            [] => (0..self.log_ends.len()).map(last).max(),
            keys => keys.iter().map(Key::shard).map(last).max(),
        };
        newest.unwrap_or(0)
    }

    /// Logs the deletions of a committed, still locked transaction of the keyspace's own (expiry, eviction), and tells the
    /// clients that wait for such a key.
    pub fn log_changes(&self, txn: &mut Txn<'_>) {
        if let Some(log) = self.log() {
            let mut effects = Effects::new(Vec::new(), true);
            effects.put_before(txn.changes());
            if let Some(end) = effects.append_to(log) {
                for change in txn.changes() {
                    let shard = self.keyspace().key(change.key).shard();
                    self.log_ends[shard].fetch_max(end, Relaxed);
                }
            }
        }
        self.tell_trackers(txn, None);
        // Deletions fill no key: nothing is counted.
        self.serve_waiting(txn, 0, false);
    }
}

/// Whether a client of RESP2 may use the command while it listens to channels.
fn is_for_listeners(command: &Command) -> bool {
    const NAMES: [&str; 9] = [
        "subscribe",
        "unsubscribe",
        "psubscribe",
        "punsubscribe",
        "ssubscribe",
        "sunsubscribe",
        "ping",
        "quit",
        "reset",
    ];
    command.parent.is_none() && NAMES.contains(&command.spec.name)
}

/// Ends a reply with a large string, if there is one, after the locks were released.
pub(crate) fn send_pinned(call: &mut Call<'_>) -> bool {
    let Some(value) = call.pinned.take() else { return false };
    call.out.bulk_header(value.len());
    value.append_to(call.out.buffer());
    call.out.bulk_end();
    true
}

fn unknown_subcommand(command: &Command, args: &[&[u8]]) -> Failure {
    let name = command.spec.name.to_uppercase();
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(c_string(args[1], 128));
    text.extend_from_slice(format!("'. Try {name} HELP.").as_bytes());
    Failure::text(text)
}

fn unknown_command(args: &[&[u8]]) -> Failure {
    let mut words = Vec::new();
    for arg in args.iter().skip(1) {
        if words.len() >= 128 {
            break;
        }
        let room = 128 - words.len();
        words.push(b'\'');
        words.extend_from_slice(c_string(arg, room));
        words.extend_from_slice(b"' ");
    }
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(c_string(args.first().copied().unwrap_or_default(), 128));
    text.extend_from_slice(b"', with args beginning with: ");
    text.extend_from_slice(&words);
    Failure::text(text)
}

/// What C's `%.*s` prints: up to a zero byte, at most `len` bytes.
fn c_string(bytes: &[u8], len: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(len)];
    bytes.split(|b| *b == 0).next().unwrap_or_default()
}
