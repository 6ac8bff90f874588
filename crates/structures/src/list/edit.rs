//! Changes anywhere in a list: a node's elements, with the change, are laid out again in as many
//! nodes as they need.

use heap::Full;

use super::ends::{Ends, NodeRef};
use super::entry;
use super::node::{self, Node};
use super::walk::{Found, NodePosition};
use super::{Error, Limits, List, Shape, Side};
use crate::Store;
use crate::blob::Blob;
use crate::listpack::Item;
use crate::reclaim::Queue;

/// An element to lay out.
#[derive(Clone, Copy)]
pub(super) enum Slot<'a> {
    Packed(Item<'a>),
    /// Too long for a node; its blob exists already.
    Plain(Blob),
}

impl<'a> Slot<'a> {
    /// Returns a new element; one that is too long becomes a blob.
    pub(super) fn new<S: Store>(
        store: &mut S,
        item: Item<'a>,
        limits: Limits,
    ) -> Result<Slot<'a>, Full> {
        match item {
            Item::Bytes(bytes) if entry::len_of(item) > limits.bytes => {
                Blob::create(store, bytes).map(Slot::Plain)
            }
            _ => Ok(Slot::Packed(item)),
        }
    }
}

/// Lays elements out in nodes of about the same size.
fn lay_out<S: Store>(
    store: &mut S,
    slots: &[Slot<'_>],
    limits: Limits,
) -> Result<Vec<NodeRef>, Full> {
    let mut nodes = Vec::new();
    for run in slots.chunk_by(|a, b| matches!((a, b), (Slot::Packed(_), Slot::Packed(_)))) {
        if let [Slot::Plain(blob)] = run {
            nodes.push(NodeRef::Plain(*blob));
            continue;
        }
        let items = run.iter().filter_map(|slot| match slot {
            Slot::Packed(item) => Some(*item),
            Slot::Plain(_) => None,
        });
        let total: usize = items.clone().map(entry::len_of).sum();
        let parts = total.div_ceil(limits.bytes).max(run.len().div_ceil(limits.count)).max(1);
        let (aim, most) = (total.div_ceil(parts), run.len().div_ceil(parts).max(limits.count / 2));
        let (mut bytes, mut count) = (Vec::new(), 0);
        for item in items {
            let full = bytes.len() >= aim || count >= most.min(limits.count);
            if count > 0 && (full || bytes.len() + entry::len_of(item) > limits.bytes) {
                nodes.push(write(store, &bytes, count)?);
                (bytes, count) = (Vec::new(), 0);
            }
            entry::encode(item, &mut bytes);
            count += 1;
        }
        nodes.push(write(store, &bytes, count)?);
    }
    Ok(nodes)
}

fn write<S: Store>(store: &mut S, bytes: &[u8], count: usize) -> Result<NodeRef, Full> {
    node::create(store, bytes, count, false, bytes.len()).map(NodeRef::Packed)
}

impl List {
    /// Replaces one node, whose block has already been freed, with these nodes.
    pub(super) fn put_nodes<S: Store>(
        self,
        store: &mut S,
        place: &NodePosition,
        nodes: &[NodeRef],
    ) -> Result<List, Error> {
        match *place {
            NodePosition::Single => match nodes {
                [] => Ok(List::EMPTY),
                [only] => Ok(List::single(*only)),
                [head, between @ .., tail] => {
                    let ends = Ends::create(store, *head, *tail)?;
                    between.iter().try_for_each(|&n| ends.insert_at(store, Side::Tail, n))?;
                    Ok(List::many(ends))
                }
            },
            NodePosition::End(ends, side) => {
                let Some((&end, rest)) = (match side {
                    Side::Head => nodes.split_first(),
                    Side::Tail => nodes.split_last(),
                }) else {
                    return self.refill(store, ends, side);
                };
                ends.set_node(store, side, end);
                match side {
                    Side::Head => {
                        rest.iter().rev().try_for_each(|&n| ends.insert_at(store, side, n))?;
                    }
                    Side::Tail => rest.iter().try_for_each(|&n| ends.insert_at(store, side, n))?,
                }
                Ok(self)
            }
            NodePosition::Between(ends, ref at) => {
                let Some((&first, rest)) = nodes.split_first() else {
                    ends.remove(store, at)?;
                    return Ok(self);
                };
                let before = ends.tree().rank(store, at);
                ends.replace(store, at, first)?;
                let mut next = before + first.count(store)?;
                for &node in rest {
                    let (at, _) = ends.tree().seek_weight(store, next);
                    ends.insert(store, &at, node)?;
                    next += node.count(store)?;
                }
                Ok(self)
            }
        }
    }

    /// Moves another node to an end whose node is gone; returns the list as it is then.
    pub(super) fn refill<S: Store>(
        self,
        store: &mut S,
        ends: Ends,
        side: Side,
    ) -> Result<List, Error> {
        if let Some(node) = ends.pull(store, side)? {
            ends.set_node(store, side, node);
            return Ok(self);
        }
        let left = ends.node(store, side.other())?;
        store.free(ends.at);
        Ok(List::single(left))
    }

    /// Lays a node out again, with its elements as `change` leaves them. `change` must free the
    /// blobs of elements that it drops. `copy` is a buffer for the node's bytes.
    pub(super) fn rebuild<'a, S: Store>(
        self,
        store: &mut S,
        found: &Found,
        limits: Limits,
        copy: &'a mut Vec<u8>,
        change: impl FnOnce(&mut S, &mut Vec<Slot<'a>>) -> Result<(), Error>,
    ) -> Result<List, Error> {
        let mut slots: Vec<Slot<'a>> = match found.node {
            NodeRef::Plain(blob) => vec![Slot::Plain(blob)],
            NodeRef::Packed(at) => {
                let node = Node::read(store, at)?;
                copy.extend_from_slice(node.bytes(store));
                let slots: Vec<_> = node.elements_of(copy, Side::Head).map(Slot::Packed).collect();
                if slots.len() != node.window.count {
                    return Err(node.damaged("list node's elements").into());
                }
                slots
            }
        };
        change(store, &mut slots)?;
        let nodes = lay_out(store, &slots, limits)?;
        if let NodeRef::Packed(at) = found.node {
            store.free(at);
        }
        self.put_nodes(store, &found.place, &nodes)
    }

    /// Removes a whole node with its elements.
    pub(super) fn drop_node<S: Store>(
        self,
        store: &mut S,
        queue: Queue,
        found: &Found,
    ) -> Result<List, Error> {
        super::free_node(store, queue, found.node)?;
        self.put_nodes(store, &found.place, &[])
    }

    pub(super) fn ends(self) -> Option<Ends> {
        match self.shape() {
            Shape::Many(ends) => Some(ends),
            _ => None,
        }
    }
}
