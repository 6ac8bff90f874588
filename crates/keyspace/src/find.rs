//! Lookup of a key for a command that writes, and of a lost entry that the key may have had.

use crate::layout::FIELDS;
use crate::{Db, Entry, Error, Key, Txn, entry};

impl Txn<'_> {
    /// Finds a key for a command that writes. Deletes an expired key (and lists it in `changes`)
    /// and does not find it. Likewise deletes the expired fields of a hash, and the key with the
    /// last of them.
    pub fn find_mut(&mut self, db: Db, key: &Key<'_>) -> Result<Option<Entry>, Error> {
        let place = self.place(db, key);
        let Some(mut slot) = self.slot_mut(place, db, key)? else { return Ok(None) };
        if entry::expiry_word(&self.shards[place.shard], slot.entry()) & FIELDS != 0 {
            self.hashes().delete_some_expired(db, key)?;
            let Some(left) = self.slot_mut(place, db, key)? else { return Ok(None) };
            slot = left;
        }
        self.touch_key(place, key);
        self.remember(place, key, slot);
        Ok(Some(place.entry(slot.entry(), key.hash)))
    }

    /// Like [`Txn::find_mut`], but also counts a hit or a miss: for a command that reads the key to
    /// write another one, or to write something in addition to its value.
    pub fn find_mut_to_read(&mut self, db: Db, key: &Key<'_>) -> Result<Option<Entry>, Error> {
        let found = self.find_mut(db, key)?;
        let place = self.place(db, key);
        let counters = &self.volatile(place.shard).counters;
        match found {
            Some(_) => counters.hits.add(1),
            None => {
                counters.misses.add(1);
                if self.shared().lists_missed() {
                    self.record_missed(place.shard, db, key.bytes);
                }
            }
        }
        Ok(found)
    }

    /// Returns the pool offset of an entry that lost its name and may have belonged to this key, if
    /// the key does not exist.
    pub fn lost(&self, db: Db, key: &Key<'_>) -> Option<u64> {
        let damage = &self.shared().damage;
        if !damage.has_media_errors() || self.slot(self.place(db, key), key).is_some() {
            return None;
        }
        damage.may_have_lost(&self.shared().name(db, key))
    }
}
