//! Finding a key's entry, and what an entry says.

use heap::{Ptr, View};
use structures::index::Slot;

use super::{Entry, KeyLocation, Txn};
use crate::layout::Kind;
use crate::types::{Encoding, Type};
use crate::value::{self, Str};
use crate::{Db, Error, Key, collection, entry};

/// The key looked up last: commands look a key up, then write it.
#[derive(Clone, Copy)]
pub(super) struct Memo {
    place: KeyLocation,
    hash: u64,
    slot: Slot,
}

impl Txn<'_> {
    /// Returns the slot of a key, expired or not.
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

    /// Forgets what was found; to be called by whatever changes an index.
    pub(crate) fn forget(&mut self) {
        self.memo = None;
    }

    pub(crate) fn live(&self, place: KeyLocation, at: Ptr) -> bool {
        !entry::is_expired(&self.shards[place.shard], at, self.now)
    }

    /// Finds a key for a command that reads: counts a hit or a miss, notes the access. Expired keys
    /// are not found.
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

    /// Finds a key without a trace: no access is recorded, nothing is counted, and an expired key
    /// stays.
    pub fn peek(&self, db: Db, key: &Key<'_>) -> Option<Entry> {
        let place = self.place(db, key);
        let slot = self.slot(place, key).filter(|slot| self.live(place, slot.entry()))?;
        Some(place.entry(slot.entry(), key.hash))
    }

    /// Finds a key as [`Txn::find`] does, for EXISTS, TTL, TYPE: counts a hit or a miss and
    /// remembers an expired key to be deleted, but records no access.
    pub fn look(&mut self, db: Db, key: &Key<'_>) -> Option<Entry> {
        let touches = std::mem::replace(&mut self.touches, false);
        let found = self.find(db, key);
        self.touches = touches;
        found
    }

    /// Returns the slot of a key; an expired key is deleted.
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

    /// Returns the type of the value.
    pub fn type_of(&self, entry: &Entry) -> Type {
        match entry::kind(&self.shards[entry.shard], entry.at) {
            Kind::Collection(head) => head.what,
            _ => Type::String,
        }
    }

    /// Returns how the value is kept.
    pub fn encoding(&self, entry: &Entry) -> Encoding {
        value::encoding(&self.shards[entry.shard], entry.at)
    }

    /// Returns when the key expires, in unix ms.
    pub fn expiry(&self, entry: &Entry) -> Option<u64> {
        Some(entry::expiry(&self.shards[entry.shard], entry.at)).filter(|&at| at != 0)
    }

    /// Returns the string that the key holds. A short one is verified; a blob is by the scrub.
    pub fn string<'t>(&'t self, entry: &Entry) -> Result<Str<'t>, Error> {
        let shard = &self.shards[entry.shard];
        match entry::sound(shard, entry.at)? {
            Kind::Collection(_) => Err(Error::WrongType),
            kind => Str::read_as(shard, entry.at, kind),
        }
    }

    /// Bytes of the heap that key, value and index take.
    pub fn memory(&self, entry: &Entry) -> u64 {
        let shard = &self.shards[entry.shard];
        let mut bytes = shard.capacity(entry.at) as u64 + collection::INDEX_COST;
        match entry::kind(shard, entry.at) {
            Kind::Collection(head) => {
                let word = shard.word(entry::cell(shard, entry.at));
                bytes += collection::memory(shard, head, word);
            }
            _ => entry::owned(shard, entry.at, |block| bytes += shard.capacity(block) as u64),
        }
        bytes
    }
}
