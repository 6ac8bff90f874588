//! MULTI, EXEC, DISCARD, WATCH, UNWATCH: several commands as one.
//!
//! Between MULTI and EXEC commands are only checked and queued. EXEC locks the shards of all queued
//! and watched keys at once, looks at the watches behind the locks, and runs everything in one
//! keyspace transaction: durable and visible as a whole or not at all. A queued command that fails
//! takes back its own changes and leaves the others', as in Redis.

mod exec;
mod multi;
mod watch;

use std::sync::atomic::Ordering::Relaxed;

use crate::engine::Engine;
use crate::session::Session;
use crate::spec::{
    CommandSpec, DENYOOM, EXECUTES_QUEUE, IMMEDIATE, MAY_REPLICATE, READONLY, WRITE,
};
use crate::table::Command;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] =
    &[&multi::MULTI, &multi::DISCARD, &exec::EXEC, &watch::WATCH, &watch::UNWATCH];

/// What MULTI collects.
#[derive(Default)]
pub(crate) struct Queue {
    /// Their words.
    commands: Vec<Vec<Box<[u8]>>>,
    /// A command was refused: EXEC fails.
    is_dirty: bool,
    /// Flags of all queued commands.
    flags: u32,
    bytes: usize,
}

/// Queues a command that was found in order.
pub(crate) fn queue(session: &mut Session, command: &Command, args: &[&[u8]]) {
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
fn take(session: &mut Session) -> Option<Queue> {
    session.client.queued.store(-1, Relaxed);
    session.client.multi_mem.store(0, Relaxed);
    session.multi.take()
}

/// Whether executing this may change data.
pub(crate) fn writes(session: &Session, command: &Command) -> bool {
    command.spec.has(WRITE) || queued(session, command, WRITE)
}

/// Whether executing this may read or change data, or be propagated as if it did.
pub(crate) fn touches_keys(session: &Session, command: &Command) -> bool {
    let flags = WRITE | READONLY | MAY_REPLICATE;
    command.spec.has(flags) || queued(session, command, flags)
}

/// Whether executing this may be propagated, as writes are.
pub(crate) fn may_replicate(session: &Session, command: &Command) -> bool {
    let flags = WRITE | MAY_REPLICATE;
    command.spec.has(flags) || queued(session, command, flags)
}

/// Whether executing or queueing this may take memory.
pub(crate) fn needs_room(session: &Session, command: &Command) -> bool {
    command.spec.has(DENYOOM)
        || queued(session, command, DENYOOM)
        || (session.in_multi() && !command.spec.is(IMMEDIATE))
}

fn queued(session: &Session, command: &Command, flag: u32) -> bool {
    command.spec.is(EXECUTES_QUEUE)
        && session.multi.as_ref().is_some_and(|queue| queue.flags & flag != 0)
}
