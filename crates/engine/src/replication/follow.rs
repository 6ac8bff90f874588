//! The role of this server, and what it does as a replica.

use super::Primary;
use crate::engine::Engine;
use crate::session::Session;

impl Engine {
    /// Makes this server follow a primary, or nobody.
    pub fn follow(&self, primary: Option<Primary>) {
        let follows = primary.is_some();
        let was_replica = self.replication().is_replica();
        self.replication().set_primary(primary);
        self.config().set_is_replica(follows);
        if follows && !was_replica {
            self.unblock_all();
        }
    }

    /// Ends the waits of all clients with an error, since this server follows a primary from now
    /// on.
    fn unblock_all(&self) {
        for client in self.clients().list() {
            self.unblock_by(client.id, Some(b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"));
        }
    }

    /// Passes on to the stream what a session has received from the primary. If this server is no
    /// replica any more, it is a change of its own that is in no stream.
    pub fn pass_on(&self, session: &mut Session) {
        let (stream, db) = (self.replication().stream(), session.db.number() as u32);
        let Some(received) = &mut session.received else { return };
        let epoch = received.epoch;
        let bytes = received.take();
        if !bytes.is_empty() && !stream.append_received(epoch, db, bytes) {
            stream.note_skipped();
        }
    }
}
