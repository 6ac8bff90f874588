//! Executes the commands that a script calls, in the script's transaction.
//!
//! Each command is one step of the transaction: if it fails its own changes are undone, and the
//! script decides what follows. Its reply goes into a buffer of its own, from which the script gets
//! it.
//!
//! A script may name keys that it has not declared. Their shard is locked if nobody else has it; a
//! script that waited for it, with others locked, could wait forever. If that fails, or the heap
//! has no free memory, the script is halted: from then on it gets only errors, its changes are
//! discarded, and the caller runs it again.

use std::sync::Arc;

use cluster::topology::route::Slots;
use engine::call::{Call, Run};
use engine::execute::Step;
use engine::execute::request::{Keys, is_same};
use engine::failure::{Done, OOM};
use engine::fault_points::FaultPoint;
use engine::scripts::running::{LongSince, RunningScript};
use engine::session::kept_words::LARGE;
use engine::spec::{
    CommandSpec, DENYOOM, IMMEDIATE, MAY_REPLICATE, NO_MULTI, NOSCRIPT, STALE, WRITE,
};
use engine::table::{Command, Lookup};
use keyspace::{Key, Txn, slot};
use resp::{Protocol, Writer};
use script::{Continue, LogLevel};
use smallvec::SmallVec;

use super::run::{Rights, log_line};
use super::times::{self, Times};

const UNKNOWN: &str = "ERR Unknown Redis command called from script";
const WRONG_ARITY: &str = "ERR Wrong number of args calling Redis command from script";
const NOT_FROM_SCRIPT: &str = "ERR This Redis command is not allowed from script";
const READ_ONLY: &str = "ERR Write commands are not allowed from read-only scripts.";
/// The error that a halted script gets; nobody else sees it.
const HALTED: &str = "ERR the script was halted";

/// The maximum number of bytes of log lines that are kept until a run counts. If a run writes more
/// and does not count, some lines are written twice.
const MAX_LINE_BYTES: usize = 1 << 20;

/// The number of declared keys up to which each command's keys are compared with them.
const FEW_KEYS: usize = 4;

/// Why a script was ended, and its changes discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// It needs a shard that somebody else has locked.
    NotLocked,
    /// A command found no free memory in the heap.
    Full,
    /// It takes long: it must run again on a thread of its own.
    TooLong(LongSince),
    /// SCRIPT KILL, or a shutdown: it must not run again.
    Killed,
}

/// The host of one run of a script.
pub(super) struct ScriptHost<'h, 'c, 'k> {
    call: &'h mut Call<'c>,
    txn: &'h mut Txn<'k>,
    name: &'h str,
    rights: Rights,
    /// Effects go into the command log (`redis.set_repl`).
    is_logged: bool,
    /// The name of the last command, as the script wrote it, and the command.
    last: Option<(SmallVec<[u8; 16]>, &'c Command)>,
    has_written: bool,
    /// In a cluster, the slot of its keys.
    slots: Slots,
    /// The times of commands that are not counted yet.
    times: Times,
    /// When the script's running time was first checked, unix ns.
    started_ns: Option<u64>,
    /// The script can be run again on a thread of its own.
    may_move: bool,
    /// The script's entry in the list of running scripts, if it runs long.
    running: Option<Arc<RunningScript>>,
    /// This host listed it, since it runs on its connection's thread.
    is_listed: bool,
    /// The script executed a command that changes whole databases.
    pub(super) changed_databases: bool,
    pub(super) halt: Option<Halt>,
    /// Lines for the server's log, written when the run counts, or when there are many.
    pub(super) lines: Vec<(LogLevel, Vec<u8>)>,
    line_bytes: usize,
}

