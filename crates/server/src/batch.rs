//! One batch: the complete commands of a connection's input, up to a bound, executed in order.
//!
//! The whole batch is parsed before its first command is executed, so that the places of its keys can
//! be asked for from memory ahead of time. Before a client has authenticated each command is executed
//! before the next is parsed, since the limits of the parser depend on it.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use commands::{Engine, Next, ReplyMode, Session};
use resp::{Limits, ProtocolError, Writer};
use smallvec::SmallVec;

use crate::connection::Connection;
use crate::shutdown::Request;

/// Commands of a batch.
const MAX_COMMANDS: usize = 64;
/// Bytes of replies after which a batch ends.
const MAX_REPLY: usize = 256 * 1024;
/// Time after which a batch ends.
const MAX_TIME: Duration = Duration::from_millis(2);
/// Commands between two looks at the clock.
const CLOCK_EVERY: usize = 16;
/// From so many commands on it pays to ask for their keys ahead of time.
const PREFETCH_FROM: usize = 2;

/// The words of a batch; so many without the heap.
type Words<'a> = SmallVec<[&'a [u8]; 256]>;

/// What follows a batch.
pub(crate) enum Step {
    /// All input was used: wait for more.
    Done,
    /// There is more to do.
    More,
    /// Clients are paused: go on later.
    Paused,
    /// The last command blocks: go on when it has its reply.
    Blocked,
    /// The last command takes more steps: go on when it has its reply.
    Walking,
    /// Send the replies and close.
    Close,
    /// End the server.
    Shutdown(Request),
}

/// Parses and executes the next batch of the connection.
pub(crate) fn run(connection: &mut Connection) -> Step {
    let mut wrong = None;
    if connection.next.is_none() {
        match parse(connection) {
            Ok(0) => return too_long(connection),
            Ok(_) => {}
            Err((error, 0)) => return refuse(connection, &error),
            Err((error, _)) => wrong = Some(error),
        }
    }
    let step = execute(connection);
    if connection.next.is_some() {
        return step;
    }
    let used = connection.parser.release();
    connection.input.copy_within(used..connection.filled, 0);
    connection.filled -= used;
    let client = &connection.session.as_ref().expect("a session").client;
    client.query_buffer.store(connection.filled, Relaxed);
    client.query_buffer_free.store(connection.input.len() - connection.filled, Relaxed);
    match (step, wrong) {
        (Step::Done, Some(error)) => refuse(connection, &error),
        (Step::Done, None) if connection.filled > 0 && connection.missing == 0 => Step::More,
        (step, _) => step,
    }
}

/// Parses up to a batch of commands. Says how many are complete, also beside an error.
fn parse(connection: &mut Connection) -> Result<usize, (ProtocolError, usize)> {
    let Connection { parser, input, filled, session, worker, missing, .. } = connection;
    let authenticated = session.as_ref().expect("a session").authenticated;
    let max_bulk = worker.shared.limits.max_bulk.load(Relaxed);
    let max_bulk = usize::try_from(max_bulk).unwrap_or(usize::MAX);
    let limits = Limits { max_bulk, authenticated, ..Limits::default() };
    let most = if authenticated { MAX_COMMANDS } else { 1 };
    let input = &input[..*filled];
    let client = &session.as_ref().expect("a session").client;
    client.query_buffer.store(input.len(), Relaxed);
    // 0 says that the parser was stopped, and may find more commands in the same input.
    *missing = 0;
    while parser.complete() < most {
        match parser.next(input, &limits) {
            Ok(resp::Next::Command) => {}
            Ok(resp::Next::Partial { missing: more }) => {
                *missing = more;
                break;
            }
            Err(error) => return Err((error, parser.complete())),
        }
    }
    Ok(parser.complete())
}

/// No command is complete: whether it may still become one.
fn too_long(connection: &mut Connection) -> Step {
    if is_within_limit(connection) {
        return Step::Done;
    }
    connection.output.clear();
    Step::Close
}

