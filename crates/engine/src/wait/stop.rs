//! The end of a wait without a reply.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use crate::engine::Engine;
use crate::session::Session;
use crate::session::client::Waiter;

/// Ends a wait without a reply: the connection is gone, or the command has failed after all.
pub(crate) fn stop_waiting(engine: &Engine, session: &mut Session) {
    let Some(waiter) = forget_waiter(session) else { return };
    if waiter.cancel() {
        engine.waiting().leave(engine.keyspace(), &waiter);
    }
}

/// Takes the waiter of a session that waits no more.
pub(super) fn forget_waiter(session: &mut Session) -> Option<Arc<Waiter>> {
    let waiter = session.waiter.take()?;
    *session.client.waiter.lock().unwrap_or_else(PoisonError::into_inner) = None;
    session.client.blocked.store(false, Relaxed);
    session.client.argv_mem.store(0, Relaxed);
    Some(waiter)
}
