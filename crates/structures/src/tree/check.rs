//! Verifies a tree: every invariant of its format.
//!
//! It visits each block and each item once, in order, so that the caller can compare the reachable
//! blocks with the allocated ones. It is for a pool at rest: its time grows with the size of the
//! tree. The recursion is as deep as the tree is high.

use heap::{Ptr, View};

use super::layout::*;
use super::node::{Child, Node};
use super::{Item, Kind, verify_path};
use crate::Damaged;

/// Something reachable in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A block of the tree itself.
    Block(Ptr),
    /// An item.
    Item(Item),
}

/// What is known about the items.
pub(super) struct Rules {
    weight: Option<fn(Item) -> u64>,
    sorted: bool,
}

impl Rules {
    pub(super) const fn of<K: Kind>() -> Rules {
        Rules { weight: Some(K::weight), sorted: K::SORTED }
    }

    /// For a tree that is being freed, whose weights and root are out of date.
    pub(super) const DYING: Rules = Rules { weight: None, sorted: false };
}

/// Verifies a tree. `rises(a, b)` returns true if item `b` may come after `a`.
pub(super) fn check<V: View>(
    view: &V,
    root: Ptr,
    rules: &Rules,
    rises: &mut dyn FnMut(Item, Item) -> bool,
    visit: &mut dyn FnMut(Part),
) -> Result<(), Damaged> {
    let Some(at) = top(view, root) else { return verify_path::check_empty(view, root) };
    let Some(top) = Node::read(view, at, None) else { return no_node(view, at, "tree root") };
    if top.height > 0 && rules.weight.is_some() {
        let most = u64::from(top.count() > 1);
        Damaged::unless_equal("tree root's number of children", at, 1, most)?;
    }
    Check { view, rules, rises, visit, last: None }.node(at, top.height).map(drop)
}

fn no_node<V: View>(view: &V, at: Ptr, what: &'static str) -> Result<(), Damaged> {
    let found = view.word(at);
    Damaged::unless_equal(
        what,
        at,
        kind(height_of(found).unwrap_or(0), checksum_of(found)),
        found,
    )?;
    // The kind is right, so the order is wrong.
    Err(Damaged::new("tree node's order", word_at(at, ORDER), 0, view.word(word_at(at, ORDER))))
}

struct Check<'c, V> {
    view: &'c V,
    rules: &'c Rules,
    rises: &'c mut dyn FnMut(Item, Item) -> bool,
    visit: &'c mut dyn FnMut(Part),
    /// The previous item.
    last: Option<Item>,
}

impl<V: View> Check<'_, V> {
    /// Returns the weight and the first item below a node.
    fn node(&mut self, at: Ptr, height: usize) -> Result<(u64, Item), Damaged> {
        let Some(node) = Node::read(self.view, at, Some(height)) else {
            no_node(self.view, at, "tree node")?;
            return Err(Damaged::new("tree node's height", at, height as u64, self.view.word(at)));
        };
        (self.visit)(Part::Block(at));
        let order = word_at(at, ORDER);
        let sound = node.order.is_sound(slots(height)) && node.count() > 0;
        Damaged::unless_equal("tree node's order", order, 1, u64::from(sound))?;
        for spare in (ORDER + ORDER_WORDS..header(height)).map(|word| word_at(at, word)) {
            Damaged::unless_equal("spare word of a tree node", spare, 0, self.view.word(spare))?;
        }
        if height == 0 { self.leaf(&node) } else { self.inner(&node) }
    }

    fn leaf(&mut self, leaf: &Node) -> Result<(u64, Item), Damaged> {
        let expected = u64::from(leaf.content_checksum(self.view));
        Damaged::unless_equal(
            "tree leaf's checksum",
            leaf.at,
            expected,
            u64::from(leaf.checksum()),
        )?;
        let mut weight = 0u64;
        for item in leaf.items(self.view) {
            let own = self.rules.weight.map_or(1, |weight| weight(item));
            Damaged::unless_equal("weight of a tree's item", leaf.at, own.max(1), own)?;
            weight = weight.wrapping_add(own);
            let rises = self.last.is_none_or(|last| (self.rises)(last, item));
            if !rises {
                return Err(Damaged::new("order of a tree's items", leaf.at, 0, item.first));
            }
            self.last = Some(item);
            (self.visit)(Part::Item(item));
        }
        Ok((weight, leaf.item(self.view, 0)))
    }

    fn inner(&mut self, inner: &Node) -> Result<(u64, Item), Damaged> {
        Damaged::unless_equal(
            "checksum of an inner node",
            inner.at,
            0,
            u64::from(inner.checksum()),
        )?;
        let (mut total, mut first_of_all) = (0u64, Item::ZERO);
        for position in 0..inner.count() {
            let Child { separator, node, weight } = inner.child(self.view, position);
            let (found, first) = self.node(node, inner.height - 1)?;
            if self.rules.weight.is_some() {
                Damaged::unless_equal("weight of a tree node", node, found, weight)?;
            }
            if position == 0 {
                first_of_all = first;
            } else if self.rules.sorted {
                let (at, what) = (inner.at, "tree separator");
                Damaged::unless_equal(what, at, first.first, separator.first)?;
                Damaged::unless_equal(what, at, first.second, separator.second)?;
            }
            total = total.wrapping_add(weight);
        }
        Ok((total, first_of_all))
    }
}
