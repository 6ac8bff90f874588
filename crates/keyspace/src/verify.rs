//! Verifies that the bytes of one entry are those that were written.
//!
//! Key, inline string and blobs have checksums; the key and the string of a short entry have one in
//! common. The words that the log changes (value word, expiry time, an integer's cell) have none,
//! but damage to them is more often than not detectable, because the result is invalid. An entry
//! that was found to be damaged is *marked*: its value word gets a tag that no value has, so that
//! every later read of the key is refused, also after the pool is reopened.

use std::borrow::Cow;

use heap::{Ptr, View};
use structures::index::Near;

use crate::collection::{self, Deep};
use crate::entry;
use crate::key::{Hashing, Key, MAX_KEY, slot};
use crate::known_damage::FOUND_BEFORE;
use crate::layout::{
    EXPIRY_AT, FIELDS, HEADER, KEY_INLINE, KEY_LEN_AT, KeyPlace, Kind, is_marked, key_word,
};
use crate::short::{Short, key_checksum};

/// Names the damage of an entry whose one checksum, of key and value together, is wrong.
const KEY_OR_VALUE: &str = "key or value";

/// The damage of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) what: &'static str,
    /// Byte offset in the pool of the damaged part.
    pub(crate) at: u64,
}

/// The result of verifying an entry.
pub(crate) struct Seen<'v> {
    /// The key, if its bytes are those that were written.
    pub(crate) key: Option<Cow<'v, [u8]>>,
    /// The bytes of the key, if only a checksum of key and value together could tell whether they
    /// are those that were written, and that checksum is wrong.
    pub(crate) doubtful_key: Option<Cow<'v, [u8]>>,
    pub(crate) expires: bool,
    pub(crate) fault: Option<Fault>,
}

impl<'v> Seen<'v> {
    /// Returns the same result without a borrow of the view.
    pub(crate) fn owned(self) -> Seen<'static> {
        let owned = |key: Option<Cow<'v, [u8]>>| key.map(|key| Cow::Owned(key.into_owned()));
        Seen {
            key: owned(self.key),
            doubtful_key: owned(self.doubtful_key),
            expires: self.expires,
            fault: self.fault,
        }
    }

    /// Discards the name of a damaged entry if it contradicts the slot that leads to the entry, or
    /// if it is empty, which is also what zeros read as. A doubtful name that fits the slot is
    /// believed: one in 65536 wrong ones does at most.
    pub(crate) fn by(mut self, near: Near, hashing: &Hashing) -> Seen<'v> {
        if self.fault.is_none() {
            return self;
        }
        let fits = |key: &Cow<'_, [u8]>| !key.is_empty() && near.fits(hashing.hash(key));
        let key = self.key.take().or(self.doubtful_key.take()).filter(fits);
        self.named(key)
    }

    /// Names the damaged part of an entry whose key is known to be this one, or is lost.
    pub(crate) fn named(mut self, key: Option<Cow<'v, [u8]>>) -> Seen<'v> {
        if let Some(fault) = self.fault.as_mut().filter(|fault| fault.what == KEY_OR_VALUE) {
            fault.what = if key.is_some() { "value" } else { "key" };
            fault.at += key.as_ref().map_or(0, |key| key.len() as u64);
        }
        Seen { key, doubtful_key: None, ..self }
    }

    /// Returns true if the name fits the slot that leads to the entry.
    pub(crate) fn fits(&self, near: Near, hashing: &Hashing) -> bool {
        let key = self.key.as_ref().or(self.doubtful_key.as_ref());
        key.is_some_and(|key| near.fits(hashing.hash(key)))
    }

    /// Takes the bytes of the key, doubtful or not.
    pub(crate) fn readable_key(&mut self) -> Option<Cow<'v, [u8]>> {
        self.key.take().or_else(|| self.doubtful_key.take())
    }
}

/// Returns the hash of a sound key, and its shard.
pub(crate) fn place(key: &[u8], hashing: &Hashing, shards: usize) -> (u64, usize) {
    let key = Key::new(key, hashing, shards);
    (key.hash, key.shard())
}

/// Returns the shard of a sound key.
pub(crate) fn shard(key: &[u8], shards: usize) -> usize {
    usize::from(slot(key)) % shards
}

/// Verifies the entry at `at`, whose block holds `capacity` bytes. Large values are verified only
/// if `deep` is given, which says how.
pub(crate) fn entry<'v, V: View>(
    view: &'v V,
    at: Ptr,
    capacity: usize,
    deep: Option<Deep<'_>>,
) -> Seen<'v> {
    let expires = entry::expiry_word(view, at) != 0;
    let named = match Short::decode(view.word(at)) {
        Some(layout) => return short(view, at, capacity, layout, expires),
        None => key(view, at, capacity),
    };
    let (key, fault) = match named {
        Ok(key) => (Some(key), value(view, at, capacity, deep).err()),
        Err(fault) => (None, Some(fault)),
    };
    Seen { key, doubtful_key: None, expires, fault }
}

