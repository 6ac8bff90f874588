//! The layout of an index: hashes, slots, segments, nodes and overflow blocks.
//!
//! `docs/format/index.md` has the same as diagrams; the assertions below bind the two.
//!
//! The hash's top [`MAX_DEPTH`] bits choose the segment; its low 16 bits are the tag. The tag alone
//! decides the home bucket, so that a scan, a displacement and a removal know an entry's home
//! without reading the entry. Only a split needs the whole hash, for its next bit from the top.

use heap::{Ptr, View};

pub(super) const WORD: usize = 8;
pub(super) const LINE: usize = 64;
/// Number of slots in a bucket, which is one line.
pub(super) const SLOTS: usize = LINE / WORD;

/// Number of buckets that an entry's tag can choose.
pub(super) const HOMES: usize = 64;
/// Number of buckets for entries that found no space in their home bucket or its neighbour.
pub(super) const STASH: usize = 3;
const TAGS_PER_HOME: usize = (1 << 16) / HOMES;
/// Number of entries that a segment holds without overflow blocks.
pub const SEGMENT_SLOTS: usize = (HOMES + STASH) * SLOTS;

/// Size of a segment: one line of header, the home buckets, the stash. Fifteen of them fill a span
/// of the heap.
pub(super) const SEGMENT: usize = 4352;
pub(super) const SEGMENT_WORDS: usize = SEGMENT / WORD;
/// Header words of a segment.
pub(super) const KIND: usize = 0;
pub(super) const PREFIX: usize = 1;
pub(super) const STASHED: usize = 2;
pub(super) const CHAIN: usize = 3;

/// `KIND` is this with the depth in its lowest byte: "segment" in ASCII.
pub(super) const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"\0segment");

/// A node of the trie: eight bits of the hash choose one of its words.
pub(super) const NODE_BITS: u32 = 8;
pub(super) const NODE_WORDS: usize = 1 << NODE_BITS;
pub(super) const NODE: usize = NODE_WORDS * WORD;
/// Set in a word that refers to a node, clear in one that refers to a segment.
pub(super) const NODE_FLAG: u64 = 1;

/// An overflow block: the next one, then slots.
pub(super) const OVERFLOW: usize = 512;
pub(super) const OVERFLOW_WORDS: usize = OVERFLOW / WORD;

/// The maximum number of bits from the top of a hash that choose a segment.
pub(super) const MAX_DEPTH: u32 = 40;

const _: () = assert!(LINE + (HOMES + STASH) * LINE == SEGMENT);
const _: () = assert!(NODE == 2048);
const _: () = assert!(HOMES == 64, "the word STASHED has a bit for each home");
const _: () = assert!(MAX_DEPTH.is_multiple_of(NODE_BITS) && MAX_DEPTH + 16 <= 64);
const _: () = assert!(SEGMENT_MAGIC & 0xff == 0 && MAX_DEPTH <= 0xff);

const ENTRY_MASK: u64 = (1 << 48) - 1;

/// An empty slot. Not 0: a lost line reads as zeros, and lost entries must not pass for empty
/// slots.
pub(super) const EMPTY: u64 = 1;

/// Returns true if a slot holds an entry.
#[inline]
pub(super) const fn is_used(slot: u64) -> bool {
    slot > EMPTY
}

/// Returns a slot's word: the entry's place in the low bits, its tag in the top 16 bits.
pub(super) const fn slot(tag: u16, entry: Ptr) -> u64 {
    (tag as u64) << 48 | entry.raw() & ENTRY_MASK
}

pub(super) const fn entry_of(slot: u64) -> Ptr {
    Ptr::from_raw(slot & ENTRY_MASK)
}

pub(super) const fn tag_of(slot: u64) -> u16 {
    (slot >> 48) as u16
}

/// Returns the tag of an entry with this hash.
pub(super) const fn tag(hash: u64) -> u16 {
    hash as u16
}

/// Returns the home bucket that a tag chooses.
pub(super) const fn home(tag: u16) -> usize {
    tag as usize / TAGS_PER_HOME
}

/// Returns the home bucket of the entry in a slot.
pub(super) const fn home_of(slot: u64) -> usize {
    home(tag_of(slot))
}

/// Returns the other bucket in which an entry of this home may be.
pub(super) const fn neighbour(home: usize) -> usize {
    (home + 1) % HOMES
}

/// Returns the bucket whose entries may also be in this one.
pub(super) const fn before(home: usize) -> usize {
    (home + HOMES - 1) % HOMES
}

/// Returns the index of a bucket's first word in its segment: home buckets first, then the stash.
pub(super) const fn bucket(number: usize) -> usize {
    (1 + number) * SLOTS
}

/// Returns the place of a segment's, node's or overflow block's word.
pub(super) const fn word_at(block: Ptr, word: usize) -> Ptr {
    block.add((word * WORD) as u64)
}

/// Returns the place of a bucket's line.
pub(super) const fn bucket_at(segment: Ptr, number: usize) -> Ptr {
    word_at(segment, bucket(number))
}

/// Returns the `KIND` word of a segment of this depth.
pub(super) const fn kind(depth: u32) -> u64 {
    SEGMENT_MAGIC | depth as u64
}

/// Returns the depth in a `KIND` word, or `None` if it is no segment's.
pub(super) const fn depth_of(kind: u64) -> Option<u32> {
    let depth = (kind & 0xff) as u32;
    if kind & !0xff == SEGMENT_MAGIC && depth <= MAX_DEPTH { Some(depth) } else { None }
}

/// Returns the top `depth` bits of a hash, the others cleared.
pub(super) const fn prefix(hash: u64, depth: u32) -> u64 {
    if depth == 0 { 0 } else { hash & !(u64::MAX >> depth) }
}

/// Returns the bit of a hash that chooses between the halves of a segment of this depth.
pub(super) const fn next_bit(hash: u64, depth: u32) -> usize {
    (hash >> (63 - depth)) as usize & 1
}

/// Returns the index of the word that a hash chooses in a node to which `covered` of its bits have
/// led.
pub(super) const fn node_word(hash: u64, covered: u32) -> usize {
    (hash >> (64 - NODE_BITS - covered)) as usize & (NODE_WORDS - 1)
}

/// Returns one line of the pool, as the open transaction sees it.
#[inline]
pub(super) fn line<V: View>(view: &V, at: Ptr) -> [u64; SLOTS] {
    view.line(at)
}

/// Returns the places and contents of the slots in the line at `at` that hold an entry with this
/// tag.
#[inline]
pub(super) fn tagged<V: View>(
    view: &V,
    at: Ptr,
    tag: u16,
) -> impl Iterator<Item = (Ptr, u64)> + use<'_, V> {
    let mut bits = view.tagged(at, tag);
    let slots = std::iter::from_fn(move || {
        let number = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        let slot = word_at(at, number);
        Some((slot, view.word(slot)))
    });
    slots.filter(|&(_, word)| is_used(word))
}

/// Returns the bytes of words, as they are in the pool.
pub(super) fn bytes<const WORDS: usize, const BYTES: usize>(words: &[u64; WORDS]) -> [u8; BYTES] {
    const { assert!(WORDS * WORD == BYTES) };
    let mut bytes = [0; BYTES];
    for (to, word) in bytes.chunks_exact_mut(WORD).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
