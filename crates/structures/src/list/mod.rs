//! Lists: sequences of byte strings and integers, pushed and popped at both ends, read and changed
//! anywhere.
//!
//! The caller keeps one word. A short list is one node, a block of packed elements; a longer one
//! has a header with the nodes at its two ends, and the others between them in a counted tree,
//! where they are found by the number of elements before them. An element that is too long for a
//! node is a blob, in place of a node.
//!
//! The reasons: lists are queues and stacks. Pushing writes the element after the others of the
//! node at that end, and logs two words, the element's length and the node's window; popping logs
//! one. Nodes that were begun at the head are reversed, so that this holds at both ends. In the
//! middle a change copies a node, which is a few kilobytes at most.
//!
//! Bytes that a reader may see never change. A popped element is not overwritten: a node whose end
//! was popped is copied if it is small; otherwise it stays as it is, and another node takes new
//! elements.
//!
//! A list knows neither keys nor numbers of blocked clients, nor whether a string spells an
//! integer: the caller decides what its items are. `docs/format/list.md` has the format and the
//! counts.

mod copy;
mod edit;
mod ends;
mod entry;
mod lifecycle;
mod node;
mod walk;

use std::iter::Peekable;

use heap::{Full, Ptr, View};

use crate::blob::Blob;
use crate::listpack::Item;
use crate::reclaim::Queue;
use crate::{Damaged, Store};
use edit::Slot;
use ends::{Ends, NodeRef};
use node::{Node, Pushed};
use walk::Found;

pub use crate::Error;
pub use copy::NodeCopy;
pub use lifecycle::WalkItem;
pub use node::{MAX_BYTES, MAX_COUNT, NODE_CAPACITY, SMALL};

/// A list, as the one word that the caller keeps: 0 is the empty list.
///
/// A change returns the list's new word; if it differs, the caller stores it in place of the old
/// one. A list is owned by one word: after a change, its earlier words mean nothing. After an error
/// nothing must be stored: roll back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List(u64);

/// Bytes that are reserved for the elements of a new node, so that a few more elements do not move
/// it.
pub const FIRST_BYTES: usize = 256;

/// Set in a word that refers to a header.
const MANY: u64 = 4;

enum Shape {
    Empty,
    Single(NodeRef),
    Many(Ends),
}

/// One of the two ends of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end with element 0.
    Head,
    /// The end with the last element.
    Tail,
}

impl Side {
    /// Returns the opposite end.
    pub const fn other(self) -> Side {
        match self {
            Side::Head => Side::Tail,
            Side::Tail => Side::Head,
        }
    }
}

/// The maximum size of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    bytes: usize,
    count: usize,
}

impl Limits {
    /// Returns limits of somewhat less than `bytes`, and of `count` elements, both clipped to what
    /// a node can hold.
    ///
    /// The reduction lets nodes of a whole number of kilobytes, with their headers, fill blocks of
    /// the heap.
    pub fn new(bytes: usize, count: usize) -> Limits {
        let bytes = bytes.saturating_sub(node::LESS).clamp(64, node::MAX_BYTES);
        Limits { bytes, count: count.clamp(1, node::MAX_COUNT) }
    }
}

/// An element of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'v> {
    /// Packed in a node.
    Item(Item<'v>),
    /// A long element, whose words were verified.
    Blob(Blob),
}

/// What [`List::retain`] should do with an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retain {
    /// Keep it.
    Keep,
    /// Remove it.
    Drop,
    /// Keep it and all after it.
    Stop,
}

impl List {
    /// The empty list, which has no block.
    pub const EMPTY: List = List(0);

    /// Returns the list that a word refers to.
    pub const fn from_word(word: u64) -> List {
        List(word)
    }

    /// Returns the word to keep.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Returns true if it has no elements.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if it has more than one node: operations on the whole list are then done in
    /// steps.
    pub const fn is_long(self) -> bool {
        self.0 & MANY != 0
    }

    fn single(node: NodeRef) -> List {
        List(node.word())
    }

    fn many(ends: Ends) -> List {
        List(ends.at.raw() | MANY)
    }

