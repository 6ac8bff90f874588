//! Operations on a stream as a whole: freeing, copying, moving, verifying, showing its blocks.
//! Those on its groups are in `group`.

use std::collections::HashSet;

use heap::{Full, Ptr, View};

use super::group::{self, Owners};
use super::node::{self, Export, Node};
use super::walk::Located;
use super::{Error, Id, ROOTS, Stream, WORDS, item_of, words};
use crate::reclaim::Queue;
use crate::tree;
use crate::{Damaged, Store};

/// What a walk over a stream finds.
#[derive(Clone, Copy, Debug)]
pub enum WalkItem {
    /// A block, of at least this many bytes. The visitor returns whether to read it.
    Block(Ptr, usize),
    /// Damage.
    Damage(Damaged),
}

/// A copy of a node, for another stream.
#[derive(Clone, Debug)]
pub struct NodeCopy(Export);

impl NodeCopy {
    /// Returns the number of its entries.
    pub fn entries(&self) -> u64 {
        self.0.live()
    }

    /// Returns the base of its IDs: the smallest that its entries may have. That of the next node
    /// is greater.
    pub fn base(&self) -> Id {
        self.0.base
    }
}

impl Stream {
    /// Frees the stream: its header and last node immediately, the rest through the free queue,
    /// which learns the owners of the items.
    pub fn release<S: Store>(
        store: &mut S,
        queue: Queue,
        word: u64,
        owners: Owners,
    ) -> Result<(), Full> {
        // A part that cannot be read any more is not freed: it may belong to another structure.
        if let Ok(stream) = Stream::open(store, word) {
            if let Ok(Some(tail)) = stream.tail(store) {
                tail.release(store, queue)?;
            }
            for (number, owner) in [owners.nodes, owners.groups].into_iter().enumerate() {
                let root = store.word(words::root(stream.at, WORDS, number));
                queue.push_unlinked_tree(store, root, owner)?;
            }
            store.free(stream.at);
        }
        Ok(())
    }

    /// Frees a node of a queued stream; returns how many blocks were freed.
    pub(super) fn free_node<S: Store>(store: &mut S, queue: Queue, at: Ptr) -> Result<usize, Full> {
        Node::read(store, at).map_or(Ok(0), |node| node.release(store, queue))
    }

    /// Visits the blocks of a node.
    pub(super) fn node_blocks<V: View>(view: &V, at: Ptr, mut visit: impl FnMut(Ptr)) {
        visit(at);
        if let Some(blob) = Node::read(view, at).ok().and_then(|node| node.blob(view)) {
            blob.blocks(view, visit);
        }
    }

    /// Visits each block of a stream that can be reached, even one that cannot be read:
    /// `salvage_walk` reports why.
    pub fn blocks<V: View>(view: &V, word: u64, mut visit: impl FnMut(Ptr)) {
        visit(Ptr::from_raw(word));
        let Ok(stream) = Stream::open(view, word) else { return };
        if stream.head.tail != 0 {
            Stream::node_blocks(view, Ptr::from_raw(stream.head.tail), &mut visit);
        }
        let mut seen = HashSet::new();
        stream.nodes().salvage_walk_all(view, &mut seen, |part| match part {
            tree::Part::Block(at) => visit(at),
            tree::Part::Item(item) => {
                Stream::node_blocks(view, Ptr::from_raw(item.second), &mut visit);
            }
        });
        stream.group_blocks(view, &mut visit);
    }

    /// Returns a copy of node number `number`; `None` after the last one.
    pub fn copy_node<V: View>(&self, view: &V, number: u64) -> Result<Option<NodeCopy>, Damaged> {
        let located = self.numbered(view, number)?;
        located.map(|located| located.node.export(view).map(NodeCopy)).transpose()
    }

    /// Appends a copied node; its entries are not counted.
    pub fn import_node<S: Store>(&mut self, store: &mut S, copy: &NodeCopy) -> Result<(), Error> {
        if let Some(tail) = self.tail(store)? {
            let end = self.nodes().end(store);
            self.nodes().insert(store, &end, item_of(&tail))?;
        }
        self.head.tail = Node::import(store, &copy.0)?.raw();
        Ok(())
    }

    /// Copies the header of another stream, whose nodes this one has.
    pub fn import_header(&mut self, other: &Stream) {
        self.head = super::Head { tail: self.head.tail, ..other.head };
    }

    /// Moves node number `number`, and the blocks above it, out of sparse spans.
    pub(super) fn relocate_node<S: Store>(
        &mut self,
        store: &mut S,
        number: u64,
    ) -> Result<(), Error> {
        if let Some(located) = self.numbered(store, number)? {
            if let Some(at) = located.node.relocate(store)? {
                self.put(store, located.place, at)?;
            }
            if located.place.is_some() {
                self.nodes().relocate(store, number, |_, _| Ok(None))?;
            }
        }
        self.save(store);
        Ok(())
    }

