//! Lookup of a key's entry.

use heap::Ptr;
use structures::index::Slot;

use super::{Entry, KeyLocation, Txn};
use crate::{Db, Error, Key, entry};

/// The slot of the key that was looked up last: commands look a key up, then write it.
#[derive(Clone, Copy)]
pub(super) struct Memo {
    place: KeyLocation,
    hash: u64,
    slot: Slot,
}

impl Txn<'_> {
    /// Returns the slot of a key, whether it has expired or not.
    #[inline]
    pub(crate) fn slot(&self, place: KeyLocation, key: &Key<'_>) -> Option<Slot> {
        let shard = &self.shards[place.shard];
        if let Some(memo) = self.memo
            && (memo.place, memo.hash) == (place, key.hash)
            && entry::has_key(shard, memo.slot.entry(), key.bytes)
        {
            return Some(memo.slot);
        }
        let equal = |at| entry::has_key(shard, at, key.bytes);
        self.keys_index(place).find_with_hint(shard, key.hash, key.slot_hint, equal)
    }

    pub(crate) fn remember(&mut self, place: KeyLocation, key: &Key<'_>, slot: Slot) {
        self.memo = Some(Memo { place, hash: key.hash, slot });
    }

    /// Forgets the remembered slot. Every change of an index must call this.
    pub(crate) fn forget(&mut self) {
        self.memo = None;
    }

    pub(crate) fn live(&self, place: KeyLocation, at: Ptr) -> bool {
        !entry::is_expired(&self.shards[place.shard], at, self.now)
    }

    /// Finds a key for a command that reads: counts a hit or a miss, and records the access. Does
    /// not find expired keys.
    #[inline]
    pub fn find(&mut self, db: Db, key: &Key<'_>) -> Option<Entry> {
        let place = self.place(db, key);
        let volatile = self.volatile(place.shard);
        let found = self.slot(place, key);
        let Some(slot) = found.filter(|slot| self.live(place, slot.entry())) else {
            volatile.counters.misses.add(1);
            if self.shared.lists_missed() {
                self.record_missed(place.shard, db, key.bytes);
            }
            if found.is_some() {
                self.add_lazily_expired(db, key);
            }
            return None;
        };
        volatile.counters.hits.add(1);
        self.touch_key(place, key);
        self.remember(place, key, slot);
        Some(place.entry(slot.entry(), key.hash))
    }

    /// Finds a key without side effects: records no access, counts nothing, and does not remember
    /// an expired key for deletion.
    pub fn peek(&self, db: Db, key: &Key<'_>) -> Option<Entry> {
        let place = self.place(db, key);
        let slot = self.slot(place, key).filter(|slot| self.live(place, slot.entry()))?;
        Some(place.entry(slot.entry(), key.hash))
    }

    /// Like [`Txn::find`], for EXISTS, TTL and TYPE: counts a hit or a miss and remembers an
    /// expired key for deletion, but records no access.
    pub fn look(&mut self, db: Db, key: &Key<'_>) -> Option<Entry> {
        let touches = std::mem::replace(&mut self.touches, false);
        let found = self.find(db, key);
        self.touches = touches;
        found
    }

    /// Returns the slot of a key. Deletes an expired key, and does not find it.
    #[inline]
    pub(crate) fn slot_mut(
        &mut self,
        place: KeyLocation,
        db: Db,
        key: &Key<'_>,
    ) -> Result<Option<Slot>, Error> {
        let Some(slot) = self.slot(place, key) else { return Ok(None) };
        if self.live(place, slot.entry()) {
            return Ok(Some(slot));
        }
        self.expire(place, db, key, slot)?;
        Ok(None)
    }
}
