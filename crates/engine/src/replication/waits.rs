//! Clients that wait until replicas have what they wrote.

use std::sync::Arc;

use super::{ROLE_CHANGED, Wait, Wanted};
use crate::engine::Engine;
use crate::session::Session;
use crate::session::client::Ending;

impl Engine {
    /// Lets the wait of a session that was just blocked end when replicas have what it wrote. They
    /// are asked how far they are.
    pub fn wait_for_replicas(&self, session: &Session, wanted: Wanted) {
        let Some(waiter) = &session.waiter else { return };
        let mut waits = self.replication().waits();
        waits.retain(|wait| !wait.waiter.is_over());
        waits.push(Wait { waiter: Arc::clone(waiter), wanted });
        drop(waits);
        // The role may have changed before there was a wait to end.
        if self.replication().is_replica() {
            self.unblock_by(session.client.id, Some(ROLE_CHANGED));
            return;
        }
        self.replication().ask(wanted.offset);
        self.end_waits_for_replicas();
    }

    /// Ends the waits of clients whose writes enough replicas have: to be called when one has
    /// acknowledged more.
    pub fn end_waits_for_replicas(&self) {
        let replication = self.replication();
        replication.wake_confirmed();
        let mut waits = replication.waits();
        if waits.is_empty() {
            return;
        }
        let now = self.clock().unix_ms();
        waits.retain(|Wait { waiter, wanted }| {
            if wanted.reached(&replication.replicas) < wanted.replicas {
                return !waiter.is_over();
            }
            if waiter.claim_when_unclaimed() {
                self.waiting().leave(self.keyspace(), waiter);
                let reply = waiter.time_out();
                waiter.end(Ending { reply, reply_after: 0, failed: false }, now);
            }
            false
        });
    }
}