/// Returns the key of a block if its bytes look like those of an entry. The block may contain
/// anything.
pub(crate) fn intact_key<V: View>(view: &V, at: Ptr, capacity: usize) -> Option<Cow<'_, [u8]>> {
    let word = view.word(at);
    Kind::decode(word)?;
    match Short::decode(word) {
        Some(layout) => short(view, at, capacity, layout, false).key,
        // What leads to the blob of a very long key may be anything, too.
        None if entry::key_place(view, at).len > KEY_INLINE => None,
        None => key(view, at, capacity).ok(),
    }
}

/// Verifies a short entry.
fn short<V: View>(view: &V, at: Ptr, capacity: usize, layout: Short, expires: bool) -> Seen<'_> {
    let place = KeyPlace { at: layout.key_at(), len: layout.key_len };
    let word = view.word(at);
    if place.body_at() > capacity {
        let fault = Some(fault("key length", at));
        return Seen { key: None, doubtful_key: None, expires, fault };
    }
    let key = entry::key(view, at);
    let checksum = match Kind::decode(word) {
        Some(_) if entry::size(view, at) > capacity => None,
        Some(Kind::Inline { len, .. }) => {
            Some(heap::crc32c_append(key_checksum(&key), entry::body(view, at, len)))
        }
        Some(_) => Some(key_checksum(&key)),
        None => None,
    };
    let fault = match checksum {
        None if is_marked(word) => fault(FOUND_BEFORE, at),
        None => fault("value word", at),
        Some(checksum) if checksum != (word >> 32) as u32 => {
            fault(KEY_OR_VALUE, at.add(place.at as u64))
        }
        Some(_) => {
            let is_lost =
                Kind::decode(word) == Some(Kind::Int) && view.word(entry::cell(view, at)) == 0;
            let fault = is_lost.then(|| fault("value", entry::cell(view, at)));
            return Seen { key: Some(key), doubtful_key: None, expires, fault };
        }
    };
    Seen { key: None, doubtful_key: Some(key), expires, fault: Some(fault) }
}

fn fault(what: &'static str, at: Ptr) -> Fault {
    Fault { what, at: at.raw() }
}

fn key<V: View>(view: &V, at: Ptr, capacity: usize) -> Result<Cow<'_, [u8]>, Fault> {
    let place = KeyPlace { at: HEADER, len: view.word(at.add(KEY_LEN_AT)) as u32 as usize };
    let len = place.len;
    if place.body_at() > capacity || len > MAX_KEY {
        return Err(fault("key length", at.add(KEY_LEN_AT)));
    }
    if len > KEY_INLINE {
        let blob = entry::key_blob(view, at).unwrap_or_default();
        blob.check(view).map_err(|damaged| Fault { what: "key", at: damaged.at })?;
    }
    let key = entry::key(view, at);
    if view.word(at.add(KEY_LEN_AT)) != key_word(&key) {
        return Err(fault("key", at.add(HEADER as u64)));
    }
    Ok(key)
}

fn value<V: View>(view: &V, at: Ptr, capacity: usize, deep: Option<Deep<'_>>) -> Result<(), Fault> {
    let word = view.word(at);
    let place = entry::key_place(view, at);
    match Kind::decode(word) {
        None if is_marked(word) => Err(fault(FOUND_BEFORE, at)),
        None => Err(fault("value word", at)),
        Some(Kind::Inline { len: bytes, crc, .. }) => {
            let begin = place.body_at();
            if begin + bytes > capacity {
                return Err(fault("value word", at));
            }
            if entry::body_is_sound(view, at, bytes, crc) {
                return Ok(());
            }
            Err(fault("value", at.add(begin as u64)))
        }
        Some(_) if place.cell_at() + 8 > capacity => Err(fault("value word", at)),
        Some(_) if view.word(entry::cell(view, at)) == 0 => {
            Err(fault("value", entry::cell(view, at)))
        }
        Some(Kind::Int) => Ok(()),
        Some(Kind::Blob) => {
            let blob = entry::blob(view, at);
            if blob.is_large() && deep.is_none() {
                return Ok(());
            }
            blob.check(view).map_err(|damaged| Fault { what: "value", at: damaged.at })
        }
        Some(Kind::Collection(head)) => {
            let word = view.word(entry::cell(view, at));
            collection::check(view, head, word, deep)
                .map_err(|damaged| Fault { what: damaged.what, at: damaged.at })?;
            let says = entry::expiry_word(view, at) & FIELDS != 0;
            if says == collection::has_ttls(view, head, word) {
                return Ok(());
            }
            Err(fault("times of fields", at.add(EXPIRY_AT)))
        }
    }
}

/// Returns true if the lost bytes `[from, to)` overlap the used bytes of an entry in a block of
/// `capacity` bytes.
pub(crate) fn meets<V: View>(view: &V, at: Ptr, capacity: usize, from: u64, to: u64) -> bool {
    let used = entry::size(view, at).clamp(EXPIRY_AT as usize, capacity) as u64;
    // If the header is lost, the length of the entry is unknown.
    let header_is_lost = from < at.raw() + entry::key_place(view, at).at as u64;
    let end = at.raw() + if header_is_lost { capacity as u64 } else { used };
    from < end && to > at.raw()
}
