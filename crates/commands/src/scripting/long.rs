//! A script that takes long, on a thread of its own.
//!
//! Scripts run on the thread of their connection, which meanwhile serves nobody else. One that takes
//! longer than [`MOVED_AFTER`] is rolled back there and run again on a thread of its own, at the
//! same time and with the same random numbers: nothing of its first run has been seen. Its client
//! waits as one that is blocked does, and the connection's thread serves the others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use resp::Writer;

use super::interpreter;
use crate::call::{Call, Next, Outcome};
use crate::engine::Engine;
use crate::request::Keys;
use crate::request::Request;
use crate::running_scripts::{LongSince, RunningScript};
use crate::session::{ReplyMode, Session};

/// Nanoseconds that a script may take on its connection's thread.
const MOVED_AFTER: u64 = 100_000_000;

/// Between listing a long script and locking its shards: whoever found the list empty has locked
/// what it needs by then, and waits for no script without knowing it.
const GRACE: Duration = Duration::from_millis(2);

/// A script on its way to a thread of its own, and its result on the way back.
pub(crate) struct LongScript {
    args: Vec<Box<[u8]>>,
    /// The text, since the cache may forget it meanwhile.
    text: Option<Arc<[u8]>>,
    command: usize,
    now_ns: u64,
    since: LongSince,
    session: Mutex<Option<Session>>,
    result: Mutex<Option<Finished>>,
}

struct Finished {
    outcome: Outcome,
    reply: Vec<u8>,
}

impl Engine {
    /// Returns after how many nanoseconds a script is moved to a thread of its own.
    pub(super) fn script_moved_after(&self) -> u64 {
        MOVED_AFTER.min(self.config().busy_reply_threshold_ns())
    }

    /// Runs a call again on a thread of its own, in this session. Returns false if there is no
    /// thread to be had.
    pub(crate) fn move_script(
        &self,
        call: &mut Call<'_>,
        since: LongSince,
        session: Session,
    ) -> bool {
        let Some(host) = self.host() else { return false };
        let script = Arc::new(LongScript {
            args: call.args.iter().map(|arg| Box::from(*arg)).collect(),
            text: self.text_of(call),
            command: call.command.id,
            now_ns: call.now_ns,
            since,
            session: Mutex::new(Some(session)),
            result: Mutex::default(),
        });
        call.session.long_script = Some(Arc::clone(&script));
        call.next = Next::Block;
        let moved = Arc::clone(&script);
        let is_moved = host.spawn(Box::new(move |engine| engine.run_long_script(&moved)));
        if !is_moved {
            take(&script.session).iter_mut().for_each(|session| self.unwatch(session));
            call.session.long_script = None;
            call.next = Next::Reply;
        }
        is_moved
    }

    /// The text of the script that a call names by its SHA-1.
    fn text_of(&self, call: &Call<'_>) -> Option<Arc<[u8]>> {
        let sha = str::from_utf8(call.args.get(1)?).ok()?;
        self.scripts().text(&sha.to_ascii_lowercase())
    }

    fn run_long_script(&self, script: &LongScript) {
        let Some(mut session) = take(&script.session) else { return };
        let running = Arc::new(RunningScript::new(script.since));
        self.running_scripts().enter(&running);
        if let Some(host) = self.host() {
            host.sleep(GRACE);
        }
        session.running_script = Some(Arc::clone(&running));
        let mut out = Writer::new(session.protocol);
        if let Some(text) = &script.text {
            // Where that fails, the command says so.
            let _ = interpreter::with(self, |interpreter| interpreter.keep(text));
        }
        let args: Vec<&[u8]> = script.args.iter().map(|arg| &**arg).collect();
        let command = &self.table().all()[script.command];
        let lookup = crate::table::Lookup::Found(command);
        let mut keys = Keys::new();
        self.keys_of(lookup, &args, |key| keys.push(key));
        let request = Request { args: &args, lookup, keys: &keys };
        let outcome = self.call(&mut session, command, request, &mut out, script.now_ns);
        self.running_scripts().leave(&running);
        let client = Arc::clone(&session.client);
        put(&script.result, Finished { outcome, reply: out.take() });
        client.wake();
    }

    /// Takes the reply of the script that a session waits for, if it is there.
    pub(crate) fn finish_long_script(
        &self,
        session: &mut Session,
        out: &mut Writer,
    ) -> Option<Outcome> {
        let Finished { outcome, reply } = take(&session.long_script.as_ref()?.result)?;
        session.long_script = None;
        session.written_to = session.written_to.max(outcome.durable_at);
        if session.reply == ReplyMode::On {
            out.raw(&reply);
        }
        Some(outcome)
    }
}

fn take<T>(place: &Mutex<Option<T>>) -> Option<T> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn put<T>(place: &Mutex<Option<T>>, value: T) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
}
