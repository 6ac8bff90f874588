//! The block of one key: reading, creating and freeing it.
//!
//! The index of keys of an entry's database leads to the entry, and so does the index of expiry
//! times if the entry's expiry word is not 0. The entry owns all blocks to which it leads: the blob
//! of a large string, a collection, the blob of a very long key. Bytes of a published entry never
//! change, except the value word, the expiry word and the cell, which change through the log.

use std::borrow::Cow;

use heap::{Full, Ptr, Shard, View};
use structures::Store;
use structures::blob::Blob;
use structures::reclaim::Queue;

use crate::collection;
use crate::head::Head;
use crate::key::{Hashing, MAX_KEY};
use crate::layout::{
    EXPIRY_AT, FIELDS, HEADER, KEY_INLINE, KEY_LEN_AT, Kind, VALUE_INLINE, body_at, cell_at,
    int_cell, key_word, word_at,
};

/// Entries up to this length are written in one piece.
const SHORT: usize = 256;

/// A value for an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    /// An integer that can be stored in a cell.
    Int(i64),
    /// At most `VALUE_INLINE` bytes; `raw`: written by a command after which Redis reports "raw".
    Inline {
        bytes: &'a [u8],
        raw: bool,
    },
    Blob(Blob),
    /// The description of a collection, and the word that leads to it.
    Collection(Head, u64),
}

#[inline]
pub(crate) fn kind<V: View>(view: &V, entry: Ptr) -> Kind {
    // A damaged word reads as an empty string, so that it affects no other entry; `check` reports
    // it.
    Kind::decode(view.word(entry)).unwrap_or(Kind::Inline { raw: false, len: 0, crc: 0 })
}

/// Returns an error for a damaged entry: its value word is invalid or marks it as damaged, its cell
/// leads nowhere, or the bytes of its short value are not those that were written. (In a volatile
/// heap nothing changes these bytes.)
#[inline]
pub(crate) fn sound(shard: &Shard<'_>, entry: Ptr) -> Result<Kind, crate::Error> {
    let kind = Kind::decode(shard.word(entry)).filter(|kind| match *kind {
        Kind::Inline { len, crc, .. } => {
            !shard.heap().is_durable() || heap::crc32c(body(shard, entry, len)) == crc
        }
        Kind::Int | Kind::Blob | Kind::Collection(_) => shard.word(cell(shard, entry)) != 0,
    });
    kind.ok_or(crate::Error::Damaged(entry.raw()))
}

/// Returns when the key expires, in unix ms; 0 for never.
#[inline]
pub(crate) fn expiry<V: View>(view: &V, entry: Ptr) -> u64 {
    expiry_word(view, entry) & !FIELDS
}

/// Returns the expiry time, combined with whether fields have times of their own. An entry is in
/// the index of expiry times if this is not 0.
#[inline]
pub(crate) fn expiry_word<V: View>(view: &V, entry: Ptr) -> u64 {
    view.word(entry.add(EXPIRY_AT))
}

#[inline]
pub(crate) fn is_expired<V: View>(view: &V, entry: Ptr, now: u64) -> bool {
    let at = expiry_word(view, entry);
    at != 0 && (at <= now || at & FIELDS != 0 && has_ended(view, entry, at & !FIELDS, now))
}

/// Returns true if a hash with times has expired: by its own time, or because all its fields have
/// expired.
#[cold]
fn has_ended<V: View>(view: &V, entry: Ptr, own: u64, now: u64) -> bool {
    let Kind::Collection(head) = kind(view, entry) else { return false };
    own != 0 && own <= now
        || collection::all_fields_expired(view, head, view.word(cell(view, entry)), now)
}

#[inline]
pub(crate) fn key_len<V: View>(view: &V, entry: Ptr) -> usize {
    view.word(entry.add(KEY_LEN_AT)) as u32 as usize
}

#[inline]
pub(crate) fn key_blob<V: View>(view: &V, entry: Ptr) -> Option<Blob> {
    (key_len(view, entry) > KEY_INLINE).then(|| Blob::from_word(view.word(word_at(entry, HEADER))))
}

pub(crate) fn key<V: View>(view: &V, entry: Ptr) -> Cow<'_, [u8]> {
    match key_blob(view, entry) {
        None => Cow::Borrowed(view.bytes(word_at(entry, HEADER), key_len(view, entry))),
        Some(blob) => {
            let mut bytes = Vec::with_capacity(key_len(view, entry));
            // Unreadable bytes are left out: the length and the checksum reveal it.
            blob.read(view, 0..u64::MAX, |piece| bytes.extend_from_slice(piece)).ok();
            Cow::Owned(bytes)
        }
    }
}

#[inline]
pub(crate) fn has_key<V: View>(view: &V, entry: Ptr, wanted: &[u8]) -> bool {
    if key_len(view, entry) != wanted.len() {
        return false;
    }
    if wanted.len() <= KEY_INLINE {
        return view.bytes(word_at(entry, HEADER), wanted.len()) == wanted;
    }
    *key(view, entry) == *wanted
}

pub(crate) fn hash<V: View>(view: &V, entry: Ptr, hashing: &Hashing) -> u64 {
    hashing.hash(&key(view, entry))
}

/// Returns the bytes of an inline string.
#[inline]
pub(crate) fn body<V: View>(view: &V, entry: Ptr, len: usize) -> &[u8] {
    view.bytes(word_at(entry, body_at(key_len(view, entry))), len)
}