/// Whether the client has sent no more ahead than it may.
pub(crate) fn is_within_limit(connection: &Connection) -> bool {
    let limit = connection.worker.shared.limits.query_buffer.load(Relaxed);
    if connection.filled as u64 <= limit {
        return true;
    }
    let session = connection.session.as_ref().expect("a session");
    let engine = &connection.worker.shared.engine;
    let line = commands::admin::describe(engine, &session.client, engine.clock().unix_ms());
    tracing::warn!("Closing client that reached max query buffer length: {line}");
    false
}

/// Answers bytes that are no request.
fn refuse(connection: &mut Connection, error: &ProtocolError) -> Step {
    connection.output.writer.protocol_error(error);
    connection.worker.shared.engine.stats().error(b"ERR");
    Step::Close
}

/// Executes the parsed commands from `next` on, and leaves there where to go on if not all were executed.
fn execute(connection: &mut Connection) -> Step {
    let Connection { parser, input, filled, session, worker, output, next, log_end, .. } =
        connection;
    let out = &mut output.writer;
    let engine = &*worker.shared.engine;
    let session = session.as_mut().expect("a session");
    let first = next.take().unwrap_or(0);
    let words: Words<'_> = parser.words(first, &input[..*filled]).collect();
    let mut requests = engine.batch();
    let mut rest = &words[..];
    for number in first..parser.complete() {
        let (args, behind) = rest.split_at(parser.word_count(number));
        requests.push(args);
        rest = behind;
    }
    if requests.len() >= PREFETCH_FROM {
        requests.prefetch(session);
    }
    session.begin_batch();
    let joins = engine.joins_commands();
    let begin = out.len();
    let mut since: Option<Instant> = None;
    // Commands to be executed one by one before a run is tried.
    let mut alone = 0;
    let mut at = 0;
    while at < requests.len() {
        if joins && alone == 0 {
            match engine.execute_run(session, &requests, at, out) {
                Ok(executed) => at += executed,
                Err(refused) => alone = refused,
            }
        }
        if alone > 0 || !joins {
            let request = requests.get(at);
            if engine.must_wait(session, request.args()) {
                *next = Some(first + at);
                return Step::Paused;
            }
            let (outcome, end) = call(engine, session, request, out);
            *log_end = end.max(*log_end);
            match outcome.next {
                Next::Reply | Next::Monitor => {}
                Next::Block => {
                    *next = Some(first + at + 1);
                    return Step::Blocked;
                }
                Next::Walk => {
                    *next = Some(first + at + 1);
                    return Step::Walking;
                }
                Next::Close => return Step::Close,
                Next::Paused => {
                    *next = Some(first + at);
                    return Step::Paused;
                }
                Next::Shutdown { nosave, now, force, save } => {
                    return Step::Shutdown(Request { save, nosave, now, force });
                }
            }
            alone = alone.saturating_sub(1);
            at += 1;
        }
        if at < requests.len() && is_long(out.len() - begin, at - 1, &mut since) {
            *next = Some(first + at);
            return Step::More;
        }
    }
    Step::Done
}

fn is_long(reply: usize, at: usize, since: &mut Option<Instant>) -> bool {
    if reply > MAX_REPLY {
        return true;
    }
    if !(at + 1).is_multiple_of(CLOCK_EVERY) {
        return false;
    }
    let since = *since.get_or_insert_with(Instant::now);
    since.elapsed() > MAX_TIME
}

/// Executes one command, and drops its reply if the client wants none. Returns also how far the log
/// must be settled before what was written to `out` leaves.
#[inline]
fn call(
    engine: &Engine,
    session: &mut Session,
    request: commands::Request<'_>,
    out: &mut Writer,
) -> (commands::Outcome, u64) {
    let before = session.reply;
    let mut end = 0;
    if session.client.has_mail.load(Relaxed) {
        // What was told before the command comes before its reply.
        end = session.client.take_mail(out.buffer());
    }
    let mark = out.mark();
    let outcome = engine.perform(session, request, out);
    end = end.max(outcome.durable_at);
    if matches!(outcome.next, Next::Block | Next::Walk) {
        // Its reply is yet to come.
        return (outcome, end);
    }
    if before == ReplyMode::On && session.reply == ReplyMode::On {
        return (outcome, end);
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
    // What is no reply is sent all the same: confirmations of subscriptions.
    end = end.max(session.client.take_mail(out.buffer()));
    (outcome, end)
}
