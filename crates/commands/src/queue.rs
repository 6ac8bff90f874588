//! What MULTI collects in a session, and what executing it may do.

use std::sync::atomic::Ordering::Relaxed;

use crate::engine::Engine;
use crate::session::{Queue, Session};
use crate::spec::{DENYOOM, EXECUTES_QUEUE, IMMEDIATE, MAY_REPLICATE, READONLY, WRITE};
use crate::table::Command;

/// Queues a command that was found in order.
pub(crate) fn push(session: &mut Session, command: &Command, args: &[&[u8]]) {
    let Some(queue) = &mut session.multi else { return };
    queue.flags |= command.spec.flags;
    queue.bytes += args.iter().map(|arg| arg.len()).sum::<usize>();
    queue.commands.push(args.iter().map(|arg| Box::from(*arg)).collect());
    session.client.queued.store(queue.commands.len() as i64, Relaxed);
    session.client.multi_mem.store(queue.bytes, Relaxed);
}

/// Notes that a command of the transaction was refused.
pub(crate) fn mark_dirty(session: &mut Session) {
    if let Some(queue) = &mut session.multi {
        queue.is_dirty = true;
    }
}

/// Forgets the queue and the watches.
pub(crate) fn discard(engine: &Engine, session: &mut Session) {
    take(session);
    engine.unwatch(session);
}

/// Ends the queueing.
pub(crate) fn take(session: &mut Session) -> Option<Queue> {
    session.client.queued.store(-1, Relaxed);
    session.client.multi_mem.store(0, Relaxed);
    session.multi.take()
}

/// Returns true if executing this may change data.
pub(crate) fn writes(session: &Session, command: &Command) -> bool {
    command.spec.has(WRITE) || queued(session, command, WRITE)
}

/// Returns true if executing this may read or change data, or be propagated as if it did.
pub(crate) fn touches_keys(session: &Session, command: &Command) -> bool {
    let flags = WRITE | READONLY | MAY_REPLICATE;
    command.spec.has(flags) || queued(session, command, flags)
}

/// Returns true if executing this may be propagated, as writes are.
pub(crate) fn may_replicate(session: &Session, command: &Command) -> bool {
    let flags = WRITE | MAY_REPLICATE;
    command.spec.has(flags) || queued(session, command, flags)
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