    fn shape(self) -> Shape {
        match self.0 {
            0 => Shape::Empty,
            word if word & MANY != 0 => Shape::Many(Ends { at: Ptr::from_raw(word & !MANY) }),
            word => Shape::Single(NodeRef::from_word(word)),
        }
    }

    /// Returns the number of its elements.
    pub fn len<V: View>(self, view: &V) -> Result<u64, Damaged> {
        match self.shape() {
            Shape::Empty => Ok(0),
            Shape::Single(node) => node.count(view),
            Shape::Many(ends) => {
                let outer = [Side::Head, Side::Tail].map(|side| ends.node(view, side));
                let [head, tail] = outer;
                let outer = head?.count(view)?.saturating_add(tail?.count(view)?);
                Ok(outer.saturating_add(ends.between(view)?))
            }
        }
    }

    /// Adds an element at one end.
    pub fn push<S: Store>(
        self,
        store: &mut S,
        side: Side,
        item: Item<'_>,
        limits: Limits,
    ) -> Result<List, Error> {
        self.push_all(store, side, [item], limits)
    }

    /// Adds a node at one end; `end` is the present outermost one.
    fn add_node<S: Store>(
        self,
        store: &mut S,
        side: Side,
        end: NodeRef,
        new: NodeRef,
    ) -> Result<List, Error> {
        match self.ends() {
            None => {
                let (head, tail) = match side {
                    Side::Head => (new, end),
                    Side::Tail => (end, new),
                };
                Ok(List::many(Ends::create(store, head, tail)?))
            }
            Some(ends) => {
                ends.insert_at(store, side, end)?;
                ends.set_node(store, side, new);
                Ok(self)
            }
        }
    }

