//! Commands that take long, on another thread.
//!
//! The thread of a connection serves other clients too, who must not wait for one command. Some
//! commands are known to take long once their shards are locked ([`super::weight`]), and a script
//! may have taken long already: such a command gives its locks up, with nothing done, and is
//! executed again elsewhere. A script runs as of the same time, with the same random numbers, on a
//! thread of its own, since it may never end; all others are executed by a few threads that take
//! turns. The session goes along, since the command may change it (SELECT in an EXEC), and leaves
//! one that waits in its place. The connection waits like one that is blocked.
//!
//! A thread that executes moved calls does not wait for shards either: if one is locked, the
//! session goes back to its connection, which waits, and whose command then comes here again. It
//! keeps its place in the queue for the shard all the time.
//!
//! A command that may wait for data is not moved: it could take an element there after its client
//! has gone, its timeout has passed, or CLIENT UNBLOCK has ended its wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use resp::Writer;

use crate::engine::{Engine, Job, Thread};
use crate::execute::call::{Call, Next, Outcome, Run};
use crate::execute::request::{Keys, Request};
use crate::scripts::running::{LongSince, RunningScript};
use crate::session::kept_words::KeptWords;
use crate::session::moved_call::{End, MovedCall};
use crate::session::{ReplyMode, Session};
use crate::table::spec::{KEEPS_CACHING, OWN_THREAD};
use crate::table::{Command, Lookup};

const PANICKED: &[u8] = b"-ERR the command was ended by a fault of the server: see its log\r\n";

/// Executes an admitted command as of a given time.
pub(super) type Execute =
    fn(&Engine, &mut Session, &Command, Request<'_>, &mut Writer, u64) -> Outcome;

/// A call on its way to another thread.
struct Moving {
    words: KeptWords,
    command: usize,
    now_ns: u64,
    execute: Execute,
    session: Session,
    /// For a script: since when it runs, and its text, since the cache may forget it meanwhile.
    script: Option<(LongSince, Option<Arc<[u8]>>)>,
    moved: Arc<MovedCall<Session>>,
}

impl Call<'_> {
    /// Executes the call again on another thread by `execute`, in its session; a script, which has
    /// run since `since`, on one of its own. Returns false, and leaves everything as it was, if no
    /// thread is available.
    pub(crate) fn move_away(&mut self, since: Option<LongSince>, execute: Execute) -> bool {
        let engine = self.engine;
        let moved = Arc::new(MovedCall::default());
        let has_own = self.command.spec.is(OWN_THREAD);
        let client = Arc::clone(&self.session.client);
        let lent = self.session.lent.take();
        let in_place = lent.and_then(|lent| KeptWords::in_place(self.args, &lent));
        let words = in_place.unwrap_or_else(|| KeptWords::copied(self.args));
        let mut session = self.session.take_for(&moved);
        if has_own {
            session.gives_way = false;
            session.end_wait();
        }
        let moving = Arc::new(Mutex::new(Some(Moving {
            words,
            command: self.command.id,
            now_ns: self.now_ns,
            execute,
            script: since.map(|since| (since, script_text(self))),
            session,
            moved,
        })));
        client.blocked.store(true, Relaxed);
        let job: Job = {
            let moving = Arc::clone(&moving);
            Box::new(move |engine| {
                let taken = moving.lock().unwrap_or_else(PoisonError::into_inner).take();
                taken.into_iter().for_each(|moving| engine.run_moved(moving));
            })
        };
        let thread = if since.is_some() || has_own { Thread::Own } else { Thread::Shared };
        if engine.spawn(thread, job) {
            self.next = Next::Block;
            return true;
        }
        client.blocked.store(false, Relaxed);
        let taken = moving.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(moving) = taken {
            self.session.give_back(moving.session);
        }
        false
    }
}

/// Returns the text of the script that a call names, if it calls one by its name.
fn script_text(call: &Call<'_>) -> Option<Arc<[u8]>> {
    match call.command.spec.run {
        Run::Script(script) => (script.text)(call.engine, call.args),
        _ => None,
    }
}

impl Engine {
    fn run_moved(&self, moving: Moving) {
        let Moving { words, command, now_ns, execute, mut session, script, moved } = moving;
        let client = Arc::clone(&session.client);
        let mut out = Writer::new(session.protocol);
        let args: Vec<&[u8]> = words.slices().collect();
        let running = script.map(|(since, text)| {
            if let (Run::Script(script), Some(text)) = (self.table().all()[command].spec.run, text)
            {
                // If that fails, the command reports it.
                (script.keep)(self, &text);
            }
            let running = Arc::new(RunningScript::new(since));
            self.running_scripts().enter(&running);
            // From here on other threads may end it: a simulation lets them.
            self.host().into_iter().for_each(|host| host.sleep(Duration::ZERO));
            running
        });
        session.running_script.clone_from(&running);
        let done = catch_unwind(AssertUnwindSafe(|| {
            let command = &self.table().all()[command];
            let lookup = Lookup::Found(command);
            let mut keys = Keys::new();
            self.keys_of(lookup, &args, |key| keys.push(key));
            let request = Request { args: &args, lookup, keys: &keys };
            // A script runs as of the time of its first try; a command that waited in a queue, as
            // of now.
            let now_ns = if running.is_some() { now_ns } else { self.clock.unix_ns() };
            let outcome = execute(self, &mut session, command, request, &mut out, now_ns);
            end_command(&mut session, command, outcome.next);
            outcome
        }));
        session.running_script = None;
        if let Some(running) = &running {
            self.running_scripts().leave(running);
        }
        if matches!(done, Ok(Outcome { next: Next::Locked, .. })) {
            session.moves_again = Some(running.as_ref().map(|running| running.since()));
        }
        let (outcome, reply) = match done {
            Ok(outcome) => (outcome, out.take()),
            Err(_) => {
                session.end_wait();
                (Outcome::default(), PANICKED.to_vec())
            }
        };
        // The words that the connection has lent must be its own again before it is woken.
        drop(args);
        drop(words);
        if let Some(mut end) = moved.end(Box::new(End { session, reply, outcome })) {
            self.disconnect(&mut end.session);
        }
        client.wake();
    }

    /// Takes the result of the moved call that a session waits for, if it is there. The session is
    /// then again what it was, with the changes that the call made.
    pub(crate) fn take_moved(&self, session: &mut Session, out: &mut Writer) -> Option<Outcome> {
        let End { session: taken, reply, outcome } = *session.moved.as_ref()?.take()?;
        session.give_back(taken);
        session.client.blocked.store(false, Relaxed);
        if outcome.next == Next::Locked {
            return Some(outcome);
        }
        // Its idle time begins now.
        session.client.seen_ms.store(self.clock().unix_ms(), Relaxed);
        match session.reply {
            ReplyMode::On => out.append(reply),
            ReplyMode::Off => {}
            ReplyMode::Skip => session.reply = ReplyMode::On,
            ReplyMode::SkipNext => {
                out.append(reply);
                session.reply = ReplyMode::Skip;
            }
        }
        out.set_protocol(session.protocol);
        // As after a failure on the connection's own thread.
        let is_ending = self.running_scripts().is_ending();
        let next = if is_ending { Next::Close } else { outcome.next };
        Some(Outcome { next, ..outcome })
    }
}

/// Ends the state that a session has for one command only, unless that command is to be executed
/// again.
#[inline]
pub(super) fn end_command(session: &mut Session, command: &Command, next: Next) {
    if next != Next::Locked && !session.is_away() {
        session.end_command(command.parent.is_some_and(|parent| parent.is(KEEPS_CACHING)));
    }
}