impl<'h, 'c, 'k> ScriptHost<'h, 'c, 'k> {
    pub(super) fn new(
        call: &'h mut Call<'c>,
        txn: &'h mut Txn<'k>,
        name: &'h str,
        rights: Rights,
        may_move: bool,
    ) -> ScriptHost<'h, 'c, 'k> {
        let running = call.session.running_script.clone();
        let in_cluster = call.engine.cluster().is_on();
        let slots = call.keys.iter().filter(|_| in_cluster).map(|key| slot(key.bytes()));
        let slots = slots.collect();
        if let Some(running) = &running {
            running.set_program(name, call.args);
            running.set_locked(txn.locked());
        }
        ScriptHost {
            call,
            txn,
            name,
            rights,
            is_logged: true,
            last: None,
            times: Times::default(),
            has_written: false,
            slots,
            started_ns: None,
            may_move: may_move && running.is_none(),
            running,
            is_listed: false,
            changed_databases: false,
            halt: None,
            lines: Vec::new(),
            line_bytes: 0,
        }
    }

    /// Checks the preconditions of a command.
    fn admit(&self, command: &Command, args: &[&[u8]]) -> Done {
        let spec = command.spec;
        if !spec.accepts(args.len()) {
            return Err(WRONG_ARITY.into());
        }
        let config = self.call.engine.config();
        if spec.has(NOSCRIPT) && !(config.calls_any_from_script() && may_be_allowed(spec)) {
            return Err(NOT_FROM_SCRIPT.into());
        }
        self.call.engine.permissions().check_called(self.call.session, command, args)?;
        let Rights { may_write, .. } = self.rights;
        // A command that may be propagated counts as a write here, as it does while clients are
        // paused.
        if spec.has(WRITE | MAY_REPLICATE) && !may_write {
            return Err(READ_ONLY.into());
        }
        let replays = self.call.session.replay;
        if spec.has(WRITE) && self.rights.checks_each && !replays {
            self.call.engine.durability().check_writes()?;
        }
        if !spec.has(STALE) && !replays && self.call.engine.replication().hides_stale_data() {
            return Err("ERR Can not execute the command on a stale replica".into());
        }
        if spec.has(DENYOOM) && self.rights.is_over_limit && !self.has_written {
            return Err(OOM.into());
        }
        Ok(())
    }

    /// Locks the shards that a command needs. Returns false if another client has one of them.
    fn lock(&mut self, step: &Step<'_>) -> bool {
        if step.needs_all() {
            return self.txn.covers_all();
        }
        if step.keys.iter().all(|key| self.txn.covers(key)) {
            return true;
        }
        let missing: SmallVec<[usize; 4]> =
            step.keys.iter().filter(|key| !self.txn.covers(key)).map(Key::shard).collect();
        let is_locked = missing.into_iter().all(|shard| self.txn.try_extend(shard));
        if let Some(running) = &self.running {
            running.set_locked(self.txn.locked());
        }
        is_locked
    }

    /// Lists a script that takes long on its connection's thread, since no other thread can run it.
    #[cold]
    fn list(&mut self, since: LongSince) {
        let running = Arc::new(RunningScript::new(since));
        running.set_program(self.name, self.call.args);
        running.set_locked(self.txn.locked());
        if self.has_written {
            running.set_written();
        }
        self.call.engine.running_scripts().enter(&running);
        self.running = Some(running);
        self.is_listed = true;
    }

    /// Finds a command by name. Scripts call the same one again and again.
    fn find(&mut self, arguments: &[&[u8]]) -> Option<&'c Command> {
        if let Some((name, command)) = &self.last
            && is_same(name, arguments[0])
        {
            return Some(command);
        }
        let engine = self.call.engine;
        let Lookup::Found(command) = engine.table().find(arguments) else { return None };
        if command.parent.is_none() && !command.spec.is_container() {
            self.last = Some((SmallVec::from_slice(arguments[0]), command));
        }
        Some(command)
    }

    /// Hashes the keys of a command, except those that the script declares, which were hashed
    /// before.
    fn keys_of<'a>(&self, command: &Command, arguments: &'a [&'a [u8]], keys: &mut Keys<'a>)
    where
        'c: 'a,
    {
        let engine = self.call.engine;
        let declared = &self.call.keys[..self.call.keys.len().min(FEW_KEYS)];
        if command.spec.accepts(arguments.len()) {
            for spec in command.spec.keys {
                spec.each(arguments, |at| {
                    let known = declared.iter().find(|key| key.bytes() == arguments[at]);
                    keys.push(match known {
                        Some(key) => *key,
                        None => engine.keyspace().key(arguments[at]),
                    });
                });
            }
        }
    }

    /// Executes a command if it is allowed. Its reply, which may be an error, goes to `out`.
    fn try_execute(&mut self, arguments: &[&[u8]], out: &mut Writer) -> Done {
        let engine = self.call.engine;
        let command = self.find(arguments).ok_or(UNKNOWN)?;
        if self.halt.is_some() {
            return Err(HALTED.into());
        }
        self.admit(command, arguments).inspect_err(|_| {
            engine.stats().rejected(self.call.session.thread, command.id);
        })?;
        let mut keys = Keys::new();
        self.keys_of(command, arguments, &mut keys);
        let step = Step { command, args: arguments, keys: &keys };
        if !self.lock(&step) {
            self.halt = Some(Halt::NotLocked);
            return Err(HALTED.into());
        }
        if engine.cluster().is_on() {
            let slots = self.rights.has_one_slot.then_some(&mut self.slots);
            engine.check_place_in_script(self.call.session, &step, slots, self.txn)?;
        }
        engine.refuse_damaged_within(self.txn, self.call.db(), &step)?;
        let mark = out.mark();
        if self.may_move {
            out.begin_limit(LARGE);
        }
        self.execute(&step, out);
        if out.end_limit() {
            out.truncate(mark);
            self.halt = Some(Halt::TooLong(self.since(engine.clock().unix_ns())));
            return Err(HALTED.into());
        }
        Ok(())
    }

    /// Returns the script's kind and start time.
    fn since(&mut self, now_ns: u64) -> LongSince {
        LongSince { kind: self.rights.kind, started_ns: *self.started_ns.get_or_insert(now_ns) }
    }

    /// Executes a command that was admitted.
    fn execute(&mut self, step: &Step<'_>, out: &mut Writer) {
        let call = &mut *self.call;
        let (engine, losses, mark) = (call.engine, call.losses, call.effects.mark());
        let script_keys = Some(call.keys);
        let command = step.command;
        let shares = times::may_share(engine, call.session, step);
        let started_ns = match shares && self.times.is_of(command) {
            true => None,
            false => {
                self.times.count(engine, call.session);
                Some(engine.begin_ns(call.session))
            }
        };
        let inner = Call::new(engine, call.session, command, out, call.now_ns, call.effects);
        let mut inner = Call { may_pin: false, may_block: false, script_keys, losses, ..inner };
        let failed = step.run(&mut inner, self.txn).err();
        if !FaultPoint::CommitAtEnd.holds() {
            let _ = inner.commit_part(self.txn);
        }
        if shares {
            self.times.add(&mut inner, started_ns, failed.is_some());
        } else {
            engine.finish(&mut inner, started_ns.unwrap_or_default(), failed.is_some());
        }
        if !self.is_logged {
            call.effects.truncate_commands(mark);
        }
        if failed.is_some_and(|failed| failed.out_of_memory) {
            self.halt = Some(Halt::Full);
        }
        let is_write = command.spec.has(WRITE);
        self.has_written |= is_write;
        if is_write && let Some(running) = &self.running {
            running.set_written();
        }
        self.changed_databases |= is_write && matches!(command.spec.run, Run::All(_));
    }
}

