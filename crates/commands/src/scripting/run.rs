//! A script as one unit of work.
//!
//! The shards of the declared keys are locked, the script runs, and its changes are committed once:
//! after a crash all of them are there or none. As in Redis, if a script fails, the changes of its
//! earlier commands stay.
//!
//! A script that needs a shard which it could not lock is rolled back and run again with all shards
//! locked, at the same time and with the same random numbers; nobody has seen anything of the first
//! run. This is remembered, so that it happens once to a script.

use engine::Engine;
use engine::call::Call;
use engine::execute::Scope;
use engine::failure::{self, Done, Failure, MASTER_DOWN, OOM};
use engine::fault_points::FaultPoint;
use engine::line_text::in_line;
use engine::scripts::running::{LongSince, ScriptKind};
use engine::spec::READONLY;
use keyspace::Txn;
use resp::Mark;
use script::{Flags, Host, LogLevel, Outcome, Reply};

use super::host::{Halt, ScriptHost};
use super::reply;

const WRITE_FLAG: &str = "ERR Can not execute a script with write flag using *_ro command.";
const OVER_LIMIT: &str =
    "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'";

const NO_CLUSTER: &str = "ERR Can not run script on cluster, 'no-cluster' flag is set.";

/// A script or a function, ready to run.
pub(crate) struct Program<'p> {
    /// The SHA-1 of the script, or the name of the function.
    pub(crate) name: &'p str,
    /// The flags that it declares; `None` if it declares none: then each of its commands is
    /// checked.
    pub(crate) flags: Option<Flags>,
    /// The kind, which decides the command that kills it.
    pub(crate) kind: ScriptKind,
    /// Runs it.
    pub(crate) run: &'p mut dyn FnMut(&mut dyn Host) -> Outcome,
}

/// The rights of a script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rights {
    pub(super) kind: ScriptKind,
    pub(super) may_write: bool,
    /// If true, each write is checked when it is called; otherwise the script was checked as a
    /// whole.
    pub(super) checks_each: bool,
    /// Commands that need memory are refused.
    pub(super) is_over_limit: bool,
    /// In a cluster, all its keys must be in one slot.
    pub(super) has_one_slot: bool,
}

impl Rights {
    /// Determines the rights of a script, or why it may not run. With `is_inner`, all shards are
    /// locked already and nothing can be evicted.
    fn of(call: &Call<'_>, program: &Program<'_>, is_inner: bool) -> Result<Rights, Failure> {
        let Program { flags, kind, .. } = *program;
        let engine = call.engine;
        let reads_only = call.command.spec.has(READONLY);
        let is_over_limit = match is_inner {
            true => engine.keyspace().exceeds_maxmemory(),
            false => !engine.memory_limits().evict_until_under_limit(call.session)?,
        };
        let is_stale = engine.replication().hides_stale_data() && !call.session.replay;
        let Some(flags) = flags else {
            if is_stale {
                return Err(MASTER_DOWN.into());
            }
            return Ok(Rights {
                kind,
                may_write: !reads_only,
                checks_each: true,
                is_over_limit,
                has_one_slot: false,
            });
        };
        if flags.contains(Flags::NO_CLUSTER) && engine.cluster().is_on() {
            return Err(NO_CLUSTER.into());
        }
        let writes = !flags.contains(Flags::NO_WRITES);
        let needs_memory = writes && !flags.contains(Flags::ALLOW_OOM);
        // Redis treats the flags as those of the command, which it checks before the script.
        if needs_memory && is_over_limit && !is_inner {
            return Err(OOM.into());
        }
        if writes && reads_only {
            return Err(WRITE_FLAG.into());
        }
        if writes && !call.session.replay {
            engine.durability().check_writes()?;
        }
        if is_stale && !flags.contains(Flags::ALLOW_STALE) {
            return Err(MASTER_DOWN.into());
        }
        if needs_memory && is_over_limit {
            return Err(OVER_LIMIT.into());
        }
        let has_one_slot = !flags.contains(Flags::ALLOW_CROSS_SLOT_KEYS);
        Ok(Rights {
            kind,
            may_write: writes,
            checks_each: false,
            is_over_limit: false,
            has_one_slot,
        })
    }
}

