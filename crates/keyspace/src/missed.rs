//! Keys that readers did not find: listed with the changes of a transaction where somebody asks for
//! them, though nothing changes by them. They are as many as what reads in a transaction says, and
//! are listed up to a bound.

use crate::{Db, Entry, Error, Event, Key, Txn};

impl Txn<'_> {
    /// Finds a key without a trace: no access is recorded, nothing is counted, and an expired key
    /// stays.
    pub fn peek(&self, db: Db, key: &Key<'_>) -> Option<Entry> {
        let place = self.place(db, key);
        let slot = self.slot(place, key).filter(|slot| self.live(place, slot.entry()))?;
        Some(Entry { shard: place.shard, at: slot.entry(), which: place.which(key.hash) })
    }

    /// Finds a key as [`Txn::find`] does, for EXISTS, TTL, TYPE: counts a hit or a miss and
    /// remembers an expired key to be deleted, but records no access.
    pub fn look(&mut self, db: Db, key: &Key<'_>) -> Option<Entry> {
        let touches = std::mem::replace(&mut self.touches, false);
        let found = self.find(db, key);
        self.touches = touches;
        found
    }

    /// Finds a key as [`Txn::find_mut`] does, and counts a hit or a miss: for a command that reads
    /// it to write another one, or something in addition to its value.
    pub fn find_mut_to_read(&mut self, db: Db, key: &Key<'_>) -> Result<Option<Entry>, Error> {
        let found = self.find_mut(db, key)?;
        let place = self.place(db, key);
        let counters = &self.volatile(place.shard).counters;
        match found {
            Some(_) => counters.hits.add(1),
            None => {
                counters.misses.add(1);
                if self.keyspace.lists_missed() {
                    self.record_missed(place.shard, db, key.bytes);
                }
            }
        }
        Ok(found)
    }

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
