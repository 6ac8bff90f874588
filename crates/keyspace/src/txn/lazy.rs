//! Expired keys that readers meet, and deleting them when the reader is done.
//!
//! A reader must not write: its reply would wait for the medium, and fail where nothing can be
//! written. So it remembers what it met, and whoever ran it deletes that in a transaction of its
//! own on the same locks.

use crate::{Db, Key, Txn};

/// This many are remembered; the others are left to the background.
const MOST: usize = 64;

/// Keys that were found expired.
pub(super) type LazilyExpired = Vec<(Db, Box<[u8]>)>;

impl Txn<'_> {
    /// Remembers an expired key.
    #[cold]
    pub(crate) fn add_lazily_expired(&mut self, db: Db, key: &Key<'_>) {
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

    /// Deletes the expired keys that readers met, as far as there is space for that; it is for the
    /// caller to commit. What was done before is committed, and everybody was notified of it.
    /// Returns true if there is anything to commit.
    pub fn delete_lazily_expired(&mut self) -> bool {
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
