//! The role of this server, and what it does as a replica.

use super::{Primary, ROLE_CHANGED};
use crate::engine::Engine;
use crate::session::Session;

impl Engine {
    /// Makes this server follow a primary, or nobody.
    pub fn follow(&self, primary: Option<Primary>) {
        let follows = primary.is_some();
        let was_replica = self.replication().is_replica();
        // A write that is not refused by the first was admitted before the second.
        if follows {
            self.config().set_is_replica(true);
        }
        self.replication().set_primary(primary);
        self.config().set_is_replica(follows);
        self.replication().wake_unconfirmed();
        if follows && !was_replica {
            self.unblock_all();
        }
        if !follows {
            self.replication().facts().linked(self.replication().stream().end());
        }
    }

    /// Lets a session that has changed the role itself go on: what else its transaction writes is
    /// committed, as in Redis, though no primary has it.
    pub fn accept_role(&self, session: &Session) {
        session.role.set(self.replication().roles());
    }

    /// Ends the waits of all clients with an error, since this server follows a primary from now
    /// on.
    pub(super) fn unblock_all(&self) {
        for client in self.clients().list() {
            self.unblock_by(client.id, Some(ROLE_CHANGED));
        }
    }

    /// Passes on to the stream what a session has received from the primary. Returns false if this
    /// server does not follow that primary any more: then nothing is passed on.
    pub fn pass_on(&self, session: &mut Session) -> bool {
        let (stream, db) = (self.replication().stream(), session.db.number() as u32);
        let Some(received) = &mut session.received else { return true };
        let epoch = received.epoch;
        let bytes = received.take();
        bytes.is_empty() || stream.append_received(epoch, db, bytes)
    }
}
