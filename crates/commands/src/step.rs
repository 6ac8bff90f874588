//! One of several commands that share a transaction of the keyspace: in EXEC, or in a pipelined run.

use keyspace::{Key, Savepoint, Txn};

use crate::call::{Call, Next, Run};
use crate::failure::{Failure, SYNTAX};
use crate::request::Request;
use crate::table::{Command, Lookup};

/// A command with its words and keys.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) command: &'a Command,
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) keys: &'a [Key<'a>],
}

impl<'a> Step<'a> {
    /// The step of a request, if that names a command.
    pub(crate) fn of(request: &'a Request<'_>) -> Option<Step<'a>> {
        let Lookup::Found(command) = request.lookup else { return None };
        Some(Step { command, args: request.args, keys: &request.keys })
    }
}

/// How a step ended.
pub(crate) struct Ended {
    pub(crate) next: Next,
    /// It failed since the heap was full.
    pub(crate) no_room: bool,
}

impl Step<'_> {
    /// Runs the command in the transaction of `around`. Where it fails, its own changes are taken back, and its error
    /// stands in its place.
    pub(crate) fn run(
        &self,
        around: &mut Call<'_>,
        txn: &mut Txn<'_>,
        savepoint: Savepoint,
    ) -> Ended {
        let effects = around.effects.mark();
        let mark = around.out.mark();
        let started_ns = around.engine.begin_ns(around.session);
        let mut call = Call {
            engine: around.engine,
            session: around.session,
            command: self.command,
            args: self.args,
            keys: self.keys,
            out: around.out,
            now_ns: around.now_ns,
            effects: around.effects,
            next: Next::Reply,
            durable_at: 0,
            may_pin: false,
            pinned: None,
        };
        let done = match self.command.spec.run {
            Run::Session(run) => run(&mut call),
            Run::Keys(run) | Run::All(run) | Run::Scan(run) => run(&mut call, txn),
            Run::Container => Err(Failure::from(SYNTAX)),
        };
        if let Err(failure) = &done {
            txn.rollback_to(savepoint);
            call.effects.truncate(effects);
            call.out.truncate(mark);
            call.out.error(failure.as_bytes());
            call.engine.stats().error(failure.code());
        }
        call.engine.finish(&mut call, started_ns, done.is_err());
        Ended { next: call.next, no_room: done.is_err_and(|failure| failure.is_no_room()) }
    }
}
