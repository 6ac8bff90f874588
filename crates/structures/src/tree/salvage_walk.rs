//! Walks a tree that may be damaged: shows everything that can be reached, and reports all damage.
//!
//! Each block is shown before it is read, and read only if the visitor confirms that it belongs to
//! this shard and has not been seen: a flipped pointer leads nowhere twice, and a child is lower
//! than its parent, so that the walk ends on any bytes. The items of a leaf whose checksum is wrong
//! are not shown: any of them may be wrong.

use heap::{Ptr, View};

use super::layout::*;
use super::node::{Child, Node};
use super::{Item, Kind, verify_path};
use crate::Damaged;

/// What the walk finds.
#[derive(Clone, Copy, Debug)]
pub enum WalkItem {
    /// A block of the tree, of at least this many bytes. The visitor returns whether to read it.
    Block(Ptr, usize),
    /// An item of a sound leaf.
    Item(Item),
    /// Damage.
    Damage(Damaged),
}

/// Shows everything below the root word at `root`.
pub(super) fn salvage_walk<K: Kind, V: View>(
    view: &V,
    root: Ptr,
    visit: &mut dyn FnMut(WalkItem) -> bool,
) {
    let (weight, sorted) = (K::weight, K::SORTED);
    match (top(view, root), verify_path::check_empty(view, root)) {
        (Some(at), _) => SalvageWalk { view, visit, weight, sorted }.root(root, at),
        (None, Err(damage)) => drop(visit(WalkItem::Damage(damage))),
        (None, Ok(())) => {}
    }
}

struct SalvageWalk<'s, V> {
    view: &'s V,
    visit: &'s mut dyn FnMut(WalkItem) -> bool,
    weight: fn(Item) -> u64,
    sorted: bool,
}

impl<V: View> SalvageWalk<'_, V> {
    fn damage(&mut self, what: &'static str, at: Ptr, expected: u64, found: u64) {
        (self.visit)(WalkItem::Damage(Damaged::new(what, at, expected, found)));
    }

    fn root(&mut self, from: Ptr, at: Ptr) {
        // Only the node itself knows its height, and so its size.
        if !(self.visit)(WalkItem::Block(at, LEAF)) {
            return self.damage("tree root", from, 0, at.raw());
        }
        let height = height_of(self.view.word(at)).unwrap_or(0);
        self.read(at, height);
    }

    /// Returns the weight and the first item below a node, if all of it is sound.
    fn node(&mut self, from: Ptr, at: Ptr, height: usize) -> Option<(u64, Item)> {
        if at.is_null() || !(self.visit)(WalkItem::Block(at, size(height))) {
            self.damage("tree node's place", from, 0, at.raw());
            return None;
        }
        self.read(at, height)
    }

    fn read(&mut self, at: Ptr, height: usize) -> Option<(u64, Item)> {
        let node = Node::read(self.view, at, Some(height));
        let sound = node.filter(|node| {
            let spare = (ORDER + ORDER_WORDS..header(height)).map(|word| word_at(at, word));
            node.count() > 0
                && node.order.is_sound(slots(height))
                && (height == 0 || node.checksum() == 0)
                && spare.into_iter().all(|word| self.view.word(word) == 0)
        });
        let Some(node) = sound else {
            self.damage("tree node", at, kind(height, 0), self.view.word(at));
            return None;
        };
        if height == 0 { self.leaf(&node) } else { self.inner(&node) }
    }

    fn leaf(&mut self, leaf: &Node) -> Option<(u64, Item)> {
        let sum = leaf.content_checksum(self.view);
        if sum != leaf.checksum() {
            self.damage(
                "tree leaf's checksum",
                leaf.at,
                u64::from(sum),
                u64::from(leaf.checksum()),
            );
            return None;
        }
        let mut weight = 0u64;
        for item in leaf.items(self.view) {
            weight = weight.wrapping_add((self.weight)(item));
            (self.visit)(WalkItem::Item(item));
        }
        Some((weight, leaf.item(self.view, 0)))
    }

    fn inner(&mut self, inner: &Node) -> Option<(u64, Item)> {
        let mut all = Some((0u64, Item::ZERO));
        for (position, child) in inner.children(self.view).enumerate() {
            let found = self.node(inner.at, child.node, inner.height - 1);
            if let Some((weight, first)) = found {
                self.compare(inner, position, &child, (weight, first));
            }
            all = all.zip(found).map(|((total, first), (weight, own))| {
                (total.wrapping_add(weight), if position == 0 { own } else { first })
            });
        }
        all
    }

    fn compare(&mut self, inner: &Node, position: usize, child: &Child, found: (u64, Item)) {
        let (weight, first) = found;
        if weight != child.weight {
            self.damage("weight of a tree node", child.node, weight, child.weight);
        }
        if position > 0 && self.sorted && first != child.separator {
            self.damage("tree separator", inner.at, first.first, child.separator.first);
        }
    }
}