/// Returns true if DEBUG SET-DISABLE-DENY-SCRIPTS lets a script call the command: it can be part of
/// an EXEC, and is not a script.
fn may_be_allowed(spec: &CommandSpec) -> bool {
    !spec.has(NO_MULTI) && !spec.is(IMMEDIATE) && !matches!(spec.run, Run::Script(..))
}

impl script::Host for ScriptHost<'_, '_, '_> {
    fn call(&mut self, arguments: &[&[u8]], resp3: bool, reply: &mut Vec<u8>) -> bool {
        let protocol = if resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let mut out = Writer::append_to(std::mem::take(reply), protocol);
        let done = self.try_execute(arguments, &mut out);
        if let Err(failure) = &done {
            // An executed command counts its own error; errors of a run that is repeated do not
            // count.
            if self.halt.is_none() {
                self.call.engine.stats().error(failure.code());
            }
            out.error(failure.as_bytes());
        }
        *reply = out.take();
        true
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        if level < LogLevel::Notice {
            return;
        }
        self.lines.push((level, message.to_vec()));
        self.line_bytes += message.len() + size_of::<(LogLevel, Vec<u8>)>();
        if self.line_bytes > MAX_LINE_BYTES {
            self.line_bytes = 0;
            self.lines.drain(..).for_each(|(level, line)| log_line(self.call.engine, level, &line));
        }
    }

    fn acl_check(&mut self, arguments: &[&[u8]]) -> Option<bool> {
        let Lookup::Found(command) = self.call.engine.table().find(arguments) else { return None };
        Some(self.call.engine.permissions().may_execute(self.call.session, command, arguments))
    }

    fn set_replication(&mut self, flags: u8) {
        const APPEND_ONLY_FILE: u8 = 1;
        self.is_logged = flags & APPEND_ONLY_FILE != 0;
    }

    fn random_seed(&mut self) -> Option<u32> {
        // A second run gets the same value, since it begins with the same state of the session.
        Some(self.call.session.random.u32(..))
    }

    fn poll(&mut self) -> Continue {
        if self.halt.is_some() {
            return Continue::Kill;
        }
        if let Some(running) = &self.running {
            if running.is_killed() {
                self.halt = Some(Halt::Killed);
                return Continue::Kill;
            }
            return Continue::Yes;
        }
        let engine = self.call.engine;
        let now_ns = engine.clock().unix_ns();
        let since = self.since(now_ns);
        let took_ns = now_ns.saturating_sub(since.started_ns);
        if self.may_move && took_ns > super::script_moved_after(engine) {
            self.halt = Some(Halt::TooLong(since));
            return Continue::Kill;
        }
        if !self.may_move && took_ns > engine.config().busy_reply_threshold_ns() {
            self.list(since);
        }
        Continue::Yes
    }
}

impl Drop for ScriptHost<'_, '_, '_> {
    fn drop(&mut self) {
        self.times.count(self.call.engine, self.call.session);
        let Some(running) = self.running.take() else { return };
        // Clients that wait for one of its shards wait for a commit from here on. A script that ran
        // again would find its own locks in the way.
        running.set_locked(std::iter::empty());
        if self.is_listed {
            self.call.engine.running_scripts().leave(&running);
        }
    }
}
