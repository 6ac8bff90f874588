//! The header of a list of more than one node: the nodes at its ends, and a tree of those in
//! between.
//!
//! ```text
//! 0   node at the head, self-checksummed                logged
//! 8   node at the tail, self-checksummed                logged
//! 16  root word of the tree of the others               logged
//! 24  number of elements in the tree, self-checksummed  logged
//! ```
//!
//! The ends are outside the tree so that pushing and popping, the main use of lists, touches one
//! node and changes no weight. A node goes into the tree when a new one begins outside of it, and
//! comes back when that one is empty.

use heap::{Full, Ptr, View};

use super::node::Node;
use super::{Error, Side};
use crate::blob::Blob;
use crate::tree::{self, Cursor, Item, Kind, Tree};
use crate::{Damaged, Store, self_checksummed};

pub(super) const HEADER: usize = 32;
pub(super) const ROOT: u64 = 16;
const COUNT: u64 = 24;

/// A node of a list, by the word that refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeRef {
    /// A block of packed elements.
    Packed(Ptr),
    /// One element that is too long for a node.
    Plain(Blob),
}

/// Set in a word that refers to one long element.
const PLAIN: u64 = 2;

impl NodeRef {
    pub(super) fn from_word(word: u64) -> NodeRef {
        match word & PLAIN {
            0 => NodeRef::Packed(Ptr::from_raw(word)),
            _ => NodeRef::Plain(Blob::from_word(word & !PLAIN)),
        }
    }

    pub(super) fn word(self) -> u64 {
        match self {
            NodeRef::Packed(at) => at.raw(),
            NodeRef::Plain(blob) => blob.word() | PLAIN,
        }
    }

    /// Returns its place.
    pub(super) fn place(self) -> Ptr {
        match self {
            NodeRef::Packed(at) => at,
            NodeRef::Plain(blob) => Ptr::from_raw(blob.word()),
        }
    }

    /// Returns the number of its elements.
    pub(super) fn count<V: View>(self, view: &V) -> Result<u64, Damaged> {
        match self {
            NodeRef::Packed(at) => Ok(Node::read(view, at)?.window.count as u64),
            NodeRef::Plain(_) => Ok(1),
        }
    }
}

/// The nodes between the ends, as (number of elements, word).
#[derive(Clone, Copy, Debug)]
pub(super) struct Middle;

impl Kind for Middle {
    const SORTED: bool = false;

    fn weight(item: Item) -> u64 {
        item.first
    }
}

/// The header of a list of more than one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) at: Ptr,
}

impl Ends {
    pub(super) fn create<S: Store>(
        store: &mut S,
        head: NodeRef,
        tail: NodeRef,
    ) -> Result<Ends, Full> {
        let fresh = store.reserve(HEADER)?;
        let none = tree::root_word(Ptr::NULL);
        let words = [
            self_checksummed::encode(head.word()),
            self_checksummed::encode(tail.word()),
            none,
            self_checksummed::encode(0),
        ];
        for (number, word) in words.into_iter().enumerate() {
            store.write_word(&fresh, 8 * number, word);
        }
        Ok(Ends { at: store.publish(fresh, HEADER) })
    }

    fn place(self, side: Side) -> Ptr {
        self.at.add(if side == Side::Head { 0 } else { 8 })
    }

    pub(super) fn node<V: View>(self, view: &V, side: Side) -> Result<NodeRef, Damaged> {
        let word = view.word(self.place(side));
        let open = self_checksummed::decode(word).filter(|&word| word != 0);
        open.map(NodeRef::from_word).ok_or(Damaged::new("end of a list", self.at, 0, word))
    }

    pub(super) fn set_node<S: Store>(self, store: &mut S, side: Side, node: NodeRef) {
        store.set(self.place(side), self_checksummed::encode(node.word()));
    }

    pub(super) fn tree(self) -> Tree<Middle> {
        Tree::at(self.at.add(ROOT))
    }

    /// Returns the number of elements in the tree.
    pub(super) fn between<V: View>(self, view: &V) -> Result<u64, Damaged> {
        let word = view.word(self.at.add(COUNT));
        self_checksummed::decode(word).ok_or(Damaged::new(
            "length of a list",
            self.at.add(COUNT),
            0,
            word,
        ))
    }

    fn count<S: Store>(self, store: &mut S, more: u64, less: u64) -> Result<(), Damaged> {
        let count = self.between(store)?.wrapping_add(more).wrapping_sub(less);
        store.set(self.at.add(COUNT), self_checksummed::encode(count));
        Ok(())
    }

    fn outermost<V: View>(self, view: &V, side: Side) -> Cursor {
        match side {
            Side::Head => self.tree().begin(view),
            Side::Tail => self.tree().end(view),
        }
    }

    /// Inserts a node into the tree, before a cursor.
    pub(super) fn insert<S: Store>(
        self,
        store: &mut S,
        at: &Cursor,
        node: NodeRef,
    ) -> Result<(), Error> {
        let count = node.count(store)?;
        self.tree().insert(store, at, Item { first: count, second: node.word() })?;
        Ok(self.count(store, count, 0)?)
    }

    /// Inserts a node into the tree, at one side of it.
    pub(super) fn insert_at<S: Store>(
        self,
        store: &mut S,
        side: Side,
        node: NodeRef,
    ) -> Result<(), Error> {
        let at = self.outermost(store, side);
        self.insert(store, &at, node)
    }

    /// Replaces a node of the tree, or changes its number of elements.
    pub(super) fn replace<S: Store>(
        self,
        store: &mut S,
        at: &Cursor,
        node: NodeRef,
    ) -> Result<(), Error> {
        let Some(old) = at.item(store) else { return Ok(()) };
        let new = Item { first: node.count(store)?, second: node.word() };
        if new != old {
            self.tree().replace(store, at, new);
            self.count(store, new.first, old.first)?;
        }
        Ok(())
    }

    /// Removes a node from the tree.
    pub(super) fn remove<S: Store>(
        self,
        store: &mut S,
        at: &Cursor,
    ) -> Result<Option<NodeRef>, Error> {
        let Some(item) = self.tree().remove(store, at) else { return Ok(None) };
        self.count(store, 0, item.first)?;
        Ok(Some(NodeRef::from_word(item.second)))
    }

    /// Takes the outermost node of one side out of the tree.
    pub(super) fn pull<S: Store>(
        self,
        store: &mut S,
        side: Side,
    ) -> Result<Option<NodeRef>, Error> {
        let mut at = self.outermost(store, side);
        if side == Side::Tail {
            at.prev(store);
        }
        self.remove(store, &at)
    }
}
