//! Expired keys that readers meet, and deleting them when the reader is done.
//!
//! A reader must not write: its reply would wait for the medium, and fail where nothing can be
//! written. So it remembers what it met, and whoever ran it deletes that in a transaction of its
//! own on the same locks.

use crate::{Db, Key, Txn};

/// This many are remembered; the others are left to the background.
const MOST: usize = 64;

/// Keys that were found expired.
pub(crate) type Met = Vec<(Db, Box<[u8]>)>;

impl Txn<'_> {
    /// Remembers an expired key.
    #[cold]
    pub(crate) fn meet(&mut self, db: Db, key: &Key<'_>) {
        let met = self.met.get_or_insert_default();
        if met.len() < MOST {
            met.push((db, key.bytes().into()));
        }
    }

    /// Whether a reader met an expired key.
    #[inline]
    pub fn has_met_expired(&self) -> bool {
        self.met.is_some()
    }

    /// Deletes the expired keys that readers met, as far as there is room for that; it is for the
    /// caller to commit. What was done before is committed. Whether there is anything to commit.
    pub fn delete_met(&mut self) -> bool {
        for (db, bytes) in self.met.take().into_iter().flat_map(|met| *met) {
            let key = self.key(&bytes);
            let (savepoint, place) = (self.savepoint_of(&[key]), self.place(db, &key));
            if self.slot_mut(place, db, &key).is_err() {
                self.rollback_to(savepoint);
            }
        }
        self.is_dirty()
    }
}
