//! Requests that must wait while clients are paused.

use std::sync::atomic::Ordering::Relaxed;

use crate::engine::Engine;
use crate::execute::queue;
use crate::observe::state::Paused;
use crate::session::Session;
use crate::table::Lookup;

impl Engine {
    /// Returns true if the request must wait because clients are paused. Called before each request
    /// of a batch.
    pub(crate) fn must_wait(&self, session: &Session, args: &[&[u8]]) -> bool {
        if session.client.is_replica.load(Relaxed) {
            return false;
        }
        if self.admin().paused_until_ms() == 0 {
            return false;
        }
        let paused = self.admin().paused_at(self.clock().unix_ms());
        if paused == Paused::No {
            return false;
        }
        // Unknown commands, and those with a wrong number of arguments, are refused at once.
        let Lookup::Found(command) = self.table().find(args) else { return false };
        if !command.spec.accepts(args.len()) {
            return false;
        }
        paused == Paused::All || queue::may_replicate(self, session, command, args)
    }
}
