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
    EXPIRY_AT, FIELDS, HEADER, KEY_INLINE, KEY_LEN_AT, KeyPlace, Kind, VALUE_INLINE, int_cell,
    key_word, tag, word_at,
};
use crate::short::{KEY_SHORT, Short, key_checksum};

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
            !shard.heap().is_durable() || body_is_sound(shard, entry, len, crc)
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
    expiry_place(view, entry).map_or(0, |place| view.word(place))
}

/// Returns the place of the expiry word; `None` if the entry has none.
#[inline]
pub(crate) fn expiry_place<V: View>(view: &V, entry: Ptr) -> Option<Ptr> {
    match Short::decode(view.word(entry)) {
        Some(Short { has_expiry_word: false, .. }) => None,
        _ => Some(entry.add(EXPIRY_AT)),
    }
}

#[inline]
pub(crate) fn is_expired<V: View>(view: &V, entry: Ptr, now: u64) -> bool {
    has_passed(view, entry, expiry_word(view, entry), now)
}

/// Returns true if an entry whose expiry word is `at` has expired.
#[inline]
pub(crate) fn has_passed<V: View>(view: &V, entry: Ptr, at: u64, now: u64) -> bool {
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

/// Returns the place and the length of the key.
#[inline]
pub(crate) fn key_place<V: View>(view: &V, entry: Ptr) -> KeyPlace {
    match Short::decode(view.word(entry)) {
        Some(short) => KeyPlace { at: short.key_at(), len: short.key_len },
        None => KeyPlace { at: HEADER, len: view.word(entry.add(KEY_LEN_AT)) as u32 as usize },
    }
}

/// Returns the blob of a long key. Without the first word, which may have been lost, nothing says
/// where the key is: then only a key that fits its checksum counts, so that no other bytes are
/// taken for the address of a blob.
#[inline]
pub(crate) fn key_blob<V: View>(view: &V, entry: Ptr) -> Option<Blob> {
    let KeyPlace { at, len } = key_place(view, entry);
    let is_long = len > KEY_INLINE && (tag(view.word(entry)) != 0 || has_long_key(view, entry));
    is_long.then(|| Blob::from_word(view.word(word_at(entry, at))))
}

/// Returns true if the key fits the checksum that is before it in an entry that is not short.
#[cold]
fn has_long_key<V: View>(view: &V, entry: Ptr) -> bool {
    key_word(&key(view, entry)) == view.word(entry.add(KEY_LEN_AT))
}

pub(crate) fn key<V: View>(view: &V, entry: Ptr) -> Cow<'_, [u8]> {
    let KeyPlace { at, len } = key_place(view, entry);
    if len <= KEY_INLINE {
        return Cow::Borrowed(view.bytes(word_at(entry, at), len));
    }
    // The length of a damaged entry may be anything.
    let mut bytes = Vec::with_capacity(len.min(64 << 10));
    // Unreadable bytes are left out: the length and the checksum reveal it.
    let blob = Blob::from_word(view.word(word_at(entry, at)));
    blob.read(view, 0..u64::MAX, |piece| bytes.extend_from_slice(piece)).ok();
    Cow::Owned(bytes)
}

#[inline]
pub(crate) fn has_key<V: View>(view: &V, entry: Ptr, wanted: &[u8]) -> bool {
    let KeyPlace { at, len } = key_place(view, entry);
    if len != wanted.len() {
        return false;
    }
    if len <= KEY_INLINE {
        return view.bytes(word_at(entry, at), len) == wanted;
    }
    *key(view, entry) == *wanted
}

pub(crate) fn hash<V: View>(view: &V, entry: Ptr, hashing: &Hashing) -> u64 {
    hashing.hash(&key(view, entry))
}

/// Returns the bytes of an inline string.
#[inline]
pub(crate) fn body<V: View>(view: &V, entry: Ptr, len: usize) -> &[u8] {
    view.bytes(word_at(entry, key_place(view, entry).body_at()), len)
}

/// Returns the checksum that that of an inline string continues: of a short entry that of the key.
#[inline]
pub(crate) fn checksum_before_body<V: View>(view: &V, entry: Ptr) -> u32 {
    match Short::decode(view.word(entry)) {
        Some(short) => key_checksum(view.bytes(word_at(entry, short.key_at()), short.key_len)),
        None => 0,
    }
}

/// Returns true if an inline string of `len` bytes has the checksum `crc`.
#[inline]
pub(crate) fn body_is_sound<V: View>(view: &V, entry: Ptr, len: usize, crc: u32) -> bool {
    heap::crc32c_append(checksum_before_body(view, entry), body(view, entry, len)) == crc
}

