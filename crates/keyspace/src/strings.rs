//! Writing strings.
//!
//! A short string is in its key's entry: overwriting makes a new entry and swings one slot of
//! the index, while an integer over an integer changes one word. A long string is a blob: the entry
//! stays and its cell changes.

use heap::Ptr;
use structures::blob::Blob;
use structures::index::Slot;

use crate::entry::{self, Value};
use crate::error::refused;
use crate::fault_points::FaultPoint;
use crate::layout::{Counts, EXPIRY_AT, FIELDS, KEY_INLINE, Kind, VALUE_INLINE, body_at, int_cell};
use crate::txn::Place;
use crate::value::canonical_int;
use crate::{Db, Error, Event, Key, Keyspace, Prepared, Str, Txn};

/// What becomes of the expiry time when a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expire {
    /// None from now on.
    Clear,
    /// As it was.
    Keep,
    /// At this unix time in milliseconds.
    At(u64),
}

impl Expire {
    fn resolve(self, old: u64) -> u64 {
        match self {
            Expire::Clear => 0,
            // No hash is left that could have fields with times.
            Expire::Keep => old & !FIELDS,
            Expire::At(at) => at,
        }
    }
}

/// A key's entry as a writer found it.
#[derive(Clone, Copy)]
pub(crate) struct Old {
    pub(crate) slot: Slot,
    pub(crate) at: Ptr,
    /// Its expiry word.
    pub(crate) expiry: u64,
    kind: Kind,
}

impl Old {
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }
}

impl<'k> Txn<'k> {
    /// Sets a large string that was written before the key's shard was locked. It counts as a use
    /// of the key.
    ///
    /// # Panics
    /// If it was prepared for a key of another shard.
    pub fn set_prepared(
        &mut self,
        db: Db,
        key: &Key<'_>,
        prepared: Prepared<'k>,
        expire: Expire,
    ) -> Result<(), Error> {
        let (place, old) = self.open(db, key)?;
        if old.is_some() {
            self.touch_key(place, key);
        }
        let blob = prepared.adopt(key, &mut self.shards[place.shard]);
        self.put_blob(place, key, old, blob, expire)?;
        self.note(place.shard, db, key.bytes, Event::Written);
        Ok(())
    }
}