/// Runs a script in a transaction of its own.
pub(crate) fn alone(call: &mut Call<'_>, program: &mut Program<'_>) -> Done {
    let engine = call.engine;
    let may_move = call.session.can_wait();
    if may_move && engine.scripts().is_long(program.name) {
        let started_ns = engine.clock().unix_ns();
        return Err(Failure::takes_long(Some(LongSince { kind: program.kind, started_ns })));
    }
    let rights = Rights::of(call, program, false)?;
    let start = Start { mark: call.out.mark(), random: call.session.random.clone() };
    let began_ns = engine.clock().unix_ns();
    let mut scope = Scope::Keys;
    if engine.scripts().is_undeclared(program.name) {
        scope = Scope::All;
    }
    loop {
        let mut halt = None;
        let done = engine.transact(call, scope, |call, txn| {
            let ended = execute(call, txn, program, rights, may_move);
            if ended.is_err() && !FaultPoint::DiscardHalted.holds() {
                call.commit_part(txn)?;
            }
            ended.map_err(|(why, failure)| {
                halt = Some(why);
                failure
            })
        });
        match halt {
            Some(Halt::NotLocked) => {
                engine.scripts().remember_undeclared(program.name);
                scope = Scope::All;
            }
            Some(Halt::TooLong(since)) => {
                start.restore(call);
                engine.scripts().remember_long(program.name);
                return Err(Failure::takes_long(Some(since)));
            }
            _ => {
                let took_ns = engine.clock().unix_ns().saturating_sub(began_ns);
                if call.session.running_script.is_some()
                    && took_ns < super::script_moved_after(engine)
                {
                    engine.scripts().forget_long(program.name);
                }
                return done;
            }
        }
        start.restore(call);
    }
}

/// Runs a script in a transaction that has locked all shards: in EXEC.
pub(crate) fn within(call: &mut Call<'_>, txn: &mut Txn<'_>, program: &mut Program<'_>) -> Done {
    let rights = Rights::of(call, program, true)?;
    let may_move = call.session.can_wait();
    execute(call, txn, program, rights, may_move).map_err(|(halt, failure)| {
        if let Halt::TooLong(since) = halt {
            call.long_script = Some(since);
            return Failure::takes_long(Some(since));
        }
        failure
    })
}

/// The state from which a second run starts.
struct Start {
    mark: Mark,
    random: fastrand::Rng,
}

impl Start {
    fn restore(&self, call: &mut Call<'_>) {
        call.out.truncate(self.mark);
        if FaultPoint::ForgetEffects.holds() {
            call.effects.forget_commands();
        }
        if FaultPoint::ForgetMessages.holds() {
            call.effects.forget_deliveries();
        }
        if FaultPoint::SameRandom.holds() {
            call.session.random = self.random.clone();
        }
        if !FaultPoint::SameTime.holds() {
            call.now_ns = call.engine.clock().unix_ns();
        }
    }
}

/// Runs a script, and writes its reply unless it was halted.
fn execute(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    program: &mut Program<'_>,
    rights: Rights,
    may_move: bool,
) -> Result<(), (Halt, Failure)> {
    let db = call.db();
    let mut host = ScriptHost::new(call, txn, program.name, rights, may_move);
    let outcome = (program.run)(&mut host);
    let (halt, lines) = (host.halt, std::mem::take(&mut host.lines));
    let changed_databases = host.changed_databases;
    drop(host);
    // A script selects a database only for itself.
    call.session.select(db);
    if let Some(halt) = halt {
        return Err((halt, failure_of(halt, &outcome.reply)));
    }
    call.changed_databases |= changed_databases;
    lines.iter().for_each(|(level, text)| log_line(call.engine, *level, text));
    if let Reply::Error { message, is_counted } = &outcome.reply {
        let stats = call.engine.stats();
        stats.failed(call.session.thread, call.command.id);
        if !is_counted {
            stats.error(failure::code(&reply::error_line(message)));
        }
    }
    count_errors_within(call.engine, &outcome.reply);
    reply::write(&outcome.reply, call.out);
    Ok(())
}

/// Counts the errors within an array reply, as Redis does when it writes them.
fn count_errors_within(engine: &Engine, reply: &Reply) {
    let count = |element: &Reply| match element {
        Reply::Error { is_counted: true, .. } => {}
        Reply::Error { message, .. } => {
            engine.stats().error(failure::code(&reply::error_line(message)));
        }
        other => count_errors_within(engine, other),
    };
    match reply {
        Reply::Array(items) | Reply::Set(items) => items.iter().for_each(count),
        Reply::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).for_each(count),
        _ => {}
    }
}

/// Returns the error of an ended script, for a caller that does not run it again.
fn failure_of(halt: Halt, reply: &Reply) -> Failure {
    match (halt, reply) {
        (Halt::Full, _) => keyspace::Error::Full.into(),
        (Halt::Killed, Reply::Error { message, .. }) => Failure::text(message.clone()),
        _ => "ERR the script was ended".into(),
    }
}

/// Writes a script's log line to the server's log, from level notice on.
pub(super) fn log_line(engine: &Engine, level: LogLevel, text: &[u8]) {
    if level >= LogLevel::Notice
        && let Some(host) = engine.host()
    {
        host.log(&in_line(text));
    }
}
