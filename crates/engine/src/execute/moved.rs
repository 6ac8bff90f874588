//! A command that takes long, on another thread.
//!
//! The thread of a connection serves others, who must not wait for one command. A command whose
//! size shows, once its shards are locked, that it takes long ([`super::weight`]), and a script
//! that has taken long, gives its locks up, with nothing done, and is executed again elsewhere: a
//! script at the same time and with the same random numbers, on a thread of its own, since it may
//! never end; everything else by a few threads that take turns. The session goes along, since the
//! command may change it (SELECT in an EXEC); in its place is one that waits. The connection waits
//! as one that is blocked does.
//!
//! A thread that executes moved calls does not wait for shards either: where one is locked, the
//! session goes back to its connection, which waits, and whose command comes here again. It keeps
//! its place among those who wait all the time.
//!
//! A command that may wait for data is not moved: an element that it takes there could come after
//! its client has gone, its time is over or CLIENT UNBLOCK has ended its wait.

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

/// Executes an admitted command at a time.
pub(super) type Execute =
    fn(&Engine, &mut Session, &Command, Request<'_>, &mut Writer, u64) -> Outcome;

/// A call on its way to another thread.
struct Moving {
    words: KeptWords,
    command: usize,
    now_ns: u64,
    execute: Execute,
    session: Session,
    /// Of a script: since when it runs, and its text, since the cache may forget it meanwhile.
    script: Option<(LongSince, Option<Arc<[u8]>>)>,
    moved: Arc<MovedCall<Session>>,
}

impl Call<'_> {
    /// Executes the call again on another thread by `execute`, in its session; a script that runs
    /// since `since` on one of its own. Returns false, and leaves everything as it was, if there is
    /// no thread to be had.
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
                // Where that fails, the command says so.
                (script.keep)(self, &text);
            }
            let running = Arc::new(RunningScript::new(since));
            self.running_scripts().enter(&running);
            // Others may end it from here on: a simulation lets them.
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
            // A script is executed as of when it was tried first; what has waited in a queue, now.
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
        // What the connection has lent is its own when it is woken.
        drop(args);
        drop(words);
        if let Some(mut end) = moved.end(Box::new(End { session, reply, outcome })) {
            self.disconnect(&mut end.session);
        }
        client.wake();
    }

    /// Takes the end of the moved call that a session waits for, if it is there: the session is
    /// again what it was, and what the call has made of it.
    pub(crate) fn take_moved(&self, session: &mut Session, out: &mut Writer) -> Option<Outcome> {
        let End { session: taken, reply, outcome } = *session.moved.as_ref()?.take()?;
        session.give_back(taken);
        session.client.blocked.store(false, Relaxed);
        if outcome.next == Next::Locked {
            return Some(outcome);
        }
        // Its silence begins now.
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

/// Ends what lasts for one command of a session, unless that is to be executed again.
#[inline]
pub(super) fn end_command(session: &mut Session, command: &Command, next: Next) {
    if next != Next::Locked && !session.is_away() {
        session.end_command(command.parent.is_some_and(|parent| parent.is(KEEPS_CACHING)));
    }
}
