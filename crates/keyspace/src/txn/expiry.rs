//! Expiry times of keys: an entry's expiry word, and the index of the keys that have one.
//!
//! An expired key is deleted when a writer opens it ([`Txn::expire`]), after a reader met it
//! (`lazy`), or by the active expiry in the background (`crate::expiry`).

use heap::{Ptr, View};
use structures::dict::Dict;
use structures::index::Slot;

use super::{KeyLocation, Old};
use crate::collection::{self, Layout};
use crate::entry;
use crate::held::Held;
use crate::layout::{Counts, FIELDS, FieldCounts, Kind, marked};
use crate::verify::{self, Fault};
use crate::{DamagedKey, Db, Error, Event, Key, Txn, Type};

/// The effect of a write of a value on its key's expiry time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expire {
    /// The key loses it.
    Clear,
    /// It stays as it was.
    Keep,
    /// It becomes this unix time in milliseconds.
    At(u64),
}

impl Expire {
    pub(crate) fn resolve(self, old: u64) -> u64 {
        match self {
            Expire::Clear => 0,
            // The new value is not a hash with field expiration.
            Expire::Keep => old & !FIELDS,
            Expire::At(at) => at,
        }
    }
}

impl Txn<'_> {
    /// Changes the expiry word of an entry, and adds the entry to the index of expiry times or
    /// removes it from there as needed. The word changes in place; an entry without one is replaced
    /// by a copy with it.
    pub(crate) fn move_expiry(
        &mut self,
        place: KeyLocation,
        key: &Key<'_>,
        old: Old,
        expiry: u64,
    ) -> Result<(), Error> {
        if expiry == old.expiry {
            return Ok(());
        }
        debug_assert!(
            expiry & !old.expiry & FIELDS == 0
                || matches!(old.kind, Kind::Collection(head) if head.what == Type::Hash),
            "only a hash has fields that expire"
        );
        let Some(word) = entry::expiry_place(&self.shards[place.shard], old.at) else {
            return self.copy_with_expiry(place, key, old, expiry);
        };
        self.shards[place.shard].set(word, expiry);
        let before = (old.expiry != 0).then_some(old.at);
        self.count_fields_of(place, old.expiry, expiry);
        self.link_expiry(place, key.hash, before, (expiry != 0).then_some(old.at))
    }

    /// Replaces an entry by a copy that has a word for the expiry time. The copy has a checksum of
    /// its own, which is right: damaged bytes are not copied, and the copy is marked as damaged.
    fn copy_with_expiry(
        &mut self,
        place: KeyLocation,
        key: &Key<'_>,
        old: Old,
        expiry: u64,
    ) -> Result<(), Error> {
        let is_sound = entry::sound(&self.shards[place.shard], old.at).is_ok();
        if !is_sound {
            self.remember_damage(place, key, old);
        }
        let held = match is_sound {
            true => Held::read(&self.shards[place.shard], old.at),
            false => Held::Int(0),
        };
        self.put(place, key, Some(old), held.value(), 0, Expire::At(expiry))?;
        if !is_sound && let Some(slot) = self.slot(place, key) {
            let shard = &mut self.shards[place.shard];
            let word = shard.word(slot.entry());
            shard.set(slot.entry(), marked(word));
        }
        Ok(())
    }

    /// Remembers that the value of a key is damaged: nothing else will show it any more.
    fn remember_damage(&self, place: KeyLocation, key: &Key<'_>, old: Old) {
        let shard = &self.shards[place.shard];
        let seen = verify::entry(shard, old.at, shard.capacity(old.at), None);
        let fault = seen.named(Some(key.bytes.into())).fault;
        let fault = fault.unwrap_or(Fault { what: "value", at: old.at.raw() });
        self.shared.damage.remember(DamagedKey {
            shard: shard.id(),
            db: self.shared.logical_of(place.db),
            key: Some(key.bytes.to_vec()),
            entry: old.at.raw(),
            what: fault.what,
            at: fault.at,
            hash: key.hash,
            bits: 64,
        });
    }

    /// Returns true if an entry's expiry word can become `expiry` without a copy of the entry.
    pub(crate) fn has_space_for(&self, place: KeyLocation, old: Old, expiry: u64) -> bool {
        expiry == old.expiry || entry::expiry_place(&self.shards[place.shard], old.at).is_some()
    }

    /// Replaces `before` with `after` in the index of expiry times; `None` stands for no entry.
    #[inline]
    pub(super) fn link_expiry(
        &mut self,
        place: KeyLocation,
        hash: u64,
        before: Option<Ptr>,
        after: Option<Ptr>,
    ) -> Result<(), Error> {
        if before == after {
            return Ok(());
        }
        let index = self.expiry_index(place);
        let hashing = &self.shared.hashing;
        let shard = &mut self.shards[place.shard];
        let slot = before.and_then(|old| index.find(shard, hash, |at| at == old));
        let change: i32 = match (slot, after) {
            (Some(slot), Some(new)) => {
                index.replace(shard, slot, new);
                0
            }
            (Some(slot), None) => {
                index.remove(shard, slot);
                -1
            }
            (None, Some(new)) => {
                index.insert(shard, hash, new, |s, at| entry::hash(s, at, hashing))?;
                1
            }
            (None, None) => 0,
        };
        if change != 0 {
            let counts = self.counts(place);
            let expiring = counts.expiring.wrapping_add_signed(change);
            self.set_counts(place, Counts { expiring, ..counts });
        }
        Ok(())
    }

    /// Updates the counts of hashes with field expiration for an entry whose expiry word changes
    /// (0: the entry is absent, or has no times).
    #[inline]
    pub(super) fn count_fields_of(&mut self, place: KeyLocation, before: u64, after: u64) {
        if (before | after) & FIELDS != 0 {
            let counts = self.field_counts(place).plus(FieldCounts::of(after));
            self.set_field_counts(place, counts.minus(FieldCounts::of(before)));
        }
    }

    /// Deletes a key that has expired, or of which all fields have.
    #[cold]
    pub(super) fn expire(
        &mut self,
        place: KeyLocation,
        db: Db,
        key: &Key<'_>,
        slot: Slot,
    ) -> Result<(), Error> {
        self.count_expired_fields(place, slot.entry());
        self.unlink(place, key.hash, slot, true)?;
        self.record_change(place.shard, db, key.bytes, Event::Expired);
        Ok(())
    }

    /// Returns true if an entry is a hash with expired fields.
    pub(crate) fn has_expired_fields(&self, place: KeyLocation, at: Ptr) -> bool {
        let shard = &self.shards[place.shard];
        if entry::expiry_word(shard, at) & FIELDS == 0 {
            return false;
        }
        let Kind::Collection(head) = entry::kind(shard, at) else { return false };
        collection::has_expired_fields(shard, head, shard.word(entry::cell(shard, at)), self.now())
    }

    /// Counts the fields of a hash as expired if the hash is deleted because all of them are.
    pub(super) fn count_expired_fields(&self, place: KeyLocation, at: Ptr) {
        let shard = &self.shards[place.shard];
        if entry::expiry_word(shard, at) & FIELDS == 0 {
            return;
        }
        let Kind::Collection(head) = entry::kind(shard, at) else { return };
        let word = shard.word(entry::cell(shard, at));
        if collection::all_fields_expired(shard, head, word, self.now()) {
            let fields = match head.layout {
                Layout::HashTable => Dict::at(Ptr::from_raw(word)).len(shard),
                _ => u64::from(head.count),
            };
            self.volatile(place.shard).counters.expired_fields.add(fields);
        }
    }
}