    /// Moves the header.
    pub(super) fn relocate_head<S: Store>(&mut self, store: &mut S) -> Result<(), Full> {
        if store.is_sparse(self.at) {
            let roots: [u64; ROOTS] =
                std::array::from_fn(|number| store.word(words::root(self.at, WORDS, number)));
            let at = words::create(store, super::NAME, &self.head.words(), &roots)?;
            store.free(self.at);
            self.at = at;
        }
        Ok(())
    }

    /// Verifies node number `number`, and that each path through the tree leads to it; returns how
    /// many bytes were read.
    pub(super) fn check_node<V: View>(&self, view: &V, number: u64) -> Result<u64, Damaged> {
        let Some(located) = self.numbered(view, number)? else { return Ok(0) };
        located.node.check(view)?;
        self.check_ways(view, number, &located)?;
        let apart = located.node.blob(view).map_or(Ok(0), |blob| blob.len(view))?;
        Ok(located.node.stored() as u64 + apart)
    }

    /// Verifies that a node found by weights is also found by its base, through the separators, and
    /// that the links lead to the node before it.
    fn check_ways<V: View>(&self, view: &V, number: u64, located: &Located) -> Result<(), Damaged> {
        let at = |found: Option<Located>| found.map_or(0, |found| found.node.at.raw());
        let own = located.node.at;
        let found = at(self.locate(view, located.node.base)?);
        Damaged::unless_equal("way to a stream's node", own, own.raw(), found)?;
        let before = match number.checked_sub(1) {
            Some(before) => at(self.numbered(view, before)?),
            None => 0,
        };
        let found = at(self.before(view, located.place)?);
        Damaged::unless_equal("way to the node before", own, before, found)
    }

    /// Shows every block that can be reached in a stream that may be damaged, and its damage: the
    /// first in each part.
    ///
    /// `visit` returns whether to read a block: it must return false if the block was shown before,
    /// or is no allocated block of at least this many bytes.
    pub fn salvage_walk<V: View>(view: &V, word: u64, mut visit: impl FnMut(WalkItem) -> bool) {
        let at = Ptr::from_raw(word);
        if !visit(WalkItem::Block(at, words::size(WORDS, ROOTS))) {
            visit(WalkItem::Damage(Damaged::new("stream header", at, 0, word)));
            return;
        }
        let stream = match Stream::open(view, word) {
            Ok(stream) => stream,
            Err(damage) => {
                visit(WalkItem::Damage(damage));
                return;
            }
        };
        let mut order = Order::default();
        stream.nodes().salvage_walk(view, |found| match found {
            tree::WalkItem::Block(at, size) => visit(WalkItem::Block(at, size)),
            tree::WalkItem::Damage(damage) => visit(WalkItem::Damage(damage)),
            tree::WalkItem::Item(item) => {
                order.node(view, Ptr::from_raw(item.second), Some(item.first), &mut visit);
                true
            }
        });
        if stream.head.tail != 0 {
            order.node(view, Ptr::from_raw(stream.head.tail), None, &mut visit);
        }
        group::salvage_walk(view, &stream, &mut visit);
        if order.last > stream.head.last {
            let damage =
                Damaged::new("last ID of a stream", at, order.last.ms, stream.head.last.ms);
            visit(WalkItem::Damage(damage));
        }
        if order.len != stream.head.len {
            let damage = Damaged::new("length of a stream", at, order.len, stream.head.len);
            visit(WalkItem::Damage(damage));
        }
    }
}

/// What has been seen of a stream's nodes.
#[derive(Default)]
struct Order {
    len: u64,
    last: Id,
}

impl Order {
    fn node<V: View>(
        &mut self,
        view: &V,
        at: Ptr,
        ms: Option<u64>,
        visit: &mut dyn FnMut(WalkItem) -> bool,
    ) {
        if let Err(damage) = self.next(view, at, ms, visit) {
            visit(WalkItem::Damage(damage));
        }
    }

    fn next<V: View>(
        &mut self,
        view: &V,
        at: Ptr,
        ms: Option<u64>,
        visit: &mut dyn FnMut(WalkItem) -> bool,
    ) -> Result<(), Damaged> {
        if !visit(WalkItem::Block(at, node::HEADER)) {
            return Err(Damaged::new("stream node", at, 0, at.raw()));
        }
        let node = Node::read(view, at)?;
        let mut lost = false;
        if let Some(blob) = node.blob(view) {
            blob.blocks(view, |at| lost |= !visit(WalkItem::Block(at, 8)));
        }
        if lost {
            return Err(Damaged::new("entry of a stream", at, 0, at.raw()));
        }
        let last = node.check(view)?;
        self.len += node.live();
        if ms.is_some_and(|ms| ms != node.base.ms)
            || self.len > node.live() && node.base <= self.last
        {
            return Err(Damaged::new("order of a stream's nodes", at, self.last.ms, node.base.ms));
        }
        self.last = last;
        Ok(())
    }
}