/// Returns the place of the cell of a value that is not an inline string.
#[inline]
pub(crate) fn cell<V: View>(view: &V, entry: Ptr) -> Ptr {
    word_at(entry, cell_at(key_len(view, entry)))
}

pub(crate) fn blob<V: View>(view: &V, entry: Ptr) -> Blob {
    Blob::from_word(view.word(cell(view, entry)))
}

/// Creates an entry, with space for `spare` more bytes of an inline string.
pub(crate) fn create<S: Store>(
    store: &mut S,
    key: &[u8],
    expiry: u64,
    value: Value<'_>,
    spare: usize,
) -> Result<Ptr, Full> {
    assert!(key.len() <= MAX_KEY, "an entry with so long a key would read as damaged");
    let long_key = if key.len() > KEY_INLINE { Some(Blob::create(store, key)?) } else { None };
    let long_key = long_key.map(|blob| blob.word().to_le_bytes());
    let key_bytes = long_key.as_ref().map_or(key, |word| word.as_slice());
    let cell = match value {
        Value::Int(int) => int_cell(int),
        Value::Blob(blob) => Some(blob.word()),
        Value::Collection(_, word) => Some(word),
        Value::Inline { .. } => None,
    };
    let cell = cell.map(u64::to_le_bytes);
    let (kind, body) = match (value, &cell) {
        (Value::Inline { bytes, raw }, _) => {
            assert!(bytes.len() <= VALUE_INLINE, "so long an inline value would read as lost");
            let crc = heap::crc32c(bytes);
            (Kind::Inline { raw, len: bytes.len(), crc }, bytes)
        }
        (Value::Int(_), cell) => (Kind::Int, cell.as_ref().map_or(&[][..], |word| word)),
        (Value::Blob(_), cell) => (Kind::Blob, cell.as_ref().map_or(&[][..], |word| word)),
        (Value::Collection(head, _), cell) => {
            (Kind::Collection(head), cell.as_ref().map_or(&[][..], |word| word))
        }
    };
    let body_at = if cell.is_some() { cell_at(key.len()) } else { body_at(key.len()) };
    let head = [kind.encode(), expiry, key_word(key)];
    let fill = |block: &mut [u8]| {
        let (header, rest) = block.split_at_mut(HEADER);
        header
            .chunks_exact_mut(8)
            .zip(head)
            .for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        let (name, rest) = rest.split_at_mut(key_bytes.len());
        name.copy_from_slice(key_bytes);
        let (gap, rest) = rest.split_at_mut(body_at - HEADER - key_bytes.len());
        if !gap.is_empty() {
            gap.fill(0);
        }
        rest.copy_from_slice(&body[..rest.len()]);
    };
    let len = body_at + body.len();
    let fresh = store.reserve(len + spare)?;
    if len <= SHORT {
        store.write_with(&fresh, 0, len, fill);
    } else {
        // The header and the key through the cache, a long body past it.
        store.write_with(&fresh, 0, body_at, fill);
        match kind {
            Kind::Inline { crc, .. } => store.write_checksummed(&fresh, body_at, body, crc),
            Kind::Int | Kind::Blob | Kind::Collection(_) => store.write(&fresh, body_at, body),
        }
    }
    Ok(store.publish(fresh, len))
}

/// Frees a blob to which nothing leads any more: at once if it is one block, otherwise through the
/// free queue.
pub(crate) fn release_blob<S: Store>(store: &mut S, queue: Queue, blob: Blob) -> Result<(), Full> {
    queue.release_blob(store, blob).map(|_| ())
}

/// Frees an entry but not its value, which another entry has taken over.
#[inline]
pub(crate) fn release_shell<S: Store>(store: &mut S, queue: Queue, entry: Ptr) -> Result<(), Full> {
    if let Some(blob) = key_blob(store, entry) {
        release_blob(store, queue, blob)?;
    }
    store.free(entry);
    Ok(())
}

/// Frees an entry with all that it owns.
#[inline]
pub(crate) fn release<S: Store>(store: &mut S, queue: Queue, entry: Ptr) -> Result<(), Full> {
    match kind(store, entry) {
        Kind::Inline { .. } | Kind::Int => {}
        Kind::Blob => {
            let blob = blob(store, entry);
            release_blob(store, queue, blob)?;
        }
        Kind::Collection(head) => {
            let word = store.word(cell(store, entry));
            collection::release(store, queue, head, word)?;
        }
    }
    release_shell(store, queue, entry)
}

/// Returns the number of bytes of an entry that are in use.
pub(crate) fn size<V: View>(view: &V, entry: Ptr) -> usize {
    let key = key_len(view, entry);
    match kind(view, entry) {
        Kind::Inline { len, .. } => body_at(key) + len,
        Kind::Int | Kind::Blob | Kind::Collection(_) => cell_at(key) + 8,
    }
}

/// Visits the blocks that an entry owns.
pub(crate) fn owned<V: View>(view: &V, entry: Ptr, mut visit: impl FnMut(Ptr)) {
    match kind(view, entry) {
        Kind::Inline { .. } | Kind::Int => {}
        Kind::Blob => blob(view, entry).blocks(view, &mut visit),
        Kind::Collection(head) => {
            collection::blocks(view, head, view.word(cell(view, entry)), &mut visit);
        }
    }
    if let Some(blob) = key_blob(view, entry) {
        blob.blocks(view, &mut visit);
    }
}
