//! Writing entries: finding, creating, replacing and removing a key's entry, whatever its type.
//!
//! These operations keep both indexes of a database (all keys; keys with an expiry time) and its
//! counters up to date.

use heap::{Ptr, View};
use structures::index::Slot;

use super::{Expire, KeyLocation};
use crate::collection::Head;
use crate::entry::{self, Value};
use crate::layout::{Counts, FIELDS, KEY_INLINE, Kind};
use crate::{Db, Error, Key, Txn, Type};

/// A key's entry as a writer found it.
#[derive(Clone, Copy)]
pub(crate) struct Old {
    pub(crate) slot: Slot,
    pub(crate) at: Ptr,
    /// Its expiry word.
    pub(crate) expiry: u64,
    pub(crate) kind: Kind,
}

/// The location of a key that does not exist. Valid until the transaction creates the key.
#[derive(Clone, Copy, Debug)]
pub struct AbsentKey(KeyLocation);

impl AbsentKey {
    pub(crate) fn place(self) -> KeyLocation {
        self.0
    }
}

impl Txn<'_> {
    /// Returns the location of a key that does not exist, for a caller that will create it; `None`
    /// if the key exists. Deletes an expired key.
    pub fn absent(&mut self, db: Db, key: &Key<'_>) -> Result<Option<AbsentKey>, Error> {
        let (place, old) = self.open(db, key)?;
        Ok(old.is_none().then_some(AbsentKey(place)))
    }

    /// Like [`Txn::open`], for a change that depends on the old value: a damaged value is an error.
    pub(crate) fn open_sound(
        &mut self,
        db: Db,
        key: &Key<'_>,
    ) -> Result<(KeyLocation, Option<Old>), Error> {
        let (place, old) = self.open(db, key)?;
        if let Some(old) = old {
            entry::sound(&self.shards[place.shard], old.at)?;
        }
        Ok((place, old))
    }

    /// Returns where a key belongs, and its entry. Deletes an expired key, and returns no entry for
    /// it.
    #[inline]
    pub(crate) fn open(
        &mut self,
        db: Db,
        key: &Key<'_>,
    ) -> Result<(KeyLocation, Option<Old>), Error> {
        key.check_len()?;
        let place = self.place(db, key);
        let Some(slot) = self.slot(place, key) else { return Ok((place, None)) };
        let old = self.old(place, slot);
        if entry::has_passed(&self.shards[place.shard], old.at, old.expiry, self.now) {
            self.expire(place, db, key, slot)?;
            return Ok((place, None));
        }
        Ok((place, Some(old)))
    }

    #[inline]
    pub(crate) fn old(&self, place: KeyLocation, slot: Slot) -> Old {
        let shard = &self.shards[place.shard];
        let at = slot.entry();
        Old { slot, at, expiry: entry::expiry_word(shard, at), kind: entry::kind(shard, at) }
    }

    /// Creates a new entry for the key, which replaces the old one.
    #[inline]
    pub(crate) fn put(
        &mut self,
        place: KeyLocation,
        key: &Key<'_>,
        old: Option<Old>,
        value: Value<'_>,
        spare: usize,
        expire: Expire,
    ) -> Result<(), Error> {
        let expiry = expire.resolve(old.map_or(0, |old| old.expiry));
        debug_assert!(
            expiry & FIELDS == 0
                || matches!(value, Value::Collection(head, _) if head.what == Type::Hash),
            "only a hash has fields that expire"
        );
        let shard = &mut self.shards[place.shard];
        if let Some(old) = old {
            shard.expect_free(old.at);
            let blob = (old.kind == Kind::Blob).then(|| entry::blob(shard, old.at));
            if let Some(blob) = blob.filter(|blob| !blob.is_large()) {
                shard.expect_free(Ptr::from_raw(blob.word()));
            }
        }
        let new = entry::create(shard, key.bytes, expiry, value, spare)?;
        self.link(place, key, old, new, expiry)?;
        match old {
            None => {}
            // The entry owns no other blocks.
            Some(Old { at, kind: Kind::Inline { .. } | Kind::Int, .. })
                if key.bytes.len() <= KEY_INLINE =>
            {
                self.shards[place.shard].free(at);
            }
            Some(old) => self.release_entry(place.shard, old.at)?,
        }
        Ok(())
    }

    /// Links `new`, whose expiry word is `expiry`, into both indexes in place of `old`.
    #[inline]
    pub(crate) fn link(
        &mut self,
        place: KeyLocation,
        key: &Key<'_>,
        old: Option<Old>,
        new: Ptr,
        expiry: u64,
    ) -> Result<(), Error> {
        self.forget();
        debug_assert!(old.is_some() || self.slot(place, key).is_none(), "a key has one entry");
        let index = self.keys_index(place);
        let hashing = &self.shared.hashing;
        let shard = &mut self.shards[place.shard];
        match old {
            Some(old) => {
                let slot = index.replace(shard, old.slot, new);
                self.remember(place, key, slot);
            }
            None => {
                let wanted = || self.shared.expected.depth(place.db);
                let rehash = |s: &_, at| entry::hash(s, at, hashing);
                index.insert_expecting(shard, key.hash, new, wanted, rehash)?;
                let counts = self.counts(place);
                self.set_counts(place, Counts { keys: counts.keys + 1, ..counts });
                let volatile = self.volatile(place.shard);
                let used_at = self.used_at();
                volatile.access.begin(place.which(key.hash), used_at, self.shared.lfu());
                let is_overwritten = std::mem::take(&mut self.is_overwritten);
                self.is_new = self.shared.lists_created() && !is_overwritten;
            }
        }
        if expiry == 0 && old.is_none_or(|old| old.expiry == 0) {
            return Ok(());
        }
        let before = old.filter(|old| old.expiry != 0).map(|old| old.at);
        self.count_fields_of(place, old.map_or(0, |old| old.expiry), expiry);
        self.link_expiry(place, key.hash, before, (expiry != 0).then_some(new))
    }

    /// Removes an entry from both indexes. With `release`, also releases it and everything that it
    /// owns.
    pub(crate) fn unlink(
        &mut self,
        place: KeyLocation,
        hash: u64,
        slot: Slot,
        release: bool,
    ) -> Result<(), Error> {
        self.forget();
        self.volatile(place.shard).access.end(place.which(hash));
        let at = slot.entry();
        // The heap keeps a reserve of space for deletes, so that a full heap can be emptied.
        self.shards[place.shard].allow_reserve(true);
        let done = self.unlink_staged(place, hash, slot, at, release);
        self.shards[place.shard].allow_reserve(false);
        done
    }

    fn unlink_staged(
        &mut self,
        place: KeyLocation,
        hash: u64,
        slot: Slot,
        at: Ptr,
        release: bool,
    ) -> Result<(), Error> {
        let index = self.keys_index(place);
        let expiry = entry::expiry_word(&self.shards[place.shard], at);
        index.remove(&mut self.shards[place.shard], slot);
        let counts = self.counts(place);
        self.set_counts(place, Counts { keys: counts.keys.wrapping_sub(1), ..counts });
        if expiry != 0 {
            self.link_expiry(place, hash, Some(at), None)?;
            self.count_fields_of(place, expiry, 0);
        }
        if release {
            self.release_entry(place.shard, at)?;
        }
        Ok(())
    }

    /// Notes whether the next key that is linked replaces one that was just deleted: it is then not
    /// listed as new.
    pub(crate) fn set_overwritten(&mut self, is_overwritten: bool) {
        self.is_overwritten = is_overwritten;
    }

    /// Returns the cell of an entry: the word from which its collection is reached.
    pub(crate) fn cell_of(&self, place: KeyLocation, old: Old) -> u64 {
        let shard = &self.shards[place.shard];
        shard.word(entry::cell(shard, old.at))
    }

    /// Updates an entry after a change of its collection: the value word, and the cell if it
    /// changed from `before` to `after`.
    pub(crate) fn change_collection(
        &mut self,
        place: KeyLocation,
        old: Old,
        head: Head,
        before: u64,
        after: u64,
    ) {
        let shard = &mut self.shards[place.shard];
        if before != after {
            debug_assert!(after != 0, "a cell of 0 reads as lost");
            let cell = entry::cell(shard, old.at);
            shard.set(cell, after);
        }
        if old.kind != Kind::Collection(head) {
            shard.set(old.at, head.encode());
        }
    }
}
