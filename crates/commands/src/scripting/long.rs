//! A script that takes long, on a thread of its own.
//!
//! Scripts run on the thread of their connection, which meanwhile serves nobody else. One that
//! takes longer than [`MOVED_AFTER`] is rolled back there and run again on a thread of its own, at
//! the same time and with the same random numbers: nothing of its first run has been seen. Its
//! client waits as one that is blocked does, and the connection's thread serves the others. An EXEC
//! with such a script is moved as a whole.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use resp::Writer;

use super::interpreter;
use crate::call::{Call, Next, Outcome};
use crate::client::Client;
use crate::engine::Engine;
use crate::request::{Keys, Request};
use crate::running_scripts::{LateReply, LongSince, RunningScript};
use crate::session::{ReplyMode, Session};
use crate::table::Lookup;

/// Nanoseconds that a script may take on its connection's thread.
const MOVED_AFTER: u64 = 100_000_000;

/// Between listing a long script and locking its shards: whoever found the list empty has locked
/// what it needs by then, and waits for no script without knowing it.
const GRACE: Duration = Duration::from_millis(2);

const PANICKED: &[u8] = b"-ERR the script was ended by a fault of the server: see its log\r\n";

/// What is owed at the end of a script on a thread of its own, also after a panic: others are no
/// longer refused, and the client gets a reply.
struct Ending<'e> {
    engine: &'e Engine,
    client: Arc<Client>,
    running: Arc<RunningScript>,
    reply: Arc<LateReply>,
    /// The reply, and up to where the log must be durable before it may leave.
    result: Option<(Vec<u8>, u64)>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.engine.running_scripts().leave(&self.running);
        let (reply, durable_at) = self.result.take().unwrap_or_else(|| (PANICKED.to_vec(), 0));
        self.reply.put(reply, durable_at);
        self.client.wake();
    }
}

/// A call on its way to a thread of its own.
struct LongScript {
    args: Vec<Box<[u8]>>,
    /// The text, since the cache may forget it meanwhile.
    text: Option<Arc<[u8]>>,
    command: usize,
    now_ns: u64,
    since: LongSince,
    session: Session,
    reply: Arc<LateReply>,
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
        let reply = Arc::new(LateReply::default());
        let script = LongScript {
            args: call.args.iter().map(|arg| Box::from(*arg)).collect(),
            text: self.text_of(call),
            command: call.command.id,
            now_ns: call.now_ns,
            since,
            session,
            reply: Arc::clone(&reply),
        };
        call.session.late_reply = Some(reply);
        call.next = Next::Block;
        call.session.client.blocked.store(true, Relaxed);
        let is_moved = self.spawn(Box::new(move |engine| engine.run_long_script(script)));
        if !is_moved {
            call.session.late_reply = None;
            call.next = Next::Reply;
            call.session.client.blocked.store(false, Relaxed);
        }
        is_moved
    }

    /// Returns the text of the script that a call names by its SHA-1.
    fn text_of(&self, call: &Call<'_>) -> Option<Arc<[u8]>> {
        let sha = str::from_utf8(call.args.get(1)?).ok()?;
        self.scripts().text(&sha.to_ascii_lowercase())
    }

    fn run_long_script(&self, script: LongScript) {
        let LongScript { mut session, reply, .. } = script;
        let running = Arc::new(RunningScript::new(script.since));
        self.running_scripts().enter(&running);
        let mut ending = Ending {
            engine: self,
            client: Arc::clone(&session.client),
            running: Arc::clone(&running),
            reply,
            result: None,
        };
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
        let lookup = Lookup::Found(command);
        let mut keys = Keys::new();
        self.keys_of(lookup, &args, |key| keys.push(key));
        let request = Request { args: &args, lookup, keys: &keys };
        let outcome = self.call(&mut session, command, request, &mut out, script.now_ns);
        ending.result = Some((out.take(), outcome.durable_at));
    }

    /// Takes the reply of the script that a session waits for, if it is there.
    pub(crate) fn take_late_reply(
        &self,
        session: &mut Session,
        out: &mut Writer,
    ) -> Option<Outcome> {
        let (reply, durable_at) = session.late_reply.as_ref()?.take()?;
        session.late_reply = None;
        // Its silence begins now.
        session.client.seen_ms.store(self.clock().unix_ms(), Relaxed);
        session.client.blocked.store(false, Relaxed);
        session.written_to = session.written_to.max(durable_at);
        if session.reply == ReplyMode::On {
            out.raw(&reply);
        }
        // As after a failure on the connection's own thread.
        let is_ending = self.running_scripts().is_ending();
        let next = if is_ending { Next::Close } else { Next::Reply };
        Some(Outcome { next, durable_at })
    }
}
