//! Operations on a list as a whole: freeing, moving, verifying, showing its blocks.

use std::collections::HashSet;

use heap::{Full, Ptr, View};

use super::ends::{Ends, HEADER, NodeRef, ROOT};
use super::node::Node;
use super::walk::NodePosition;
use super::{List, Shape, Side, free_node};
use crate::reclaim::Queue;
use crate::tree::{self, Item};
use crate::{Damaged, Store};

/// What a walk over a list finds.
#[derive(Clone, Copy, Debug)]
pub enum WalkItem {
    /// A block, of at least this many bytes. The visitor returns whether to read it.
    Block(Ptr, usize),
    /// Damage.
    Damage(Damaged),
}

impl List {
    /// Frees the whole list: immediately if it is one node, otherwise through the free queue, which
    /// learns that its nodes belong to `owner`.
    pub fn release<S: Store>(self, store: &mut S, queue: Queue, owner: u16) -> Result<(), Full> {
        match self.shape() {
            Shape::Empty => Ok(()),
            Shape::Single(node) => free_node(store, queue, node).map(drop),
            Shape::Many(ends) => {
                for side in [Side::Head, Side::Tail] {
                    // A node that cannot be found any more is not freed.
                    if let Ok(node) = ends.node(store, side) {
                        free_node(store, queue, node)?;
                    }
                }
                queue.push_tree(store, ends.at.add(ROOT), owner)?;
                store.free(ends.at);
                Ok(())
            }
        }
    }

    /// Frees what an item of a queued list owns; returns how many blocks were freed.
    pub fn free_item<S: Store>(store: &mut S, queue: Queue, item: Item) -> Result<usize, Full> {
        free_node(store, queue, NodeRef::from_word(item.second))
    }

    /// Visits the blocks that an item of a queued list owns.
    pub fn item_blocks<V: View>(view: &V, item: Item, visit: impl FnMut(Ptr)) {
        node_blocks(view, NodeRef::from_word(item.second), visit);
    }

    /// Visits each block of a list that can be reached, even one that cannot be read: `check`
    /// reports why.
    pub fn blocks<V: View>(self, view: &V, mut visit: impl FnMut(Ptr)) {
        match self.shape() {
            Shape::Empty => {}
            Shape::Single(node) => node_blocks(view, node, visit),
            Shape::Many(ends) => {
                visit(ends.at);
                for node in [Side::Head, Side::Tail]
                    .into_iter()
                    .filter_map(|side| ends.node(view, side).ok())
                {
                    node_blocks(view, node, &mut visit);
                }
                ends.tree().salvage_walk_all(view, &mut HashSet::new(), |part| match part {
                    tree::Part::Block(at) => visit(at),
                    tree::Part::Item(item) => List::item_blocks(view, item, &mut visit),
                });
            }
        }
    }

    /// Moves the node of element number `index`, and the blocks above it, out of sparse spans;
    /// returns the list's word if it changes, and the number of the next node's first element (0 if
    /// there is none).
    pub fn relocate<S: Store>(
        self,
        store: &mut S,
        index: u64,
    ) -> Result<(Option<List>, u64), super::Error> {
        let Some((found, own)) = self.locate(store, index)? else { return Ok((None, 0)) };
        let next = index - own + found.node.count(store)?;
        let mut list = self;
        if let Some(node) = relocate_node(store, found.node)? {
            list = list.put_nodes(store, &found.place, &[node])?;
        }
        if let NodePosition::Between(ends, _) = found.place {
            let first = ends.node(store, Side::Head)?.count(store)?;
            ends.tree().relocate(store, (index - own).saturating_sub(first), |_, _| Ok(None))?;
        }
        if let Some(ends) = list.ends().filter(|ends| store.is_sparse(ends.at)) {
            list = move_header(store, ends)?;
        }
        let next = if next < list.len(store)? { next } else { 0 };
        Ok(((list != self).then_some(list), next))
    }

    /// Verifies the node of element number `index`; returns the number of the next node's first
    /// element (0 if there is none), and how many bytes were read.
    pub fn check_node<V: View>(self, view: &V, index: u64) -> Result<(u64, u64), Damaged> {
        let Some((found, own)) = self.locate(view, index)? else { return Ok((0, 0)) };
        let count = check_node(view, found.node)?;
        let bytes = match found.node {
            NodeRef::Packed(at) => Node::read(view, at)?.stored() as u64,
            NodeRef::Plain(blob) => blob.len(view)?,
        };
        let next = index - own + count;
        Ok((if next < self.len(view)? { next } else { 0 }, bytes))
    }

    /// Verifies the whole list: every node, the tree between the ends, every number.
    pub fn check<V: View>(self, view: &V) -> Result<(), Damaged> {
        match self.shape() {
            Shape::Empty => Ok(()),
            Shape::Single(node) => check_node(view, node).map(drop),
            Shape::Many(ends) => {
                for side in [Side::Head, Side::Tail] {
                    check_node(view, ends.node(view, side)?)?;
                }
                let (mut sum, mut first) = (0u64, Ok(()));
                ends.tree().check(
                    view,
                    |_, _| true,
                    |part| {
                        if let (tree::Part::Item(item), true) = (part, first.is_ok()) {
                            sum = sum.wrapping_add(item.first);
                            first = check_item(view, item);
                        }
                    },
                )?;
                first?;
                let count = ends.between(view)?;
                Damaged::unless_equal("length of a list", ends.at, sum, count)
            }
        }
    }

