//! The words of a tree: the layout of a leaf and of an inner node.
//!
//! `docs/format/tree.md` has the same as diagrams; the assertions below bind the two.
//!
//! Both are an array of slots with a header that lists the slots in use in their order, so that an
//! insertion writes one free slot and some words of the header, and nothing is shifted. The slots
//! are stored field by field: a search reads the first words of all slots, which are few lines.

use heap::{Ptr, View};

use crate::self_checksummed;

pub(super) const WORD: usize = 8;

/// Words of the header: the node's kind, then the order.
pub(super) const KIND: usize = 0;
pub(super) const ORDER: usize = 1;
pub(super) const ORDER_WORDS: usize = 4;
pub(super) const ORDER_BYTES: usize = ORDER_WORDS * WORD;

/// A leaf: eight lines.
pub(super) const LEAF: usize = 512;
/// Number of items that fit into a leaf.
pub const LEAF_SLOTS: usize = 29;
const LEAF_HEADER: usize = 6;
const LEAF_FIELDS: usize = 2;

/// An inner node: sixteen lines.
pub(super) const INNER: usize = 1024;
/// Number of children that fit into an inner node.
pub const INNER_SLOTS: usize = 30;
const INNER_HEADER: usize = 8;
const INNER_FIELDS: usize = 4;

/// The fields of an item, and of a separator.
pub(super) const FIRST: usize = 0;
pub(super) const SECOND: usize = 1;
/// The other fields of a child.
pub(super) const CHILD: usize = 2;
pub(super) const WEIGHT: usize = 3;

/// Maximum number of levels: each further level takes some fifteen times as many insertions as the
/// one before.
pub(super) const MAX_LEVELS: usize = 14;

/// `KIND` has the height in its lowest byte, this above it, and a leaf's checksum in the high half:
/// "tre" in ASCII.
const MAGIC: u64 = 0x6572_7400;
const MAGIC_MASK: u64 = 0xffff_ff00;

const _: () = assert!((LEAF_HEADER + LEAF_FIELDS * LEAF_SLOTS) * WORD == LEAF);
const _: () = assert!((INNER_HEADER + INNER_FIELDS * INNER_SLOTS) * WORD == INNER);
const _: () = assert!(LEAF_SLOTS < ORDER_BYTES && INNER_SLOTS < ORDER_BYTES);
const _: () = assert!(ORDER + ORDER_WORDS <= LEAF_HEADER && ORDER + ORDER_WORDS <= INNER_HEADER);

/// Returns the size in bytes of a node of this height above the leaves.
pub(super) const fn size(height: usize) -> usize {
    if height == 0 { LEAF } else { INNER }
}

/// Returns the number of slots of a node of this height.
pub(super) const fn slots(height: usize) -> usize {
    if height == 0 { LEAF_SLOTS } else { INNER_SLOTS }
}

/// Returns the number of header words of a node of this height; those after the order are 0.
pub(super) const fn header(height: usize) -> usize {
    if height == 0 { LEAF_HEADER } else { INNER_HEADER }
}

/// Returns the index of a field's word in a node of this height.
pub(super) const fn word_of(height: usize, field: usize, slot: usize) -> usize {
    header(height) + field * slots(height) + slot
}

/// Returns the place of a node's word.
pub(super) const fn word_at(node: Ptr, word: usize) -> Ptr {
    node.add((word * WORD) as u64)
}

pub(super) const fn kind(height: usize, checksum: u32) -> u64 {
    (checksum as u64) << 32 | MAGIC | height as u64
}

/// Returns the checksum in a `KIND` word.
pub(super) const fn checksum_of(kind: u64) -> u32 {
    (kind >> 32) as u32
}

/// Returns the height in a `KIND` word, or `None` if it is no node's.
pub(super) const fn height_of(kind: u64) -> Option<usize> {
    let height = (kind & 0xff) as usize;
    if kind & MAGIC_MASK == MAGIC && height < MAX_LEVELS { Some(height) } else { None }
}

/// Returns the root word of a tree whose top node is at `node`; null for an empty tree.
///
/// It is self-checksummed, even for an empty tree: a lost word reads as zeros, and nobody would
/// notice if the tree looked empty.
pub(crate) fn root_word(node: Ptr) -> u64 {
    self_checksummed::encode(node.raw())
}

/// Returns true if this is the root word of an empty tree.
pub(super) fn is_empty_root(word: u64) -> bool {
    word == root_word(Ptr::NULL)
}

/// Returns the top node that the root word at `root` leads to, if there is one.
pub(super) fn top<V: View>(view: &V, root: Ptr) -> Option<Ptr> {
    leads_to(view.word(root))
}

/// Returns the top node that a root word leads to, if there is one.
pub(crate) fn leads_to(word: u64) -> Option<Ptr> {
    self_checksummed::decode(word).filter(|&node| node != 0).map(Ptr::from_raw)
}