/// Returns the place of the cell of a value that is not an inline string.
#[inline]
pub(crate) fn cell<V: View>(view: &V, entry: Ptr) -> Ptr {
    word_at(entry, key_place(view, entry).cell_at())
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
    let body = Body::of(value);
    let header = Header::of(key, expiry, value, &body);
    let place = KeyPlace { at: header.len, len: key.len() };
    let is_inline = matches!(value, Value::Inline { .. });
    let body_at = if is_inline { place.body_at() } else { place.cell_at() };
    let bytes = body.bytes();
    let fill = |block: &mut [u8]| {
        let (first, rest) = block.split_at_mut(header.len);
        first
            .chunks_exact_mut(8)
            .zip(header.words)
            .for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        let (name, rest) = rest.split_at_mut(key_bytes.len());
        name.copy_from_slice(key_bytes);
        let (gap, rest) = rest.split_at_mut(body_at - header.len - key_bytes.len());
        if !gap.is_empty() {
            gap.fill(0);
        }
        rest.copy_from_slice(&bytes[..rest.len()]);
    };
    let len = body_at + bytes.len();
    let fresh = store.reserve(len + spare)?;
    if len <= SHORT {
        store.write_with(&fresh, 0, len, fill);
    } else {
        // The header and the key through the cache, a long body past it.
        store.write_with(&fresh, 0, body_at, fill);
        match body {
            Body::String(bytes, Some(crc)) => {
                store.write_checksummed(&fresh, body_at, bytes, crc);
            }
            _ => store.write(&fresh, body_at, bytes),
        }
    }
    Ok(store.publish(fresh, len))
}

/// The bytes after the key of an entry: the string itself, or the cell of any other value.
enum Body<'a> {
    /// An inline string, and its own checksum if it is long.
    String(&'a [u8], Option<u32>),
    Cell([u8; 8]),
}

impl<'a> Body<'a> {
    #[inline]
    fn of(value: Value<'a>) -> Body<'a> {
        let word = match value {
            Value::Inline { bytes, .. } => {
                assert!(bytes.len() <= VALUE_INLINE, "so long an inline value would read as lost");
                let is_long = bytes.len() > SHORT;
                return Body::String(bytes, is_long.then(|| heap::crc32c(bytes)));
            }
            Value::Int(int) => int_cell(int).unwrap_or(0),
            Value::Blob(blob) => blob.word(),
            Value::Collection(_, word) => word,
        };
        debug_assert!(word != 0, "a cell of 0 reads as lost");
        Body::Cell(word.to_le_bytes())
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Body::String(bytes, _) => bytes,
            Body::Cell(word) => word,
        }
    }

    /// Returns the checksum of the body after bytes with the checksum `before`.
    #[inline]
    fn checksum_after(&self, before: u32) -> u32 {
        match *self {
            Body::String(bytes, Some(crc)) => heap::crc32c_combine(before, bytes, crc),
            _ => heap::crc32c_append(before, self.bytes()),
        }
    }
}

/// The words before the key of an entry: the first `len` bytes of these.
struct Header {
    words: [u64; 3],
    len: usize,
}

impl Header {
    #[inline]
    fn of(key: &[u8], expiry: u64, value: Value<'_>, body: &Body<'_>) -> Header {
        let short = Short { key_len: key.len(), has_expiry_word: expiry != 0 };
        let word = match value {
            Value::Inline { bytes, raw } if key.len() <= KEY_SHORT => {
                short.string(raw, bytes.len(), body.checksum_after(key_checksum(key)))
            }
            Value::Int(_) if key.len() <= KEY_SHORT => short.int(key_checksum(key)),
            _ => return Header::long(key, expiry, value, body),
        };
        Header { words: [word, expiry, 0], len: short.key_at() }
    }

    fn long(key: &[u8], expiry: u64, value: Value<'_>, body: &Body<'_>) -> Header {
        let kind = match value {
            Value::Inline { bytes, raw } => {
                Kind::Inline { raw, len: bytes.len(), crc: body.checksum_after(0) }
            }
            Value::Int(_) => Kind::Int,
            Value::Blob(_) => Kind::Blob,
            Value::Collection(head, _) => Kind::Collection(head),
        };
        Header { words: [kind.encode(), expiry, key_word(key)], len: HEADER }
    }
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
    let key = key_place(view, entry);
    match kind(view, entry) {
        Kind::Inline { len, .. } => key.body_at() + len,
        Kind::Int | Kind::Blob | Kind::Collection(_) => key.cell_at() + 8,
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
