//! Writing strings.
//!
//! A short string is stored in its key's entry: an overwrite creates a new entry and swings one
//! slot of the index, except that an integer over an integer changes one word. A long string is a
//! blob: the entry stays, and its cell changes.

mod cached;
mod pinned;

pub use pinned::Pinned;

use heap::{Ptr, View};
use structures::blob::Blob;

use crate::entry::{self, Value};
use crate::error::refused;
use crate::fault_points::FaultPoint;
use crate::integer::canonical_int;
use crate::layout::{Kind, VALUE_INLINE, grown, int_cell};
use crate::txn::{KeyLocation, Old};
use crate::value::checked_len;
use crate::{Db, Entry, Error, Event, Expire, Key, Prepared, Str, Txn};

/// The operations on strings: writes, and the reads that take more than [`Txn::string`] does.
pub struct Strings<'t, 'k> {
    txn: &'t mut Txn<'k>,
}

impl<'k> Txn<'k> {
    /// Returns the string that the key holds. A string in the entry itself is verified here, a blob
    /// by the scrub.
    pub fn string<'t>(&'t self, entry: &Entry) -> Result<Str<'t>, Error> {
        let shard = &self.shards[entry.shard];
        match entry::sound(shard, entry.at)? {
            Kind::Collection(_) => Err(Error::WrongType),
            kind => Str::read_as(shard, entry.at, kind),
        }
    }

    /// Returns the operations on strings.
    #[inline]
    pub fn strings(&mut self) -> Strings<'_, 'k> {
        Strings { txn: self }
    }
}

impl<'k> Strings<'_, 'k> {
    /// Sets a large string that was written before the key's shard was locked. Counts as a use of
    /// the key.
    ///
    /// # Panics
    /// If the string was prepared for a key of another shard.
    pub fn set_prepared(
        &mut self,
        db: Db,
        key: &Key<'_>,
        prepared: Prepared<'k>,
        expire: Expire,
    ) -> Result<(), Error> {
        let (place, old) = self.txn.open(db, key)?;
        if old.is_some() {
            self.txn.touch_key(place, key);
        }
        let blob = prepared.adopt(key, &mut self.txn.shards[place.shard]);
        self.put_blob(place, key, old, blob, expire)?;
        self.txn.record_change(place.shard, db, key.bytes, Event::Written);
        Ok(())
    }
}

impl Strings<'_, '_> {
    /// Sets a string. A string that spells an integer is stored as one. Counts as a use of the key.
    #[inline]
    pub fn set(
        &mut self,
        db: Db,
        key: &Key<'_>,
        value: &[u8],
        expire: Expire,
    ) -> Result<(), Error> {
        let (place, old) = self.txn.open(db, key)?;
        if old.is_some() {
            self.txn.touch_key(place, key);
        }
        match canonical_int(value) {
            Some(int) => self.put_int(place, key, old, int, expire)?,
            None => self.put_bytes(place, key, old, value, false, expire)?,
        }
        self.txn.record_change(place.shard, db, key.bytes, Event::Written);
        Ok(())
    }

    /// Like [`Strings::set`]. Returns false, and changes nothing, if the key exists.
    pub fn set_new(
        &mut self,
        db: Db,
        key: &Key<'_>,
        value: &[u8],
        expire: Expire,
    ) -> Result<bool, Error> {
        let (place, old) = self.txn.open(db, key)?;
        if old.is_some() {
            return Ok(false);
        }
        match canonical_int(value) {
            Some(int) => self.put_int(place, key, None, int, expire)?,
            None => self.put_bytes(place, key, None, value, false, expire)?,
        }
        self.txn.record_change(place.shard, db, key.bytes, Event::Written);
        Ok(true)
    }

    /// Sets a string, which is not converted to an integer.
    pub fn set_raw(
        &mut self,
        db: Db,
        key: &Key<'_>,
        value: &[u8],
        expire: Expire,
    ) -> Result<(), Error> {
        self.set_bytes(db, key, value, false, expire)
    }

