//! The changes that a transaction lists: the keys that it changed, and those that readers did not
//! find.
//!
//! Keys that readers did not find are listed on request ([`crate::Keyspace::list_events`]),
//! although a miss changes nothing. A script can miss any number of keys, so the list of them is
//! bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{KeyLocation, Txn};
use crate::changes::Changes;
use crate::watch::After;
use crate::{Change, Db, Event, Key, Watch};

impl Txn<'_> {
    /// Clears the list of changes if they have been committed.
    #[inline]
    pub(super) fn drop_committed(&mut self) {
        if self.committed {
            self.changes = None;
            self.committed = false;
        }
    }

    /// Lists a change, if there is a consumer for it.
    #[inline]
    pub(crate) fn record_change(&mut self, shard: usize, db: Db, key: &[u8], event: Event) {
        self.drop_committed();
        if self.is_new && event == Event::Written {
            self.is_new = false;
            self.changes_mut().record_change(shard, db, key, Event::Created);
        }
        use Event::{Evicted, Expired, FieldExpired};
        let wanted = matches!(event, Expired | FieldExpired | Evicted)
            || self.shared.tracks_changes()
            || !self.volatile(shard).watches.is_empty()
            || self.volatile(shard).listeners.load(Ordering::Relaxed) > 0;
        if wanted {
            self.changes_mut().record_change(shard, db, key, event);
        }
    }

    /// Lists that a field expired.
    pub(crate) fn record_expired_field(&mut self, shard: usize, db: Db, key: &[u8], field: &[u8]) {
        self.drop_committed();
        self.changes_mut().record_expired_field(shard, db, key, field);
    }

    pub(crate) fn changes_mut(&mut self) -> &mut Changes {
        self.changes.get_or_insert_default()
    }

    /// Returns the number of listed changes that are not committed yet.
    #[inline]
    pub fn pending_changes(&self) -> usize {
        self.changes.as_ref().filter(|_| !self.committed).map_or(0, |changes| changes.len())
    }

    /// Returns the keys that this transaction changed (after a commit: the committed changes).
    /// Expired and evicted keys are always listed; the others if changes are tracked, or if the
    /// shard has watches or listeners.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        self.changes_from(0)
    }

    /// Like [`Txn::changes`], but skips the first `from`.
    pub fn changes_from(&self, from: usize) -> impl Iterator<Item = Change<'_>> {
        let changes = self.changes.iter();
        changes.flat_map(move |changes| changes.iter_from(from)).map(|(_, change)| change)
    }

    /// Lists the key as written, although its value did not change.
    pub fn record_written(&mut self, db: Db, key: &Key<'_>) {
        self.record_change(self.place(db, key).shard, db, key.bytes, Event::Written);
    }

    /// Marks the writes that were listed after the first `from` pending changes as
    /// [`Event::MetadataOnly`], of which no watch is notified: for writes that leave the value the
    /// same, apart from its form.
    pub fn mark_metadata_only(&mut self, from: usize) {
        if let Some(changes) = self.changes.as_mut().filter(|_| !self.committed) {
            changes.mark_metadata_only(from);
        }
    }

    /// Registers a watch that sets `flag` when a later transaction changes the key. Returns `None`
    /// if this flag already watches the key.
    pub fn watch(&mut self, db: Db, key: &Key<'_>, flag: &Arc<AtomicBool>) -> Option<Watch> {
        let place = self.place(db, key);
        let expired = self.after(place, key) == After::Expired;
        self.volatile(place.shard).watches.add(db, key.bytes, flag, expired)
    }

    /// Returns true if the key has expired since the watch began: EXEC fails then, even if the key
    /// has not been deleted yet.
    pub fn has_expired(&self, watch: &Watch) -> bool {
        let key = self.key(&watch.key);
        let place = self.place(watch.db, &key);
        self.after(place, &key) == After::Expired
            && !self.volatile(place.shard).watches.began_expired(watch)
    }

    pub(crate) fn after(&self, place: KeyLocation, key: &Key<'_>) -> After {
        match self.slot(place, key) {
            None => After::Absent,
            Some(slot) if self.live(place, slot.entry()) => After::Present,
            Some(_) => After::Expired,
        }
    }

    /// Lists a key that a reader did not find.
    #[cold]
    pub(crate) fn record_missed(&mut self, shard: usize, db: Db, key: &[u8]) {
        self.drop_committed();
        self.changes_mut().record_missed(shard, db, key);
    }

    /// Returns true if some keys that readers did not find are not listed, because there were too
    /// many.
    pub fn has_dropped_missed(&self) -> bool {
        self.changes.as_ref().is_some_and(|changes| changes.has_dropped_missed)
    }

    /// Returns true if all listed changes are keys that readers did not find.
    pub fn has_only_missed(&self) -> bool {
        self.shared.lists_missed() && self.changes().all(|change| change.event == Event::Missed)
    }
}
