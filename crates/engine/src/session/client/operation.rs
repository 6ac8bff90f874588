//! The operation that a blocked client waits for.

use keyspace::{Db, Key, Txn};
use resp::Writer;

use crate::config::Config;
use crate::failure::Failure;
use crate::log::Effects;
use crate::notify::events::EventClass;
use crate::observe::stats::Stats;

/// The context in which a client is served: by its own command, or later by the thread that fills
/// the key.
pub struct Serving<'a> {
    /// Settings of commands.
    pub config: &'a Config,
    pub(crate) stats: &'a Stats,
    /// The client's database.
    pub db: Db,
    /// The client's reply.
    pub out: &'a mut Writer,
    /// The thread of the serving thread, for statistics.
    pub(crate) thread: usize,
    /// What goes into the command log.
    pub effects: &'a mut Effects,
}

impl Serving<'_> {
    /// Returns true if there is a log, so that rewriting commands for it is worthwhile.
    pub fn has_log(&self) -> bool {
        self.effects.enabled()
    }

    /// Notes that data changed: `args`, which has the same effect at any time, goes into the log.
    pub fn wrote_as(&mut self, args: &[&[u8]]) {
        self.stats.changed(self.thread);
        self.effects.push(self.db, args);
    }

    /// Notes an event of a key.
    pub fn notify(&mut self, class: EventClass, name: &'static str, key: &Key<'_>) {
        self.effects.notify(class, self.db, name, key.bytes());
    }

    /// Notes that something was taken from a key, and that the key is gone if nothing is left.
    pub fn notify_taken(
        &mut self,
        class: EventClass,
        txn: &Txn<'_>,
        name: &'static str,
        key: &Key<'_>,
    ) {
        self.effects.notify_taken(class, txn, self.db, name, key);
    }
}

/// The operation that a client waits for: the part of a blocking command that needs an element.
///
/// It is run in a transaction that holds the shards of the key and of [`BlockedOperation::target`],
/// and of nothing else.
pub trait BlockedOperation: Send + Sync {
    /// Serves the client from a key that holds a value of the type it waits for: takes, replies,
    /// logs. Returns false if this value has nothing for it (a stream without newer entries), with
    /// nothing changed and nothing written. An error is the client's reply, and the changes are
    /// undone.
    fn serve(
        &self,
        serving: &mut Serving<'_>,
        txn: &mut Txn<'_>,
        key: &Key<'_>,
    ) -> Result<bool, Failure>;

    /// Returns a key that serving writes to, in addition to the one that it takes from.
    fn target(&self) -> Option<&[u8]> {
        None
    }

    /// Returns the error that ends the wait when one of its keys is deleted or gets a value of
    /// another type; none to go on waiting.
    fn lost(&self) -> Option<Failure> {
        None
    }

    /// Writes the reply for a wait whose timeout has passed.
    fn time_out(&self, out: &mut Writer) {
        out.null_array();
    }

    /// Writes the reply if blocking is not allowed: inside EXEC.
    fn refuse(&self, out: &mut Writer) {
        self.time_out(out);
    }
}
