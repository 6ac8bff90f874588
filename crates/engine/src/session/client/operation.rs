//! What a blocked client waits for.

use keyspace::{Db, Key, Txn};
use resp::Writer;

use crate::config::Config;
use crate::failure::Failure;
use crate::log::Effects;
use crate::notify::events::EventClass;
use crate::observe::stats::Stats;

/// Where a client is served: by its own command, or later by whoever fills the key.
pub struct Serving<'a> {
    /// Settings of commands.
    pub config: &'a Config,
    pub(crate) stats: &'a Stats,
    /// The client's database.
    pub db: Db,
    /// The client's reply.
    pub out: &'a mut Writer,
    /// Of the thread that serves, for statistics.
    pub(crate) stripe: usize,
    /// What goes into the command log.
    pub effects: &'a mut Effects,
}

impl Serving<'_> {
    /// Returns true if there is a log, and it pays to tell it what was done.
    pub fn has_log(&self) -> bool {
        self.effects.enabled()
    }

    /// Says that data changed, and which command would have the same effect at any time.
    pub fn wrote_as(&mut self, args: &[&[u8]]) {
        self.stats.changed(self.stripe);
        self.effects.push(self.db, args);
    }

    /// Says that something happened to a key.
    pub fn notify(&mut self, class: EventClass, name: &'static str, key: &Key<'_>) {
        self.effects.notify(class, self.db, name, key.bytes());
    }

    /// Says that something was taken from a key, and that the key is gone if that was all.
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

/// What a client waits for: the part of a blocking command that needs something to be there.
///
/// It is run in a transaction that holds the shards of the key and of [`BlockedOperation::target`],
/// and of nothing else.
pub trait BlockedOperation: Send + Sync {
    /// Serves the client from a key that holds a value of the type it waits for: takes, replies,
    /// logs. `false` if this value has nothing for it (a stream without newer entries); then
    /// nothing was changed and nothing written. An error is the client's reply, and what was
    /// changed is undone.
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

    /// Returns the error that ends the wait when a key of it is deleted or gets a value of another
    /// type; none to go on waiting.
    fn lost(&self) -> Option<Failure> {
        None
    }

    /// Writes the reply when the time is over.
    fn time_out(&self, out: &mut Writer) {
        out.null_array();
    }

    /// Writes the reply where nobody may block: inside EXEC.
    fn refuse(&self, out: &mut Writer) {
        self.time_out(out);
    }
}
