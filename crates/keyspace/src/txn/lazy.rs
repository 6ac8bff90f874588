//! Deletion of the expired keys that a reader met, after the reader is done.
//!
//! A reader must not write: its reply would wait for the medium, and the read would fail if the
//! store takes no writes. So the transaction remembers the expired keys, and its owner deletes them
//! afterwards in a transaction of their own, under the same locks.

use crate::{Db, Key, Txn};

/// The maximum number of keys that a transaction remembers; active expiry deletes the others.
const MOST: usize = 64;

/// The expired keys that readers met.
pub(super) type LazilyExpired = Vec<(Db, Box<[u8]>)>;

impl Txn<'_> {
    /// Remembers an expired key.
    #[cold]
    pub(super) fn add_lazily_expired(&mut self, db: Db, key: &Key<'_>) {
        let lazily_expired = self.lazily_expired.get_or_insert_default();
        if lazily_expired.len() < MOST {
            lazily_expired.push((db, key.bytes().into()));
        }
    }

    /// Returns true if a reader met an expired key.
    #[inline]
    pub fn has_lazily_expired(&self) -> bool {
        self.lazily_expired.is_some()
    }

    /// Deletes the expired keys that readers met, as far as there is space for it. All earlier
    /// changes must be committed, and their listed changes handled: the list is cleared. Returns
    /// true if there is anything to commit; the caller commits.
    pub fn delete_lazily_expired(&mut self) -> bool {
        debug_assert!(!self.is_dirty(), "the earlier changes are no longer listed");
        (self.changes, self.committed) = (None, false);
        for (db, bytes) in
            self.lazily_expired.take().into_iter().flat_map(|lazily_expired| *lazily_expired)
        {
            let key = self.key(&bytes);
            let (savepoint, place) = (self.savepoint_of(&[key]), self.place(db, &key));
            if self.slot_mut(place, db, &key).is_err() {
                self.rollback_to(savepoint);
            }
        }
        self.is_dirty()
    }
}
