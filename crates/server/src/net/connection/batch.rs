//! One batch: the complete commands of a connection's input, up to a bound, parsed and passed to
//! the engine.
//!
//! The whole batch is parsed before its first command is executed, so that the engine can prefetch
//! for the lookups of its keys. The space of parsed input is given back after each batch, whether
//! or not it contained a command: empty requests take no space, and each ends a batch, so that
//! others are served in between. Before a client has authenticated each command is executed before
//! the next is parsed, since the limits of the parser depend on it.

use std::sync::atomic::Ordering::Relaxed;

use commands::Next;
use resp::{Limits, ProtocolError};
use smallvec::SmallVec;

use super::Connection;
use crate::net::meter::appended_since;
use crate::process::shutdown::Request;

/// Maximum of commands in a batch.
const MAX_COMMANDS: usize = 64;

/// Bytes that a client may send ahead before it has authenticated, whatever
/// `client-query-buffer-limit` is: more than its ten arguments take.
const UNAUTHENTICATED_INPUT: u64 = 1 << 20;

/// The arguments of a batch; up to this many need no allocation.
type Words<'a> = SmallVec<[&'a [u8]; 256]>;

/// What the connection does after a batch.
pub(super) enum Step {
    /// All input was used: wait for more.
    Done,
    /// There is more to do.
    More,
    /// Clients are paused, or the journal has no space for a write: go on later.
    Paused,
    /// Others have locked a shard that the next command needs: execute it when they have unlocked
    /// it.
    Locked,
    /// The last command blocks: go on when it has its reply.
    Blocked,
    /// The last command takes more steps: go on when it has its reply.
    Walking,
    /// Send a dump after the replies, and close.
    SendDump,
    /// The client is a replica from now on.
    Replicate,
    /// Send the replies and close.
    Close,
    /// End the server.
    Shutdown(Request),
}

/// Parses and executes the next batch of the connection.
pub(super) fn run(connection: &mut Connection) -> Step {
    let mut wrong = None;
    if connection.next.is_none() {
        match parse(connection) {
            Ok(0) => return wait_for_more(connection),
            Ok(_) => {}
            Err((error, 0)) => return refuse(connection, &error),
            Err((error, _)) => wrong = Some(error),
        }
    }
    let step = execute(connection);
    if connection.next.is_some() {
        return step;
    }
    give_back(connection);
    let client = &connection.session.client;
    if client.argv_mem.load(Relaxed) > 0 {
        client.argv_mem.store(0, Relaxed);
    }
    match (step, wrong) {
        (Step::Done, Some(error)) => refuse(connection, &error),
        (Step::Done, None) if connection.input.len() > 0 && connection.missing == 0 => Step::More,
        (step, _) => step,
    }
}

/// Gives back the space of what was parsed.
fn give_back(connection: &mut Connection) {
    let used = connection.parser.release();
    let input = &mut connection.input;
    input.give_back(used);
    let client = &connection.session.client;
    client.query_buffer.store(input.len(), Relaxed);
    client.query_buffer_free.store(input.free(), Relaxed);
}

/// Parses up to a batch of commands. Returns how many are complete, also with an error.
fn parse(connection: &mut Connection) -> Result<usize, (ProtocolError, usize)> {
    let Connection { parser, input, session, worker, missing, .. } = connection;
    let authenticated = !worker.shared.engine.permissions().must_authenticate(session);
    let max_bulk = worker.shared.limits.max_bulk.load(Relaxed);
    let max_bulk = usize::try_from(max_bulk).unwrap_or(usize::MAX);
    let limits = Limits { max_bulk, authenticated, ..Limits::default() };
    let most = if authenticated { MAX_COMMANDS } else { 1 };
    let input = input.arrived();
    let client = &session.client;
    client.query_buffer.store(input.len(), Relaxed);
    // 0 means that the parser was stopped, and may find more commands in the same input.
    *missing = 0;
    while parser.complete() < most {
        match parser.next(input, &limits) {
            Ok(resp::Next::Command) => {}
            Ok(resp::Next::Empty) => break,
            Ok(resp::Next::Partial { missing: more }) => {
                *missing = more;
                break;
            }
            Err(error) => return Err((error, parser.complete())),
        }
    }
    Ok(parser.complete())
}

/// Decides, while no command is complete, whether there is more to parse, and whether the input may
/// still become one.
fn wait_for_more(connection: &mut Connection) -> Step {
    give_back(connection);
    if connection.input.len() > 0 && connection.missing == 0 {
        return Step::More;
    }
    let client = &connection.session.client;
    let arguments = if connection.input.len() > 0 { connection.parser.memory() } else { 0 };
    client.argv_mem.store(arguments, Relaxed);
    connection.count_memory();
    if is_within_limit(connection) {
        return Step::Done;
    }
    connection.output.clear();
    Step::Close
}

/// Returns true if the client has not sent more ahead than it may.
pub(super) fn is_within_limit(connection: &Connection) -> bool {
    let engine = &connection.worker.shared.engine;
    let mut limit = connection.worker.shared.limits.query_buffer.load(Relaxed);
    if connection.input.len() as u64 > UNAUTHENTICATED_INPUT
        && engine.permissions().must_authenticate(&connection.session)
    {
        limit = limit.min(UNAUTHENTICATED_INPUT);
    }
    if connection.input.len() as u64 <= limit {
        return true;
    }
    let line =
        commands::admin::describe(engine, &connection.session.client, engine.clock().unix_ms());
    tracing::warn!("Closing client that reached max query buffer length: {line}");
    false
}

/// Answers bytes that are not a request.
fn refuse(connection: &mut Connection, error: &ProtocolError) -> Step {
    connection.output.writer.protocol_error(error);
    connection.worker.shared.engine.stats().error(b"ERR");
    Step::Close
}

/// Executes the parsed commands from `next` on, and leaves there the next one if not all were
/// executed.
fn execute(connection: &mut Connection) -> Step {
    let Connection { parser, input, session, worker, output, next, log_end, turn, charged, .. } =
        connection;
    let engine = &*worker.shared.engine;
    let first = next.take().unwrap_or(0);
    session.lend(input.lend());
    let words: Words<'_> = parser.words(first, input.arrived()).collect();
    let mut requests = engine.batch();
    let mut rest = &words[..];
    for number in first..parser.complete() {
        let (args, following) = rest.split_at(parser.word_count(number));
        requests.push(args);
        rest = following;
    }
    let before = pmem::counters();
    let done = engine.execute_batch(session, &mut requests, &mut output.writer);
    if let Some(journal) = &worker.shared.journal {
        let appended = appended_since(&before);
        if appended > 0 {
            *turn = journal.charge(appended, charged);
        }
    }
    session.lend(None);
    *log_end = done.reply_after.max(*log_end);
    let (step, goes_on) = match done.next {
        Next::Reply | Next::Monitor if done.requests == requests.len() => (Step::Done, false),
        Next::Reply | Next::Monitor => (Step::More, true),
        Next::Block => (Step::Blocked, true),
        Next::Walk => (Step::Walking, true),
        Next::Paused => (Step::Paused, true),
        Next::Locked => (Step::Locked, true),
        Next::SendDump => (Step::SendDump, false),
        Next::Replicate => (Step::Replicate, false),
        Next::Close => (Step::Close, false),
        Next::Shutdown { nosave, now, force, save } => {
            (Step::Shutdown(Request { save, nosave, now, force }), false)
        }
    };
    if goes_on {
        *next = Some(first + done.requests);
    }
    step
}
