//! MIGRATE: keys to another server, which is sent what RESTORE takes, and deleted here when it has
//! them.
//!
//! In Redis everybody waits meanwhile. Here the command runs on a thread of its own, while its
//! client waits as a blocked one does, and no key is locked while the other server is waited for:
//! each is watched from when it is read. When the other server has taken it, it is deleted in one
//! transaction, unless it was changed since: then it is read and sent once more, in the place of
//! what was sent before, or, where it is gone, deleted there. So no write is lost that was
//! acknowledged here meanwhile.
//!
//! Memory is bounded by a batch of keys, or the largest value. There is no cache of connections.

mod target;
mod transfer;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use resp::Writer;

use crate::call::{Call, Next, Run};
use crate::client::Client;
use crate::engine::Engine;
use crate::failure::{Done, Failure, SYNTAX};
use crate::request::{Keys, Request};
use crate::running_scripts::LateReply;
use crate::session::Session;
use crate::spec::*;
use crate::table::Lookup;

const COMPLEXITY: &str = "This command actually executes a DUMP+DEL in the source instance, and a RESTORE in the target instance. See the pages of these commands for time complexity. Also an O(N) data transfer between the two instances is performed.";

pub(crate) const MIGRATE: CommandSpec = CommandSpec {
    name: "migrate",
    summary: "Atomically transfer a key from a Redis instance to another one.",
    complexity: COMPLEXITY,
    since: "2.6.0",
    group: Group::Generic,
    arity: -6,
    flags: WRITE,
    acl: ACL_KEYSPACE | ACL_DANGEROUS,
    tips: &["nondeterministic_output"],
    keys: &[
        KeySpec::one(3, KEY_RW | KEY_ACCESS | KEY_DELETE),
        KeySpec::new(
            Begin::Keyword("KEYS", -2),
            Find::Range { last: -1, step: 1, limit: 0 },
            KEY_RW | KEY_ACCESS | KEY_DELETE | KEY_INCOMPLETE,
        ),
    ],
    history: &[
        ("3.0.0", "Added the `COPY` and `REPLACE` options."),
        ("3.0.6", "Added the `KEYS` option."),
        ("4.0.7", "Added the `AUTH` option."),
        ("6.0.0", "Added the `AUTH2` option."),
    ],
    args: &[
        string("host"),
        integer("port"),
        oneof("key_or_empty_string", &[key("key", 0), token("empty_string", "")]),
        integer("destination-db"),
        integer("timeout"),
        token("copy", "COPY").since("3.0.0").optional(),
        token("replace", "REPLACE").since("3.0.0").optional(),
        oneof(
            "authentication",
            &[
                string("password").token("AUTH").since("4.0.7").optional(),
                block("username_password", &[string("username"), string("password")])
                    .token("AUTH2")
                    .since("6.0.0")
                    .optional(),
            ],
        )
        .optional(),
        key("key", 1).token("KEYS").since("3.0.6").optional().multiple(),
    ],
    run: Run::Session(migrate),
    ..CommandSpec::EMPTY
};

const NOT_WITHIN: &str =
    "ERR MIGRATE waits for another server, and is not allowed in a transaction or a script";
const KEY_AND_KEYS: &str =
    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string";
const PANICKED: &[u8] = b"-ERR MIGRATE was ended by a fault of the server: see its log\r\n";

/// Milliseconds, where no timeout is given.
const DEFAULT_TIMEOUT: i64 = 1000;

/// What is asked for.
struct Migration<'a> {
    host: &'a [u8],
    port: &'a [u8],
    db: i64,
    timeout: Duration,
    copy: bool,
    replace: bool,
    /// The words of AUTH.
    auth: Vec<&'a [u8]>,
    /// Each once.
    keys: Vec<&'a [u8]>,
}

fn parse<'a>(call: &Call<'a>) -> Result<Migration<'a>, Failure> {
    let args = call.args;
    let mut parsed = Migration {
        host: args[1],
        port: args[2],
        db: 0,
        timeout: Duration::ZERO,
        copy: false,
        replace: false,
        auth: Vec::new(),
        keys: vec![args[3]],
    };
    let mut at = 6;
    while at < args.len() {
        if call.is(at, "copy") {
            parsed.copy = true;
        } else if call.is(at, "replace") {
            parsed.replace = true;
        } else if call.is(at, "auth") || call.is(at, "auth2") {
            let words = if call.is(at, "auth") { 1 } else { 2 };
            let given = args.get(at + 1..at + 1 + words).ok_or(SYNTAX)?;
            parsed.auth = [&[&b"AUTH"[..]], given].concat();
            at += words;
        } else if call.is(at, "keys") {
            if !args[3].is_empty() {
                return Err(KEY_AND_KEYS.into());
            }
            parsed.keys = args[at + 1..].to_vec();
            break;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    let mut seen = HashSet::new();
    parsed.keys.retain(|key| seen.insert(*key));
    let timeout = call.int(5)?;
    parsed.db = call.int(4)?;
    let timeout = if timeout <= 0 { DEFAULT_TIMEOUT } else { timeout };
    parsed.timeout = Duration::from_millis(timeout.unsigned_abs());
    Ok(parsed)
}

fn migrate(call: &mut Call<'_>) -> Done {
    if call.is_inner() {
        return Err(NOT_WITHIN.into());
    }
    let migration = parse(call)?;
    if call.session.can_wait() && move_call(call) {
        return Ok(());
    }
    transfer::run(call, &migration)
}

/// What is owed at the end of a call on a thread of its own, also after a panic.
struct Ending {
    client: Arc<Client>,
    reply: Arc<LateReply>,
    result: Option<(Vec<u8>, u64)>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let (reply, durable_at) = self.result.take().unwrap_or_else(|| (PANICKED.to_vec(), 0));
        self.reply.put(reply, durable_at);
        self.client.wake();
    }
}

/// Makes the call again on a thread of its own, where its session cannot wait for another one.
/// Returns false if there is no thread to be had.
fn move_call(call: &mut Call<'_>) -> bool {
    let reply = Arc::new(LateReply::default());
    let args: Vec<Box<[u8]>> = call.args.iter().map(|arg| Box::from(*arg)).collect();
    let (command, now_ns) = (call.command.id, call.now_ns);
    let mut session = call.session.for_script();
    let client = Arc::clone(&call.session.client);
    let ending = Ending { client, reply: Arc::clone(&reply), result: None };
    call.session.late_reply = Some(reply);
    call.session.client.blocked.store(true, Relaxed);
    call.next = Next::Block;
    let is_moved = call.engine.spawn(Box::new(move |engine| {
        let mut ending = ending;
        let words: Vec<&[u8]> = args.iter().map(|arg| &**arg).collect();
        ending.result = Some(engine.call_moved(&mut session, command, &words, now_ns));
    }));
    if !is_moved {
        call.session.late_reply = None;
        call.session.client.blocked.store(false, Relaxed);
        call.next = Next::Reply;
    }
    is_moved
}

impl Engine {
    fn call_moved(
        &self,
        session: &mut Session,
        command: usize,
        args: &[&[u8]],
        now_ns: u64,
    ) -> (Vec<u8>, u64) {
        let mut out = Writer::new(session.protocol);
        let command = &self.table().all()[command];
        let request = Request { args, lookup: Lookup::Found(command), keys: &Keys::new() };
        let outcome = self.call(session, command, request, &mut out, now_ns);
        (out.take(), outcome.durable_at)
    }
}