impl Txn<'_> {
    /// Sets a string; one that reads as an integer is kept as one. It counts as a use of the key.
    #[inline]
    pub fn set(
        &mut self,
        db: Db,
        key: &Key<'_>,
        value: &[u8],
        expire: Expire,
    ) -> Result<(), Error> {
        let (place, old) = self.open(db, key)?;
        if old.is_some() {
            self.touch_key(place, key);
        }
        match canonical_int(value) {
            Some(int) => self.put_int(place, key, old, int, expire)?,
            None => self.put_bytes(place, key, old, value, false, expire)?,
        }
        self.note(place.shard, db, key.bytes, Event::Written);
        Ok(())
    }

    /// Sets a string, kept as it is.
    pub fn set_raw(
        &mut self,
        db: Db,
        key: &Key<'_>,
        value: &[u8],
        expire: Expire,
    ) -> Result<(), Error> {
        self.set_bytes(db, key, value, false, expire)
    }

    /// Sets a string that a command put together, which OBJECT ENCODING calls "raw".
    pub fn set_built(
        &mut self,
        db: Db,
        key: &Key<'_>,
        value: &[u8],
        expire: Expire,
    ) -> Result<(), Error> {
        self.set_bytes(db, key, value, true, expire)
    }

    /// Sets an integer, in place where the value is one already.
    pub fn set_int(
        &mut self,
        db: Db,
        key: &Key<'_>,
        value: i64,
        expire: Expire,
    ) -> Result<(), Error> {
        let (place, old) = self.open(db, key)?;
        self.put_int(place, key, old, value, expire)?;
        self.note(place.shard, db, key.bytes, Event::Written);
        Ok(())
    }

    fn put_int(
        &mut self,
        place: Place,
        key: &Key<'_>,
        old: Option<Old>,
        value: i64,
        expire: Expire,
    ) -> Result<(), Error> {
        let Some(word) = int_cell(value) else {
            let text = itoa::Buffer::new().format(value).to_owned();
            return self.put_bytes(place, key, old, text.as_bytes(), false, expire);
        };
        match old {
            Some(old) if old.kind == Kind::Int => {
                let shard = &mut self.shards[place.shard];
                let cell = entry::cell(shard, old.at);
                shard.set(cell, word);
                self.move_expiry(place, key, old, expire.resolve(old.expiry))
            }
            _ => self.put(place, key, old, Value::Int(value), 0, expire),
        }
    }

    #[inline]
    fn set_bytes(
        &mut self,
        db: Db,
        key: &Key<'_>,
        bytes: &[u8],
        raw: bool,
        expire: Expire,
    ) -> Result<(), Error> {
        let (place, old) = self.open(db, key)?;
        self.put_bytes(place, key, old, bytes, raw, expire)?;
        self.note(place.shard, db, key.bytes, Event::Written);
        Ok(())
    }

    /// Appends (or sets) and returns the new length.
    pub fn append(&mut self, db: Db, key: &Key<'_>, bytes: &[u8]) -> Result<usize, Error> {
        let (place, old) = self.open_string(db, key)?;
        let len = match old {
            None => {
                self.set(db, key, bytes, Expire::Clear)?;
                return Ok(bytes.len());
            }
            Some(old) => self.append_to(place, key, old, bytes)?,
        };
        self.note(place.shard, db, key.bytes, Event::Written);
        Ok(len)
    }

    fn append_to(
        &mut self,
        place: Place,
        key: &Key<'_>,
        old: Old,
        bytes: &[u8],
    ) -> Result<usize, Error> {
        let shard = &mut self.shards[place.shard];
        let old_len = Str::read(shard, old.at)?.len();
        let len = checked_len(old_len, bytes.len())?;
        match old.kind {
            Kind::Blob => {
                let blob = entry::blob(shard, old.at);
                let grown = blob.append(shard, bytes).map_err(|error| refused(error, old.at))?;
                self.swing_blob(place, old, blob, grown);
            }
            Kind::Inline { crc, .. } if len <= VALUE_INLINE => {
                let end = body_at(key.bytes.len()) + old_len;
                if end + bytes.len() <= shard.capacity(old.at) {
                    shard.append(old.at, end, bytes);
                    let sum = heap::crc32c_append(crc, bytes);
                    let crc = if FaultPoint::ChecksumWithLength.is_enabled() { sum } else { crc };
                    shard.set(old.at, Kind::Inline { raw: true, len, crc }.encode());
                } else {
                    self.rewrite(place, key, Some(old), old_len, bytes)?;
                }
            }
            _ => self.rewrite(place, key, Some(old), old_len, bytes)?,
        }
        Ok(len)
    }

    /// Overwrites from `at`, with zeros in a gap, and returns the new length. Empty `bytes` change
    /// nothing.
    pub fn set_range(
        &mut self,
        db: Db,
        key: &Key<'_>,
        at: usize,
        bytes: &[u8],
    ) -> Result<usize, Error> {
        let (place, old) = self.open_string(db, key)?;
        let shard = &self.shards[place.shard];
        let old_len = old.map_or(Ok(0), |old| Str::read(shard, old.at).map(|old| old.len()))?;
        if bytes.is_empty() {
            return Ok(old_len);
        }
        let len = checked_len(at, bytes.len())?.max(old_len);
        match old {
            Some(old) if old.kind == Kind::Blob => {
                let shard = &mut self.shards[place.shard];
                let blob = entry::blob(shard, old.at);
                let changed = blob.set_range(shard, at as u64, bytes);
                let changed = changed.map_err(|error| refused(error, old.at))?;
                self.swing_blob(place, old, blob, changed);
            }
            _ => self.rewrite(place, key, old, at, bytes)?,
        }
        self.note(place.shard, db, key.bytes, Event::Written);
        Ok(len)
    }

    /// Writes `bytes` at `at` into a copy of a short string (or of none).
    fn rewrite(
        &mut self,
        place: Place,
        key: &Key<'_>,
        old: Option<Old>,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let shard = &self.shards[place.shard];
        let mut copy = old
            .map_or(Ok(Vec::new()), |old| Str::read(shard, old.at).and_then(|old| old.to_vec()))?;
        let len = copy.len().max(at + bytes.len());
        if len <= VALUE_INLINE {
            copy.resize(len, 0);
            copy[at..at + bytes.len()].copy_from_slice(bytes);
            // Who appended once will append again.
            let spare = if old.is_some() { len.min(VALUE_INLINE - len) } else { 0 };
            return self.put(
                place,
                key,
                old,
                Value::Inline { bytes: &copy, raw: true },
                spare,
                Expire::Keep,
            );
        }
        let shard = &mut self.shards[place.shard];
        let blob = Blob::create(shard, &copy)?.set_range(shard, at as u64, bytes);
        let blob = blob.map_err(|error| refused(error, Ptr::NULL))?;
        self.put(place, key, old, Value::Blob(blob), 0, Expire::Keep)
    }

    #[inline]
    fn put_bytes(
        &mut self,
        place: Place,
        key: &Key<'_>,
        old: Option<Old>,
        bytes: &[u8],
        raw: bool,
        expire: Expire,
    ) -> Result<(), Error> {
        if bytes.len() <= VALUE_INLINE {
            return self.put(place, key, old, Value::Inline { bytes, raw }, 0, expire);
        }
        checked_len(bytes.len(), 0)?;
        let blob = Blob::create(&mut self.shards[place.shard], bytes)?;
        self.put_blob(place, key, old, blob, expire)
    }

    fn put_blob(
        &mut self,
        place: Place,
        key: &Key<'_>,
        old: Option<Old>,
        blob: Blob,
        expire: Expire,
    ) -> Result<(), Error> {
        match old {
            Some(old) if old.kind == Kind::Blob => {
                let queue = self.queue(place.shard);
                let shard = &mut self.shards[place.shard];
                let before = entry::blob(shard, old.at);
                let cell = entry::cell(shard, old.at);
                shard.set(cell, blob.word());
                entry::release_blob(shard, queue, before)?;
                self.move_expiry(place, key, old, expire.resolve(old.expiry))
            }
            _ => self.put(place, key, old, Value::Blob(blob), 0, expire),
        }
    }

    fn swing_blob(&mut self, place: Place, old: Old, before: Blob, after: Blob) {
        if before != after {
            let shard = &mut self.shards[place.shard];
            let cell = entry::cell(shard, old.at);
            shard.set(cell, after.word());
        }
    }

    /// As [`Txn::open`], for a change that needs the value as it is.
    pub(crate) fn open_sound(
        &mut self,
        db: Db,
        key: &Key<'_>,
    ) -> Result<(Place, Option<Old>), Error> {
        let (place, old) = self.open(db, key)?;
        if let Some(old) = old {
            entry::sound(&self.shards[place.shard], old.at)?;
        }
        Ok((place, old))
    }

    /// As [`Txn::open_sound`], for a change that needs a string.
    fn open_string(&mut self, db: Db, key: &Key<'_>) -> Result<(Place, Option<Old>), Error> {
        let (place, old) = self.open_sound(db, key)?;
        match old.map(|old| old.kind) {
            Some(Kind::Collection(_)) => Err(Error::WrongType),
            _ => Ok((place, old)),
        }
    }

    /// Where a key belongs, and its entry; one that has expired is deleted.
    #[inline]
    pub(crate) fn open(&mut self, db: Db, key: &Key<'_>) -> Result<(Place, Option<Old>), Error> {
        if key.bytes.len() > Keyspace::MAX_KEY {
            return Err(Error::KeyTooLong);
        }
        let place = self.place(db, key);
        let Some(slot) = self.slot(place, key) else { return Ok((place, None)) };
        let old = self.old(place, slot);
        if old.expiry != 0 && !self.live(place, old.at) {
            self.expire(place, db, key, slot)?;
            return Ok((place, None));
        }
        Ok((place, Some(old)))
    }

    #[inline]
    pub(crate) fn old(&self, place: Place, slot: Slot) -> Old {
        let shard = &self.shards[place.shard];
        let at = slot.entry();
        Old { slot, at, expiry: entry::expiry_word(shard, at), kind: entry::kind(shard, at) }
    }

    /// Makes a new entry for the key, in place of the old one.
    #[inline]
    pub(crate) fn put(
        &mut self,
        place: Place,
        key: &Key<'_>,
        old: Option<Old>,
        value: Value<'_>,
        spare: usize,
        expire: Expire,
    ) -> Result<(), Error> {
        let expiry = expire.resolve(old.map_or(0, |old| old.expiry));
        let shard = &mut self.shards[place.shard];
        if let Some(old) = old {
            shard.expect_free(old.at);
        }
        let new = entry::create(shard, key.bytes, expiry, value, spare)?;
        self.link(place, key, old, new, expiry)?;
        match old {
            None => {}
            // It owns nothing.
            Some(Old { at, kind: Kind::Inline { .. } | Kind::Int, .. })
                if key.bytes.len() <= KEY_INLINE =>
            {
                self.shards[place.shard].free(at);
            }
            Some(old) => {
                let queue = self.queue(place.shard);
                entry::release(&mut self.shards[place.shard], queue, old.at)?;
            }
        }
        Ok(())
    }

    /// Makes both indexes lead to `new`, whose expiry word says `expiry`, where they led to `old`.
    #[inline]
    pub(crate) fn link(
        &mut self,
        place: Place,
        key: &Key<'_>,
        old: Option<Old>,
        new: Ptr,
        expiry: u64,
    ) -> Result<(), Error> {
        self.forget();
        let index = self.keys_index(place);
        let hashing = &self.keyspace.hashing;
        let shard = &mut self.shards[place.shard];
        match old {
            Some(old) => {
                let slot = index.replace(shard, old.slot, new);
                self.remember(place, key, slot);
            }
            None => {
                index.insert(shard, key.hash, new, |s, at| entry::hash(s, at, hashing))?;
                let counts = self.counts(place);
                self.set_counts(place, Counts { keys: counts.keys + 1, ..counts });
                let side = self.side(place.shard);
                side.access.begin(place.which(key.hash), self.now(), self.keyspace.lfu());
            }
        }
        if expiry == 0 && old.is_none_or(|old| old.expiry == 0) {
            return Ok(());
        }
        let before = old.filter(|old| old.expiry != 0).map(|old| old.at);
        self.count_fields_of(place, old.map_or(0, |old| old.expiry), expiry);
        self.link_expiry(place, key.hash, before, (expiry != 0).then_some(new))
    }

    /// Changes the expiry word of an entry that stays, and its place in the index of expiry times.
    pub(crate) fn move_expiry(
        &mut self,
        place: Place,
        key: &Key<'_>,
        old: Old,
        expiry: u64,
    ) -> Result<(), Error> {
        if expiry == old.expiry {
            return Ok(());
        }
        self.shards[place.shard].set(old.at.add(EXPIRY_AT), expiry);
        let before = (old.expiry != 0).then_some(old.at);
        self.count_fields_of(place, old.expiry, expiry);
        self.link_expiry(place, key.hash, before, (expiry != 0).then_some(old.at))
    }

    /// Makes the index of expiry times lead to `after` where it led to `before`.
    #[inline]
    pub(crate) fn link_expiry(
        &mut self,
        place: Place,
        hash: u64,
        before: Option<Ptr>,
        after: Option<Ptr>,
    ) -> Result<(), Error> {
        if before == after {
            return Ok(());
        }
        let index = self.expiry_index(place);
        let hashing = &self.keyspace.hashing;
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
}

pub(crate) fn checked_len(a: usize, b: usize) -> Result<usize, Error> {
    a.checked_add(b).filter(|&len| len <= Keyspace::MAX_STRING).ok_or(Error::TooLong)
}