    /// Like [`Strings::set_raw`], for a string that a command put together: OBJECT ENCODING calls
    /// it "raw".
    pub fn set_built(
        &mut self,
        db: Db,
        key: &Key<'_>,
        value: &[u8],
        expire: Expire,
    ) -> Result<(), Error> {
        self.set_bytes(db, key, value, true, expire)
    }

    /// Sets an integer, in place if the old value is an integer too.
    pub fn set_int(
        &mut self,
        db: Db,
        key: &Key<'_>,
        value: i64,
        expire: Expire,
    ) -> Result<(), Error> {
        let (place, old) = self.txn.open(db, key)?;
        self.put_int(place, key, old, value, expire)?;
        self.txn.record_change(place.shard, db, key.bytes, Event::Written);
        Ok(())
    }

    fn put_int(
        &mut self,
        place: KeyLocation,
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
            Some(old)
                if old.kind == Kind::Int
                    && self.txn.has_space_for(place, old, expire.resolve(old.expiry)) =>
            {
                let shard = &mut self.txn.shards[place.shard];
                let cell = entry::cell(shard, old.at);
                shard.set(cell, word);
                self.txn.move_expiry(place, key, old, expire.resolve(old.expiry))
            }
            _ => self.txn.put(place, key, old, Value::Int(value), 0, expire),
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
        let (place, old) = self.txn.open(db, key)?;
        self.put_bytes(place, key, old, bytes, raw, expire)?;
        self.txn.record_change(place.shard, db, key.bytes, Event::Written);
        Ok(())
    }

    /// Appends to a string, or sets it if there is none. Returns the new length.
    pub fn append(&mut self, db: Db, key: &Key<'_>, bytes: &[u8]) -> Result<usize, Error> {
        let (place, old) = self.open_string(db, key)?;
        let len = match old {
            None => {
                self.set(db, key, bytes, Expire::Clear)?;
                return Ok(bytes.len());
            }
            Some(old) => self.append_to(place, key, old, bytes)?,
        };
        self.txn.record_change(place.shard, db, key.bytes, Event::Written);
        Ok(len)
    }

    fn append_to(
        &mut self,
        place: KeyLocation,
        key: &Key<'_>,
        old: Old,
        bytes: &[u8],
    ) -> Result<usize, Error> {
        let shard = &mut self.txn.shards[place.shard];
        let old_len = Str::read(shard, old.at)?.len();
        let len = checked_len(old_len, bytes.len())?;
        match old.kind {
            Kind::Blob => {
                let blob = entry::blob(shard, old.at);
                let grown = blob.append(shard, bytes).map_err(|error| refused(error, old.at))?;
                self.swing_blob(place, old, blob, grown);
            }
            Kind::Inline { crc, .. } if len <= VALUE_INLINE => {
                let end = entry::key_place(shard, old.at).body_at() + old_len;
                if end + bytes.len() <= shard.capacity(old.at) {
                    shard.append(old.at, end, bytes);
                    let sum = heap::crc32c_append(crc, bytes);
                    let crc = if FaultPoint::ChecksumWithLength.is_enabled() { sum } else { crc };
                    let word = grown(shard.word(old.at), len, crc);
                    shard.set(old.at, word);
                } else {
                    self.rewrite(place, key, Some(old), old_len, bytes)?;
                }
            }
            _ => self.rewrite(place, key, Some(old), old_len, bytes)?,
        }
        Ok(len)
    }

