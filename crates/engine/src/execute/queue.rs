//! The commands that MULTI collects in a session, and what they may do.

use std::sync::atomic::Ordering::Relaxed;

use script::Flags;

use crate::engine::Engine;
use crate::execute::call::Run;
use crate::execute::request::Request;
use crate::execute::slots::{slots_of, takes_channels};
use crate::session::{Queue, Session};
use crate::table::Command;
use crate::table::spec::{
    DENYOOM, EXECUTES_QUEUE, IMMEDIATE, MAY_REPLICATE, PUBSUB, READONLY, WRITE,
};

/// Queues a command that passed all checks.
pub(crate) fn push(
    engine: &Engine,
    session: &mut Session,
    command: &Command,
    request: &Request<'_>,
) {
    let args = request.args;
    let Session { multi: Some(queue), lent, .. } = session else { return };
    if engine.cluster().is_on() {
        queue.slots = queue.slots.and(slots_of(command.spec, args, request.keys));
        queue.has_channels |= takes_channels(command.spec);
    }
    queue.flags |= flags(engine, command, args);
    queue.lacking |= !command.spec.flags;
    queue.bytes += args.iter().map(|arg| arg.len()).sum::<usize>();
    queue.requests.push(args, lent.as_ref());
    session.client.queued.store(queue.requests.len() as i64, Relaxed);
    session.client.multi_mem.store(queue.requests.memory(), Relaxed);
}

/// Returns the flags of a command as it is called: those of a script or a function follow from its
/// declaration, if it has one.
fn flags(engine: &Engine, command: &Command, args: &[&[u8]]) -> u32 {
    const DECLARED: u32 = WRITE | DENYOOM | MAY_REPLICATE;
    let declared = match command.spec.run {
        Run::Script(script) => (script.declared)(engine, args),
        _ => None,
    };
    match declared {
        None => command.spec.flags,
        Some(flags) if flags.contains(Flags::NO_WRITES) => command.spec.flags & !DECLARED,
        Some(flags) if flags.contains(Flags::ALLOW_OOM) => command.spec.flags & !DECLARED | WRITE,
        Some(_) => command.spec.flags & !DECLARED | WRITE | DENYOOM,
    }
}

/// Notes that a command of the transaction was refused.
pub(crate) fn mark_dirty(session: &mut Session) {
    if let Some(queue) = &mut session.multi {
        queue.is_dirty = true;
    }
}

/// Forgets the queue and the watches.
pub fn discard(engine: &Engine, session: &mut Session) {
    take(session);
    engine.unwatch(session);
}

/// Ends the queueing, and returns the queue.
pub fn take(session: &mut Session) -> Option<Box<Queue>> {
    session.client.queued.store(-1, Relaxed);
    session.client.multi_mem.store(0, Relaxed);
    session.multi.take()
}

/// Reopens the queue: its commands are to be executed later.
pub fn put_back(session: &mut Session, queue: Box<Queue>) {
    session.client.queued.store(queue.requests.len() as i64, Relaxed);
    session.client.multi_mem.store(queue.requests.memory(), Relaxed);
    session.multi = Some(queue);
}

/// Returns true if executing this may change data.
pub(crate) fn writes(session: &Session, command: &Command) -> bool {
    command.spec.has(WRITE) || queued(session, command, WRITE)
}

/// Returns true if this has the flag, and all that it executes.
pub(crate) fn all_have(session: &Session, command: &Command, flag: u32) -> bool {
    command.spec.has(flag)
        && !(command.spec.is(EXECUTES_QUEUE)
            && session.multi.as_ref().is_some_and(|queue| queue.lacking & flag != 0))
}

/// Returns true if executing this may read or change data, or be propagated as if it did.
pub(crate) fn touches_keys(session: &Session, command: &Command) -> bool {
    let flags = WRITE | READONLY | MAY_REPLICATE;
    command.spec.has(flags) || queued(session, command, flags)
}

/// Returns true if the reply of this may show data, or acknowledge a change.
#[inline]
pub(crate) fn shows_data(session: &Session, command: &Command) -> bool {
    let flags = WRITE | READONLY | MAY_REPLICATE;
    let is_message = command.spec.has(PUBSUB);
    command.spec.has(flags) && !is_message || queued(session, command, flags)
}

/// Returns true if executing this may be propagated, as writes are.
pub(crate) fn may_replicate(
    engine: &Engine,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
) -> bool {
    let propagated = WRITE | MAY_REPLICATE;
    flags(engine, command, args) & propagated != 0 || queued(session, command, propagated)
}

/// Returns true if executing this may write, by the flags that a script declares if it is one.
pub(crate) fn may_write(
    engine: &Engine,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
) -> bool {
    flags(engine, command, args) & WRITE != 0 || queued(session, command, WRITE)
}

/// Returns true if executing or queueing this may take memory.
pub(crate) fn needs_memory(session: &Session, command: &Command) -> bool {
    command.spec.has(DENYOOM)
        || queued(session, command, DENYOOM)
        || (session.in_multi() && !command.spec.is(IMMEDIATE))
}

fn queued(session: &Session, command: &Command, flag: u32) -> bool {
    command.spec.is(EXECUTES_QUEUE)
        && session.multi.as_ref().is_some_and(|queue| queue.flags & flag != 0)
}