    /// Shows every block that can be reached in a list that may be damaged, and its damage: the
    /// first in each node.
    ///
    /// `visit` returns whether to read a block: it must return false if the block was shown before,
    /// or is no allocated block of at least this many bytes.
    pub fn salvage_walk<V: View>(self, view: &V, mut visit: impl FnMut(WalkItem) -> bool) {
        match self.shape() {
            Shape::Empty => {}
            Shape::Single(node) => walk_node(view, node, &mut visit),
            Shape::Many(ends) => {
                if !visit(WalkItem::Block(ends.at, HEADER)) {
                    let at = ends.at;
                    visit(WalkItem::Damage(Damaged::new("list header", at, 0, at.raw())));
                    return;
                }
                for side in [Side::Head, Side::Tail] {
                    match ends.node(view, side) {
                        Ok(node) => walk_node(view, node, &mut visit),
                        Err(damage) => drop(visit(WalkItem::Damage(damage))),
                    }
                }
                walk_between(view, ends, &mut visit);
            }
        }
    }
}

fn walk_between<V: View>(view: &V, ends: Ends, visit: &mut dyn FnMut(WalkItem) -> bool) {
    let mut sum = 0u64;
    ends.tree().salvage_walk(view, |found| match found {
        tree::WalkItem::Block(at, size) => visit(WalkItem::Block(at, size)),
        tree::WalkItem::Damage(damage) => visit(WalkItem::Damage(damage)),
        tree::WalkItem::Item(item) => {
            sum = sum.wrapping_add(item.first);
            walk_node(view, NodeRef::from_word(item.second), visit);
            true
        }
    });
    match ends.between(view) {
        Err(damage) => drop(visit(WalkItem::Damage(damage))),
        Ok(count) if count != sum => {
            let damage = Damaged::new("length of a list", ends.at, sum, count);
            visit(WalkItem::Damage(damage));
        }
        Ok(_) => {}
    }
}

fn walk_node<V: View>(view: &V, node: NodeRef, visit: &mut dyn FnMut(WalkItem) -> bool) {
    let damage = match node {
        NodeRef::Packed(at) => {
            if !visit(WalkItem::Block(at, super::node::HEADER)) {
                Some(Damaged::new("list node", at, 0, at.raw()))
            } else {
                check_node(view, node).err()
            }
        }
        NodeRef::Plain(blob) => {
            let mut lost = None;
            blob.blocks(view, |at| {
                if !visit(WalkItem::Block(at, 8)) {
                    lost = Some(Damaged::new("element of a list", at, 0, at.raw()));
                }
            });
            lost.or_else(|| check_node(view, node).err())
        }
    };
    if let Some(damage) = damage {
        visit(WalkItem::Damage(damage));
    }
}

fn check_node<V: View>(view: &V, node: NodeRef) -> Result<u64, Damaged> {
    match node {
        NodeRef::Packed(at) => {
            let node = Node::read(view, at)?;
            node.check(view)?;
            Ok(node.window.count as u64)
        }
        NodeRef::Plain(blob) => blob.check(view).map(|()| 1),
    }
}

fn check_item<V: View>(view: &V, item: Item) -> Result<(), Damaged> {
    let node = NodeRef::from_word(item.second);
    let count = check_node(view, node)?;
    Damaged::unless_equal(
        "elements of a list's node",
        Ptr::from_raw(item.second),
        item.first,
        count,
    )
}

fn node_blocks<V: View>(view: &V, node: NodeRef, mut visit: impl FnMut(Ptr)) {
    match node {
        NodeRef::Packed(at) => visit(at),
        NodeRef::Plain(blob) => blob.blocks(view, visit),
    }
}

fn relocate_node<S: Store>(store: &mut S, node: NodeRef) -> Result<Option<NodeRef>, super::Error> {
    match node {
        NodeRef::Packed(at) if store.is_sparse(at) => {
            let moved = Node::read(store, at)?.rewrite(store)?;
            Ok(Some(NodeRef::Packed(moved)))
        }
        NodeRef::Packed(_) => Ok(None),
        NodeRef::Plain(blob) => Ok(blob.relocate(store)?.map(NodeRef::Plain)),
    }
}

fn move_header<S: Store>(store: &mut S, ends: Ends) -> Result<List, super::Error> {
    let words: [u64; HEADER / 8] =
        std::array::from_fn(|number| store.word(ends.at.add(8 * number as u64)));
    let fresh = store.reserve(HEADER)?;
    for (number, word) in words.into_iter().enumerate() {
        store.write_word(&fresh, 8 * number, word);
    }
    let moved = Ends { at: store.publish(fresh, HEADER) };
    store.free(ends.at);
    Ok(List::many(moved))
}