    /// Overwrites a string from `at` on, fills a gap with zeros, and returns the new length. Empty
    /// `bytes` change nothing.
    pub fn set_range(
        &mut self,
        db: Db,
        key: &Key<'_>,
        at: usize,
        bytes: &[u8],
    ) -> Result<usize, Error> {
        let (place, old) = self.open_string(db, key)?;
        let shard = &self.txn.shards[place.shard];
        let old_len = old.map_or(Ok(0), |old| Str::read(shard, old.at).map(|old| old.len()))?;
        if bytes.is_empty() {
            return Ok(old_len);
        }
        let len = checked_len(at, bytes.len())?.max(old_len);
        match old {
            Some(old) if old.kind == Kind::Blob => {
                let shard = &mut self.txn.shards[place.shard];
                let blob = entry::blob(shard, old.at);
                let changed = blob.set_range(shard, at as u64, bytes);
                let changed = changed.map_err(|error| refused(error, old.at))?;
                self.swing_blob(place, old, blob, changed);
            }
            _ => self.rewrite(place, key, old, at, bytes)?,
        }
        self.txn.record_change(place.shard, db, key.bytes, Event::Written);
        Ok(len)
    }

    /// Replaces a short string, or none, with a copy that has `bytes` at `at`.
    fn rewrite(
        &mut self,
        place: KeyLocation,
        key: &Key<'_>,
        old: Option<Old>,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let shard = &self.txn.shards[place.shard];
        let mut copy = old
            .map_or(Ok(Vec::new()), |old| Str::read(shard, old.at).and_then(|old| old.to_vec()))?;
        let len = copy.len().max(at + bytes.len());
        if len <= VALUE_INLINE {
            copy.resize(len, 0);
            copy[at..at + bytes.len()].copy_from_slice(bytes);
            // A string that was appended to will probably be appended to again.
            let spare = if old.is_some() { len.min(VALUE_INLINE - len) } else { 0 };
            return self.txn.put(
                place,
                key,
                old,
                Value::Inline { bytes: &copy, raw: true },
                spare,
                Expire::Keep,
            );
        }
        let shard = &mut self.txn.shards[place.shard];
        let blob = Blob::create(shard, &copy)?.set_range(shard, at as u64, bytes);
        let blob = blob.map_err(|error| refused(error, Ptr::NULL))?;
        self.txn.put(place, key, old, Value::Blob(blob), 0, Expire::Keep)
    }

    #[inline]
    pub(crate) fn put_bytes(
        &mut self,
        place: KeyLocation,
        key: &Key<'_>,
        old: Option<Old>,
        bytes: &[u8],
        raw: bool,
        expire: Expire,
    ) -> Result<(), Error> {
        if bytes.len() <= VALUE_INLINE {
            return self.txn.put(place, key, old, Value::Inline { bytes, raw }, 0, expire);
        }
        checked_len(bytes.len(), 0)?;
        let blob = Blob::create(&mut self.txn.shards[place.shard], bytes)?;
        self.put_blob(place, key, old, blob, expire)
    }

    fn put_blob(
        &mut self,
        place: KeyLocation,
        key: &Key<'_>,
        old: Option<Old>,
        blob: Blob,
        expire: Expire,
    ) -> Result<(), Error> {
        match old {
            Some(old) if old.kind == Kind::Blob => {
                let queue = self.txn.queue(place.shard);
                let shard = &mut self.txn.shards[place.shard];
                let before = entry::blob(shard, old.at);
                let cell = entry::cell(shard, old.at);
                shard.set(cell, blob.word());
                entry::release_blob(shard, queue, before)?;
                self.txn.move_expiry(place, key, old, expire.resolve(old.expiry))
            }
            _ => self.txn.put(place, key, old, Value::Blob(blob), 0, expire),
        }
    }

    fn swing_blob(&mut self, place: KeyLocation, old: Old, before: Blob, after: Blob) {
        if before != after {
            let shard = &mut self.txn.shards[place.shard];
            let cell = entry::cell(shard, old.at);
            shard.set(cell, after.word());
        }
    }

    /// Like [`Txn::open_sound`], for a change that needs a string.
    fn open_string(&mut self, db: Db, key: &Key<'_>) -> Result<(KeyLocation, Option<Old>), Error> {
        let (place, old) = self.txn.open_sound(db, key)?;
        match old.map(|old| old.kind) {
            Some(Kind::Collection(_)) => Err(Error::WrongType),
            _ => Ok((place, old)),
        }
    }
}
