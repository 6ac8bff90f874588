//! Verifies that the bytes of one entry are those that were written.
//!
//! Key, inline string and blobs have checksums. The words that the log changes (value word, expiry
//! time, an integer's cell) have none, but damage to them is more often than not detectable,
//! because the result is invalid. An entry that was found to be damaged is *marked*: its value word
//! gets a tag that no value has, so that every later read of the key is refused, also after the
//! pool is reopened.

use std::borrow::Cow;

use heap::{Ptr, View};
use structures::index::Near;

use crate::collection::{self, Deep};
use crate::entry;
use crate::key::{Hashing, Key, MAX_KEY, slot};
use crate::layout::{
    EXPIRY_AT, FIELDS, HEADER, KEY_INLINE, KEY_LEN_AT, Kind, body_at, cell_at, is_marked, key_word,
};

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
    pub(crate) expires: bool,
    pub(crate) fault: Option<Fault>,
}

impl<'v> Seen<'v> {
    /// Returns the same result without a borrow of the view.
    pub(crate) fn owned(self) -> Seen<'static> {
        Seen {
            key: self.key.map(|key| Cow::Owned(key.into_owned())),
            expires: self.expires,
            fault: self.fault,
        }
    }

    /// Discards the name of a damaged entry if it contradicts the slot that leads to the entry, or
    /// if it is empty, which is also what zeros read as.
    pub(crate) fn by(mut self, near: Near, hashing: &Hashing) -> Seen<'v> {
        let is_doubtful = |key: &Cow<'_, [u8]>| key.is_empty() || !near.fits(hashing.hash(key));
        if self.fault.is_some() && self.key.as_ref().is_some_and(is_doubtful) {
            self.key = None;
        }
        self
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
    match key(view, at, capacity) {
        Ok(key) => Seen { key: Some(key), expires, fault: value(view, at, capacity, deep).err() },
        Err(fault) => Seen { key: None, expires, fault: Some(fault) },
    }
}

fn fault(what: &'static str, at: Ptr) -> Fault {
    Fault { what, at: at.raw() }
}

fn key<V: View>(view: &V, at: Ptr, capacity: usize) -> Result<Cow<'_, [u8]>, Fault> {
    let len = entry::key_len(view, at);
    if body_at(len) > capacity || len > MAX_KEY {
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
    let len = entry::key_len(view, at);
    match Kind::decode(word) {
        None if is_marked(word) => Err(fault("value, found before", at)),
        None => Err(fault("value word", at)),
        Some(Kind::Inline { len: bytes, crc, .. }) => {
            let begin = body_at(len);
            if begin + bytes > capacity {
                return Err(fault("value word", at));
            }
            if heap::crc32c(entry::body(view, at, bytes)) == crc {
                return Ok(());
            }
            Err(fault("value", at.add(begin as u64)))
        }
        Some(_) if cell_at(len) + 8 > capacity => Err(fault("value word", at)),
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
    let header_is_lost = from < at.raw() + HEADER as u64;
    let end = at.raw() + if header_is_lost { capacity as u64 } else { used };
    from < end && to > at.raw()
}
