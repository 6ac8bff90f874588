//! One of several commands that share a transaction of the keyspace: in EXEC, or in a pipelined
//! run.

use keyspace::{Key, Savepoint, Txn};
use resp::Mark;
use smallvec::SmallVec;

use crate::execute::call::{Call, Next, Run, RunJoined, Words};
use crate::execute::request::Request;
use crate::failure::{Failure, SYNTAX};
use crate::fault_points::FaultPoint;
use crate::log::EffectsMark;
use crate::observe::hooks;
use crate::table::spec::{FAST, READONLY};
use crate::table::{Command, Lookup};

/// A command with its words and keys.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// The command, from the table.
    pub command: &'a Command,
    /// All words of its request.
    pub args: &'a [&'a [u8]],
    /// Its keys, in the order of its key specs.
    pub keys: &'a [Key<'a>],
}

/// The failure of a step, whose error takes the place of its reply.
#[derive(Clone, Copy)]
pub struct Failed {
    /// The heap was full.
    pub out_of_memory: bool,
    /// It is to be executed by itself, by another thread.
    pub takes_long: bool,
}

impl<'a> Step<'a> {
    /// Returns the step of a request, if its command is known.
    #[inline]
    pub fn of(request: Request<'a>) -> Option<Step<'a>> {
        let Lookup::Found(command) = request.lookup else { return None };
        Some(Step { command, args: request.args, keys: request.keys })
    }

    /// Returns the step that a call executes.
    pub(crate) fn in_call(call: &Call<'a>) -> Step<'a> {
        Step { command: call.command, args: call.args, keys: call.keys }
    }

    /// Returns true if it touches shards that its keys do not name.
    pub fn needs_all(&self) -> bool {
        match self.command.spec.run {
            Run::All(_) | Run::OwnLocks { .. } | Run::Script(..) => true,
            Run::KeysOrAll { needs_all, .. } => needs_all(self.args),
            Run::Container | Run::Session(_) | Run::Keys(_) => false,
        }
    }

    /// Returns true if it is so quick that its time is averaged with that of others. (Redis does
    /// not flag SET as fast.)
    #[inline]
    pub fn is_quick(&self) -> bool {
        self.command.spec.has(FAST) || self.command.spec.value.is_some()
    }

    /// Makes this the command that `call` executes.
    #[inline]
    pub(crate) fn enter(&self, call: &mut Call<'a>) {
        (call.command, call.args, call.keys) = (self.command, self.args, self.keys);
        call.next = Next::Reply;
    }

    /// Runs the command in the transaction. If it fails, its own changes are undone.
    #[inline]
    pub fn run(&self, call: &mut Call<'a>, txn: &mut Txn<'_>) -> Result<(), Failed> {
        let before = self.begin(call, txn);
        let done = match self.command.spec.run {
            Run::Session(run) => run(call),
            Run::Keys(run)
            | Run::KeysOrAll { run, .. }
            | Run::All(run)
            | Run::OwnLocks { within: run, .. } => run(call, txn),
            Run::Script(script) => (script.within)(call, txn),
            Run::Container => Err(Failure::from(SYNTAX)),
        };
        let done = match done {
            Ok(()) if call.out.is_over_limit() => Err(Failure::takes_long(None)),
            done => done,
        };
        call.engine.tracking_clients().remember_reads(call, txn);
        let Err(failure) = done else {
            before.settle(call, txn);
            return Ok(());
        };
        before.undo(call, txn);
        call.out.error(call.engine.full_store().text_of(&failure));
        let takes_long = failure.long_since().is_some();
        if !takes_long {
            call.engine.stats().error(failure.code());
        }
        Err(Failed { out_of_memory: failure.is_out_of_memory(), takes_long })
    }

    /// Runs commands from the front of `steps` as one change of their key, if they are the same
    /// command on the same key, and it has a [`joined`](crate::CommandSpec::joined) form. Returns
    /// how many; if none, nothing was changed.
    #[inline]
    pub fn run_joined(steps: &[Step<'a>], call: &mut Call<'a>, txn: &mut Txn<'_>) -> usize {
        match steps {
            [first, second, ..] => match first.command.spec.joined {
                Some(joined) if second.is_like(first) => {
                    first.run_with_others(joined, steps, call, txn)
                }
                _ => 0,
            },
            _ => 0,
        }
    }

    #[inline(never)]
    fn run_with_others(
        &self,
        joined: RunJoined,
        steps: &[Step<'a>],
        call: &mut Call<'a>,
        txn: &mut Txn<'_>,
    ) -> usize {
        if txn.counts_uses() {
            return 0;
        }
        let alike = steps.iter().take_while(|step| step.is_like(self));
        let requests: SmallVec<[Words<'a>; 16]> = alike.map(|step| step.args).collect();
        let before = self.begin(call, txn);
        match joined(call, txn, &requests) {
            Ok(executed @ 1..) if !call.out.is_over_limit() => {
                before.settle(call, txn);
                executed
            }
            _ => {
                before.undo(call, txn);
                0
            }
        }
    }

    /// Returns true if it is the same command on the same key.
    #[inline]
    fn is_like(&self, other: &Step<'_>) -> bool {
        self.command.id == other.command.id
            && self.keys.first().map(Key::bytes) == other.keys.first().map(Key::bytes)
    }

    /// Makes this the command that is executed, and returns the state before it.
    #[inline(always)]
    fn begin(&self, call: &mut Call<'a>, txn: &mut Txn<'_>) -> Before {
        self.enter(call);
        txn.set_touches(self.command.touches(&call.session.client));
        let spec = self.command.spec;
        if matches!(spec.run, Run::Script(..)) {
            // Clients in MONITOR mode see even a script that cannot be run.
            hooks::monitor_script(call);
        }
        let (effects, reply) = (call.effects.mark(), call.out.mark());
        let savepoint = match spec.run {
            // It stages nothing. (PFCOUNT is flagged as a read too, but not as fast, and stores its
            // count.)
            _ if spec.has(READONLY) && spec.has(FAST) => None,
            Run::Keys(_) => Some(txn.savepoint_of(self.keys)),
            _ => Some(txn.savepoint()),
        };
        Before { effects, reply, savepoint }
    }
}

/// The state before a step.
struct Before {
    effects: EffectsMark,
    reply: Mark,
    savepoint: Option<Savepoint>,
}

impl Before {
    /// Adds the events and the deletions of keys that the step found expired, in their place.
    #[inline(always)]
    fn settle(self, call: &mut Call<'_>, txn: &Txn<'_>) {
        if let Some(recorded) = call.effects.recorded()
            && txn.pending_changes() > recorded
        {
            let len = txn.pending_changes();
            call.effects.notify_at(self.effects, txn.changes_from(recorded), len);
        }
        if call.effects.enabled() {
            let (seen, len) = (call.effects.seen(), txn.pending_changes());
            if len != seen {
                call.effects.put_at(self.effects, txn.changes_from(seen), len);
            }
        }
    }

    /// Undoes the step.
    #[cold]
    fn undo(self, call: &mut Call<'_>, txn: &mut Txn<'_>) {
        if let Some(savepoint) = self.savepoint
            && FaultPoint::RollBackStep.is_enabled()
        {
            txn.rollback_to(savepoint);
        }
        call.effects.truncate(self.effects);
        call.out.truncate(self.reply);
    }
}
