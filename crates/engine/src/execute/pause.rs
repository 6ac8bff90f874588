//! Requests that must wait: while clients are paused, and writes while the log has no space.

use std::sync::atomic::Ordering::Relaxed;

use crate::engine::Engine;
use crate::execute::queue;
use crate::observe::state::Paused;
use crate::session::Session;
use crate::table::Lookup;
use crate::table::spec::{IMMEDIATE, PUBSUB};

impl Engine {
    /// Returns true if the request must wait. Called before each request of a batch.
    #[inline]
    pub(crate) fn must_wait(&self, session: &Session, args: &[&[u8]]) -> bool {
        let is_paused = self.admin().paused_until_ms() != 0;
        (is_paused || self.lacks_space()) && self.waits_now(session, args)
    }

    fn lacks_space(&self) -> bool {
        self.log().is_some_and(|log| log.is_nearly_full())
    }

    #[cold]
    fn waits_now(&self, session: &Session, args: &[&[u8]]) -> bool {
        if session.client.is_replica.load(Relaxed) {
            return false;
        }
        let paused = match self.admin().paused_until_ms() {
            0 => Paused::No,
            _ => self.admin().paused_at(self.clock().unix_ms()),
        };
        let is_nearly_full = self.lacks_space();
        if paused == Paused::No && !is_nearly_full {
            return false;
        }
        // Unknown commands, and those with a wrong number of arguments, are refused at once.
        let Lookup::Found(command) = self.table().find(args) else { return false };
        if !command.spec.accepts(args.len()) {
            return false;
        }
        if paused == Paused::All {
            return true;
        }
        // What is queued is written by EXEC, and a message takes no space in the log of a pool.
        let is_queued = session.in_multi() && !command.spec.is(IMMEDIATE);
        let takes_no_space = is_queued || command.spec.has(PUBSUB);
        (paused == Paused::Writes || !takes_no_space)
            && queue::may_replicate(self, session, command, args)
    }
}
