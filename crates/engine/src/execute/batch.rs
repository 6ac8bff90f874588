//! A batch: the requests of a connection that arrived together, executed in order up to a bound.
//!
//! Commands that may run together are executed as a run, one unit of work; all others one by one. A
//! batch ends if the connection has to do something else first (wait, close), or at a limit of time
//! or of bytes of replies, so that other connections get their turn.

use std::sync::atomic::Ordering::Relaxed;

use resp::Writer;

use crate::engine::Engine;
use crate::execute::outcome::{Executed, Next, OneByOne, Outcome};
use crate::execute::request::{Batch, Request};
use crate::session::{ReplyMode, Session};

/// Bytes of replies after which a batch ends.
const MAX_REPLY: usize = 256 * 1024;
/// Nanoseconds after which a batch ends.
const MAX_NS: u64 = 2_000_000;
/// Commands between two looks at the clock.
const LOOK_EVERY: usize = 16;
/// The number of requests from which on prefetching for the lookups of their keys pays.
const PREFETCH_FROM: usize = 2;

impl Engine {
    /// Executes the requests of a batch in order. Their replies go to `out`.
    pub fn execute_batch(
        &self,
        session: &mut Session,
        batch: &mut Batch<'_>,
        out: &mut Writer,
    ) -> Executed {
        if batch.len() >= PREFETCH_FROM {
            batch.prefetch(session);
        }
        session.begin_batch();
        let mut bound = Bound { reply_from: out.len(), since_ns: None };
        let mut done = Executed::default();
        // Requests to be executed one by one before a run is tried.
        let mut alone = 0;
        while done.requests < batch.len() {
            // A command before this one may have paused clients or begun MONITOR.
            let joins = alone == 0
                && batch.len() - done.requests > 1
                && self.joins_commands()
                && !self.durability().lacks_space_for_runs();
            if joins {
                match self.execute_run(session, batch, done.requests, out) {
                    Ok(run) => {
                        done.requests += run.requests;
                        done.reply_after = done.reply_after.max(run.reply_after);
                    }
                    Err(OneByOne(requests)) => alone = requests,
                }
            }
            if !joins || alone > 0 {
                let request = batch.get(done.requests);
                if self.must_wait(session, request.args()) {
                    session.end_wait();
                    return Executed { next: Next::Paused, ..done };
                }
                let outcome = self.execute_one(session, request, out);
                done.reply_after = done.reply_after.max(outcome.reply_after);
                done.next = outcome.next;
                if matches!(outcome.next, Next::Paused | Next::Locked) {
                    return done;
                }
                done.requests += 1;
                if !matches!(outcome.next, Next::Reply | Next::Monitor) {
                    return done;
                }
                alone = alone.saturating_sub(1);
            }
            if bound.is_reached(done.requests, out.len(), session) {
                break;
            }
        }
        done
    }

    /// Executes one request, and drops its reply if the client wants none.
    #[inline]
    fn execute_one(
        &self,
        session: &mut Session,
        request: Request<'_>,
        out: &mut Writer,
    ) -> Outcome {
        let before = session.reply;
        let mut reply_after = 0;
        // Whatever the command is, messages about evicted keys come before its reply.
        self.memory_limits().evict_excess(session);
        if session.client.has_pushes.load(Relaxed) {
            // Earlier pushes come before its reply.
            reply_after = session.client.take_pushes(out.buffer());
        }
        let mark = out.mark();
        let mut outcome = self.perform(session, request, out);
        outcome.reply_after = outcome.reply_after.max(reply_after);
        if matches!(outcome.next, Next::Block | Next::Walk | Next::Locked) {
            // The reply comes later.
            return outcome;
        }
        if before == ReplyMode::On && session.reply == ReplyMode::On {
            return outcome;
        }
        match (before, session.reply) {
            (_, ReplyMode::SkipNext) => session.reply = ReplyMode::Skip,
            (ReplyMode::Skip, ReplyMode::Skip) => {
                out.truncate(mark);
                session.reply = ReplyMode::On;
            }
            (_, ReplyMode::Off) => out.truncate(mark),
            _ => {}
        }
        // Pushes, such as confirmations of subscriptions, are sent all the same.
        let pushed = session.client.take_pushes(out.buffer());
        Outcome { reply_after: outcome.reply_after.max(pushed), ..outcome }
    }
}

/// The limits of a batch.
struct Bound {
    /// Where its replies begin.
    reply_from: usize,
    /// The time of the first check.
    since_ns: Option<u64>,
}

impl Bound {
    #[inline]
    fn is_reached(&mut self, executed: usize, reply: usize, session: &Session) -> bool {
        if reply - self.reply_from > MAX_REPLY {
            return true;
        }
        if !executed.is_multiple_of(LOOK_EVERY) {
            return false;
        }
        // The time at which the last command ended serves as the present.
        let Some(now) = session.ended_ns else { return false };
        now.saturating_sub(*self.since_ns.get_or_insert(now)) > MAX_NS
    }
}
