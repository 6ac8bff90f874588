//! The ends of a wait, as the blocked client's own side sees them.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use keyspace::Key;
use resp::Writer;

use super::stop::forget_waiter;
use crate::engine::Engine;
use crate::execute::call::{Next, Outcome};
use crate::session::client::{Ending, Waiter};
use crate::session::{ReplyMode, Session};

impl Session {
    /// Lets its commands block: the caller then waits when told to ([`Next::Block`]), and ends the
    /// wait by [`Engine::unblocked`], [`Engine::time_out`] and [`Engine::disconnect`].
    pub fn set_can_block(&mut self) {
        self.can_block = true;
    }

    /// Returns the deadline of a blocked session's wait, unix ms; none for never.
    pub fn blocked_until(&self) -> Option<u64> {
        self.waiter.as_ref().and_then(|waiter| waiter.until)
    }
}

impl Engine {
    /// Returns the outcome if the wait of a blocked session has ended; its reply is then in `out`.
    /// The thread that ends the wait wakes the client.
    pub fn unblocked(&self, session: &mut Session, out: &mut Writer) -> Option<Outcome> {
        if session.moved.is_some() {
            return self.take_moved(session, out);
        }
        let ending = session.waiter.as_ref()?.take_ending()?;
        Some(self.resume(session, ending, out))
    }

    /// Ends the wait of a session whose timeout has passed; if it was just served, that is its
    /// reply.
    pub fn time_out(&self, session: &mut Session, out: &mut Writer) -> Option<Outcome> {
        let waiter = Arc::clone(session.waiter.as_ref()?);
        if !waiter.cancel() {
            return self.unblocked(session, out);
        }
        self.waiting().leave(self.keyspace(), &waiter);
        let reply_after = self.seen_by(&waiter);
        let ending = Ending { reply: waiter.time_out(), reply_after, failed: false };
        Some(self.resume(session, ending, out))
    }

    fn resume(&self, session: &mut Session, ending: Ending, out: &mut Writer) -> Outcome {
        // One that waited for a key may have been served by another's write.
        if session.waiter.as_ref().is_some_and(|waiter| !waiter.keys.is_empty()) {
            session.replicated_to = self.replication().stream().appended();
        }
        forget_waiter(session);
        session.client.seen_ms.store(self.clock().unix_ms(), Relaxed);
        let command = session.client.last_command.load(Relaxed);
        if ending.failed && command < self.table().len() {
            self.stats().failed(session.thread, command);
        }
        if let Some(slow) = session.slow_block.take() {
            let unix_s = self.clock().unix_ms() / 1000;
            slow.enter(&self.admin().slow_log, &session.client, unix_s);
        }
        match session.reply {
            ReplyMode::On | ReplyMode::SkipNext => out.append(ending.reply),
            ReplyMode::Off => {}
            ReplyMode::Skip => session.reply = ReplyMode::On,
        }
        session.written_to = session.written_to.max(ending.reply_after);
        Outcome { next: Next::Reply, reply_after: ending.reply_after }
    }

    /// Ends the wait of another client, as if its timeout had passed, or with an error. Returns
    /// true if it waited (CLIENT UNBLOCK).
    pub fn unblock(&self, id: u64, with_error: bool) -> bool {
        let error = &b"UNBLOCKED client unblocked via CLIENT UNBLOCK"[..];
        self.unblock_by(id, with_error.then_some(error))
    }

    /// Ends the wait of another client, as if its timeout had passed, or with this error. Returns
    /// true if it waited.
    pub(crate) fn unblock_by(&self, id: u64, error: Option<&[u8]>) -> bool {
        let client = self.clients().get(id);
        let waiter = client.and_then(|client| {
            client.waiter.lock().unwrap_or_else(PoisonError::into_inner).clone()
        });
        let Some(waiter) = waiter.filter(|waiter| waiter.claim_when_unclaimed()) else {
            return false;
        };
        self.waiting().leave(self.keyspace(), &waiter);
        let reply = match error {
            Some(text) => {
                self.stats().error(b"UNBLOCKED");
                waiter.error(text)
            }
            None => waiter.time_out(),
        };
        let reply_after = self.seen_by(&waiter);
        waiter.end(Ending { reply, reply_after, failed: error.is_some() }, self.clock().unix_ms());
        true
    }

    /// Returns how far the log must be settled before a client may learn that its keys held nothing
    /// for it.
    fn seen_by(&self, waiter: &Waiter) -> u64 {
        let keys: Vec<Key<'_>> = waiter.keys.iter().map(|key| self.keyspace().key(key)).collect();
        if keys.is_empty() {
            return 0;
        }
        let seen = self.durability().logged_until(&keys);
        self.durability().check_read(&keys, seen).unwrap_or(seen)
    }
}
