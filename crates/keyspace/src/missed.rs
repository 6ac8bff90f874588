//! Keys that readers did not find: listed with the changes of a transaction where somebody asks for
//! them, though nothing changes by them. They are as many as what reads in a transaction says, and
//! are listed up to a bound.

use crate::{Db, Event, Txn};

impl Txn<'_> {
    /// Lists a key that a reader did not find.
    #[cold]
    pub(crate) fn record_missed(&mut self, shard: usize, db: Db, key: &[u8]) {
        self.drop_committed();
        self.changes_mut().record_missed(shard, db, key);
    }

    /// Returns true if readers did not find more keys than are listed.
    pub fn has_dropped_missed(&self) -> bool {
        self.changes.as_ref().is_some_and(|changes| changes.has_dropped_missed)
    }

    /// Returns true if the changes that are listed are keys that readers did not find.
    pub fn has_only_missed(&self) -> bool {
        self.keyspace.lists_missed() && self.changes().all(|change| change.event == Event::Missed)
    }
}
