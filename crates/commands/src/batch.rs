//! A run of pipelined commands as one transaction: one fence for all of them.
//!
//! A client that sends commands without waiting for their replies learns of none before it learns of all, so they may
//! become durable together. They keep their order, each fails for itself, and a crash leaves all or none: a prefix
//! of what the client sent either way. The shards of the run are locked at once; where another thread has one of
//! them, the commands are executed one by one instead, so that a run never makes anybody wait for long.
//!
//! It pays only where a commit has a price: not in a volatile heap, and not for commands that read.

use keyspace::Key;
use resp::Writer;
use smallvec::SmallVec;
use std::sync::atomic::Ordering::Relaxed;

use crate::call::{Call, Next, Run};
use crate::engine::Engine;
use crate::failure::{Done, Failure};
use crate::log::Effects;
use crate::request::Request;
use crate::session::{ReplyMode, Session};
use crate::spec::{READONLY, WRITE};
use crate::step::Step;

/// Commands of a run: its locks are held while they are executed.
const LONGEST: usize = 16;
/// Keys of one command, and bytes of its words: longer ones have a transaction of their own.
const MOST_KEYS: usize = 8;
const MOST_BYTES: usize = 8 * 1024;
/// Commands that are executed one by one when the first of them only reads.
const ALONE: usize = 4;

impl Engine {
    /// Whether runs may be worth it: asked once for a batch.
    pub fn joins_commands(&self) -> bool {
        self.keyspace().heap().is_durable()
            && self.log().is_none()
            && self.monitors() == 0
            && self.admin().paused_until_ms() == 0
    }

    /// Executes commands from the front of `batch` as one transaction: how many were. Where that does not pay or cannot
    /// be: how many are to be executed one by one before another run is tried.
    pub fn execute_run(
        &self,
        session: &mut Session,
        batch: &[Request<'_>],
        out: &mut Writer,
    ) -> Result<usize, usize> {
        let harmed = self.keyspace().has_alert();
        if session.in_multi() || session.replay || session.reply != ReplyMode::On || harmed {
            return Err(1);
        }
        if !begins_run(&batch[0]) {
            return Err(ALONE);
        }
        let steps = self.run_of(session, batch);
        let writes = steps.iter().filter(|step| step.command.spec.has(WRITE)).count();
        if writes < 2 {
            return Err(steps.len().max(1));
        }
        let now_ns = self.begin_ns(session);
        let shards: SmallVec<[usize; LONGEST]> =
            steps.iter().flat_map(|step| step.keys).map(Key::shard).collect();
        let mut txn = self.keyspace().try_begin(&shards, now_ns / 1_000_000).ok_or(steps.len())?;
        session.client.seen_ms.store(now_ns / 1_000_000, Relaxed);
        session.client.last_command.store(steps[steps.len() - 1].command.id, Relaxed);
        let mark = out.mark();
        let mut effects = Effects::new(std::mem::take(&mut session.effects), false);
        let mut call = Call {
            engine: self,
            session,
            command: steps[0].command,
            args: steps[0].args,
            keys: &[],
            out,
            now_ns,
            effects: &mut effects,
            next: Next::Reply,
            durable_at: 0,
            may_pin: false,
            pinned: None,
        };
        for step in &steps {
            let savepoint = txn.savepoint_of(step.keys);
            let no_room = step.run(&mut call, &mut txn, savepoint).no_room;
            if no_room || self.keyspace().is_unsettled() {
                drop(txn);
                out.truncate(mark);
                session.effects = effects.into_room();
                return Err(steps.len());
            }
        }
        let done: Done = txn.commit().map_err(Failure::from);
        drop(txn);
        if let Err(failure) = done {
            out.truncate(mark);
            steps.iter().for_each(|_| out.error(failure.as_bytes()));
        }
        session.effects = effects.into_room();
        Ok(steps.len())
    }

    /// The longest run of plain commands at the front.
    fn run_of<'a>(
        &self,
        session: &Session,
        batch: &'a [Request<'_>],
    ) -> SmallVec<[Step<'a>; LONGEST]> {
        let plain = |request| Step::of(request).filter(|step| self.is_plain(session, step));
        batch.iter().take(LONGEST).map_while(plain).collect()
    }

    /// Whether a command may be one of a run.
    fn is_plain(&self, session: &Session, step: &Step<'_>) -> bool {
        let spec = step.command.spec;
        matches!(spec.run, Run::Keys(_))
            && (spec.has(WRITE) || spec.has(READONLY))
            && (1..=MOST_KEYS).contains(&step.keys.len())
            && step.args.iter().map(|arg| arg.len()).sum::<usize>() <= MOST_BYTES
            && self.admit(session, step.command, step.args.len()).is_ok()
    }
}

/// Whether a run may begin with this command: one that writes.
fn begins_run(request: &Request<'_>) -> bool {
    Step::of(request).is_some_and(|step| step.command.spec.has(WRITE))
}