    /// Adds elements at one end, one after the other; those that fill a node are written together.
    pub fn push_all<'i, S: Store>(
        self,
        store: &mut S,
        side: Side,
        items: impl IntoIterator<Item = Item<'i>>,
        limits: Limits,
    ) -> Result<List, Error> {
        let (mut list, mut items) = (self, items.into_iter().peekable());
        while items.peek().is_some() {
            let end = list.outermost(store, side)?;
            if let Some(NodeRef::Packed(at)) = end.as_ref().map(|end| end.node) {
                match (Node::read(store, at)?.push(store, side, &mut items, limits)?, &end) {
                    (Pushed::NoSpace, _) => {}
                    (Pushed::Copied(at), Some(end)) => {
                        list = list.put_nodes(store, &end.place, &[NodeRef::Packed(at)])?;
                        continue;
                    }
                    _ => continue,
                }
            }
            let new = list.node_of(store, side, &mut items, limits)?;
            list = match (end, new) {
                (_, None) => break,
                (None, Some(new)) => List::single(new),
                (Some(end), Some(new)) => list.add_node(store, side, end.node, new)?,
            };
        }
        Ok(list)
    }

    /// Returns a node of as many elements as it can take, which are removed from the front of
    /// `items`; `None` if there are none. In a list that already has others, it has space for many
    /// if it takes all.
    fn node_of<'i, S: Store>(
        self,
        store: &mut S,
        side: Side,
        items: &mut Peekable<impl Iterator<Item = Item<'i>>>,
        limits: Limits,
    ) -> Result<Option<NodeRef>, Full> {
        let Some(first) = items.next() else { return Ok(None) };
        let first = match Slot::new(store, first, limits)? {
            Slot::Plain(blob) => return Ok(Some(NodeRef::Plain(blob))),
            Slot::Packed(first) => first,
        };
        let (mut bytes, mut count) = (Vec::with_capacity(FIRST_BYTES), 1);
        entry::encode(first, &mut bytes);
        while let Some(item) = items.next_if(|item| {
            count < limits.count && bytes.len() + entry::len_of(*item) <= limits.bytes
        }) {
            entry::encode(item, &mut bytes);
            count += 1;
        }
        let will_grow = !self.is_empty() && items.peek().is_none();
        let capacity = if will_grow { limits.bytes.min(node::NODE_CAPACITY) } else { bytes.len() };
        let reversed = side == Side::Head;
        let node = node::create(store, &bytes, count, reversed, capacity.max(bytes.len()))?;
        Ok(Some(NodeRef::Packed(node)))
    }

    /// Removes up to `count` elements from one end, each after `take` has seen it.
    ///
    /// With `verify`, first verifies the bytes of nodes that are short enough.
    pub fn pop<S: Store>(
        self,
        store: &mut S,
        queue: Queue,
        side: Side,
        count: u64,
        verify: bool,
        mut take: impl FnMut(&S, Element<'_>),
    ) -> Result<List, Error> {
        let (mut list, mut left) = (self, count);
        while left > 0 {
            let Some(end) = list.outermost(store, side)? else { break };
            match end.node {
                NodeRef::Plain(blob) => {
                    blob.check_words(store)?;
                    take(store, Element::Blob(blob));
                    left -= 1;
                }
                NodeRef::Packed(at) => {
                    let node = read(store, at, verify)?;
                    let own = node.window.count;
                    let some = usize::try_from(left).unwrap_or(usize::MAX).min(own);
                    let (mut elements, mut bytes) = (node.elements(store, side), 0);
                    for _ in 0..some {
                        let Some((item, len)) = elements.step() else {
                            return Err(node.damaged("list node's elements").into());
                        };
                        take(store, Element::Item(item));
                        bytes += len;
                    }
                    left -= some as u64;
                    if some < own {
                        node.narrow(store, side, some, bytes);
                        break;
                    }
                }
            }
            list = list.drop_node(store, queue, &end)?;
        }
        Ok(list)
    }

    /// Visits elements from number `index`, counted from the head, away from a side, until `visit`
    /// returns `false`.
    pub fn visit<V: View>(
        self,
        view: &V,
        index: u64,
        from: Side,
        verify: bool,
        mut visit: impl FnMut(Element<'_>) -> bool,
    ) -> Result<(), Damaged> {
        let Some((found, own)) = self.locate(view, index)? else { return Ok(()) };
        let (mut next, mut skip) = (Some(found), None);
        while let Some(found) = next {
            match found.node {
                NodeRef::Plain(blob) => {
                    blob.check_words(view)?;
                    if !visit(Element::Blob(blob)) {
                        return Ok(());
                    }
                }
                NodeRef::Packed(at) => {
                    let node = read(view, at, verify)?;
                    let count = node.window.count;
                    let skipped = *skip.get_or_insert(match from {
                        Side::Head => own as usize,
                        Side::Tail => count - 1 - (own as usize).min(count - 1),
                    });
                    if !node.visit(view, from, skipped, |item| visit(Element::Item(item)))? {
                        return Ok(());
                    }
                }
            }
            skip = Some(0);
            next = found.next(view, from)?;
        }
        Ok(())
    }

    /// Replaces element number `index`; returns `false` if there is none.
    pub fn set<S: Store>(
        self,
        store: &mut S,
        queue: Queue,
        index: u64,
        item: Item<'_>,
        limits: Limits,
    ) -> Result<(List, bool), Error> {
        let Some((found, own)) = self.locate(store, index)? else { return Ok((self, false)) };
        let list = self.rebuild(store, &found, limits, &mut Vec::new(), |store, slots| {
            let new = Slot::new(store, item, limits)?;
            let old = std::mem::replace(&mut slots[own as usize], new);
            release(store, queue, &[old])
        })?;
        Ok((list, true))
    }

    /// Inserts an element before number `index`, or after the last one if there is no such number.
    pub fn insert<S: Store>(
        self,
        store: &mut S,
        index: u64,
        item: Item<'_>,
        limits: Limits,
    ) -> Result<List, Error> {
        if index == 0 {
            return self.push(store, Side::Head, item, limits);
        }
        let Some((found, own)) = self.locate(store, index)? else {
            return self.push(store, Side::Tail, item, limits);
        };
        self.rebuild(store, &found, limits, &mut Vec::new(), |store, slots| {
            let new = Slot::new(store, item, limits)?;
            slots.insert(own as usize, new);
            Ok(())
        })
    }

    /// Removes up to `count` elements from one end.
    pub fn trim<S: Store>(
        self,
        store: &mut S,
        queue: Queue,
        side: Side,
        count: u64,
    ) -> Result<List, Error> {
        let (mut list, mut left) = (self, count);
        while left > 0 {
            let Some(end) = list.outermost(store, side)? else { break };
            let own = end.node.count(store)?;
            if let NodeRef::Packed(at) = end.node
                && own > left
            {
                let node = Node::read(store, at)?;
                let mut elements = node.elements(store, side);
                let taken = (0..left).map_while(|_| elements.step().map(|(_, len)| len));
                let (count, bytes) = taken.fold((0, 0), |(n, sum), len| (n + 1, sum + len));
                if count < left {
                    return Err(node.damaged("list node's elements").into());
                }
                node.narrow(store, side, count as usize, bytes);
                break;
            }
            list = list.drop_node(store, queue, &end)?;
            left -= own;
        }
        Ok(list)
    }

    /// Shows elements from one end on, and removes those for which `retain` says so.
    pub fn retain<S: Store>(
        self,
        store: &mut S,
        queue: Queue,
        from: Side,
        limits: Limits,
        mut retain: impl FnMut(&S, Element<'_>) -> Retain,
    ) -> Result<List, Error> {
        let (mut list, mut done) = (self, 0u64);
        loop {
            // Elements up to here from this end stay.
            let len = list.len(store)?;
            if done >= len {
                return Ok(list);
            }
            let index = if from == Side::Head { done } else { len - 1 - done };
            let Some((found, _)) = list.locate(store, index)? else { return Ok(list) };
            let (kept, stop) = retain_in_node(store, &found, from, &mut retain)?;
            done += kept.iter().filter(|kept| **kept).count() as u64;
            if kept.iter().any(|kept| !kept) {
                list = list.rebuild(store, &found, limits, &mut Vec::new(), |store, slots| {
                    let mut kept = match from {
                        Side::Head => kept.to_vec(),
                        Side::Tail => kept.iter().rev().copied().collect(),
                    }
                    .into_iter();
                    let mut gone = Vec::new();
                    slots.retain(|slot| {
                        let keep = kept.next().unwrap_or(true);
                        if !keep {
                            gone.push(*slot);
                        }
                        keep
                    });
                    release(store, queue, &gone)
                })?;
            }
            if stop {
                return Ok(list);
            }
        }
    }
}

/// Returns which elements of a node stay, in the order in which they are shown, and whether that is
/// the end.
fn retain_in_node<S: Store>(
    store: &S,
    found: &Found,
    from: Side,
    retain: &mut impl FnMut(&S, Element<'_>) -> Retain,
) -> Result<(Vec<bool>, bool), Error> {
    let mut kept = Vec::new();
    let mut stopped = false;
    let mut show = |element: Element<'_>| {
        let verdict = if stopped { Retain::Keep } else { retain(store, element) };
        stopped |= verdict == Retain::Stop;
        kept.push(verdict != Retain::Drop);
    };
    match found.node {
        NodeRef::Plain(blob) => {
            blob.check_words(store)?;
            show(Element::Blob(blob));
        }
        NodeRef::Packed(at) => {
            let node = Node::read(store, at)?;
            node.elements(store, from).for_each(|item| show(Element::Item(item)));
        }
    }
    Ok((kept, stopped))
}

/// Reads a node; verifies it if it is short.
fn read<V: View>(view: &V, at: Ptr, verify: bool) -> Result<Node, Damaged> {
    const SHORT: usize = 4096;
    let node = Node::read(view, at)?;
    if verify && node.stored() <= SHORT {
        node.verify(view)?;
    }
    Ok(node)
}

/// Frees what elements own that are no longer in a list.
fn release<S: Store>(store: &mut S, queue: Queue, slots: &[Slot<'_>]) -> Result<(), Error> {
    for slot in slots {
        if let Slot::Plain(blob) = slot {
            free_node(store, queue, NodeRef::Plain(*blob))?;
        }
    }
    Ok(())
}

/// Frees a node with its elements; returns how many blocks were freed.
fn free_node<S: Store>(store: &mut S, queue: Queue, node: NodeRef) -> Result<usize, Full> {
    match node {
        NodeRef::Packed(at) => {
            store.free(at);
            Ok(1)
        }
        NodeRef::Plain(blob) if blob.is_large() => queue.push_blob(store, blob).map(|()| 0),
        NodeRef::Plain(blob) => Ok(blob.free_step(store, 1).1),
    }
}
