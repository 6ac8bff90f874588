//! CLIENT PAUSE: requests that must wait.

use std::sync::atomic::Ordering::Relaxed;

use crate::engine::Engine;
use crate::execute::queue;
use crate::session::Session;
use crate::table::Lookup;

impl Engine {
    /// Returns true if the request must wait because clients are paused (CLIENT PAUSE). Called
    /// before each request of a batch.
    pub(crate) fn must_wait(&self, session: &Session, args: &[&[u8]]) -> bool {
        if session.client.is_replica.load(Relaxed) {
            return false;
        }
        let state = self.admin();
        let until = state.paused_until_ms();
        if until == 0 {
            return false;
        }
        if self.clock().unix_ms() > until {
            state.unpause();
            return false;
        }
        // Unknown commands, and those with a wrong number of arguments, are refused at once.
        let Lookup::Found(command) = self.table().find(args) else { return false };
        if !command.spec.accepts(args.len()) {
            return false;
        }
        state.pause_all.load(Relaxed) || queue::may_replicate(self, session, command, args)
    }
}
