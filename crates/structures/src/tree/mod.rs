//! A counted B+tree: an ordered sequence of items of two words, found by order or by weight.
//!
//! The caller says what an item's weight is and, where the items are sorted, which item is
//! before which place; what an item refers to is the caller's. Sorted sets keep (score, member)
//! with weight 1, lists the nodes of their elements with as much weight as each has elements,
//! unsorted: rank and place are found by the sum of weights.
//!
//! Why so. A node is an array of slots and a header that says in what order they stand: an
//! insertion writes a free slot, few words of the header, and one weight for each level above; a
//! removal writes the header and the weights. All of these are logged words: nothing is allocated,
//! copied or freed but when a node splits or is given up, and a split leaves its left half where it
//! is. A copied leaf would cost as many lines as it has. `docs/format/tree.md` has the format and
//! the counts.
//!
//! Invariants:
//! - every leaf is on the same level; no node is empty; the root has at least two children or is a
//!   leaf;
//! - in a sorted tree the separator of each child but a node's first is the first item below that
//!   child, word for word: an item that is gone is nowhere in the tree, so that a comparison may
//!   follow what an item refers to;
//! - the weight next to a child is the sum of the weights of the items below it;
//! - a leaf's sum is that of its items and their order.
//!
//! The tree does not know scores, members, elements or keys.

mod check;
mod cursor;
mod fill;
mod free;
mod insert;
mod layout;
mod node;
mod order;
mod relocate;
mod remove;
mod salvage_walk;
mod split_off;
mod verify_path;

use std::collections::HashSet;
use std::marker::PhantomData;

use heap::{Full, Ptr, View};

pub use check::Part;
pub use cursor::Cursor;
pub use layout::{INNER_SLOTS, LEAF_SLOTS};
pub(crate) use layout::{leads_to, root_word};
pub use salvage_walk::WalkItem;

use crate::{Damaged, Store};
use check::Rules;
use node::Node;

/// What the tree orders: two words, which only the caller understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Item {
    /// The word that is compared first, if the caller sorts by words.
    pub first: u64,
    /// The other word.
    pub second: u64,
}

impl Item {
    const ZERO: Item = Item { first: 0, second: 0 };
}

/// Returns the root word of a tree without items.
pub fn empty_root() -> u64 {
    root_word(Ptr::NULL)
}

/// What the items of a tree are.
pub trait Kind: Copy {
    /// Whether places are found by comparison. Where they are found by weight alone, separators are
    /// not kept.
    const SORTED: bool;

    /// Returns how much an item counts: at least 1.
    fn weight(item: Item) -> u64;
}

/// A tree, known by the address of its root word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree<K> {
    root: Ptr,
    kind: PhantomData<K>,
}

impl<K: Kind> Tree<K> {
    /// Returns the tree whose root word is at `root`.
    pub const fn at(root: Ptr) -> Tree<K> {
        Tree { root, kind: PhantomData }
    }

    /// Returns true if it has no item.
    pub fn is_empty<V: View>(&self, view: &V) -> bool {
        layout::is_empty_root(view.word(self.root))
    }

    /// Returns the sum of all weights.
    pub fn weight<V: View>(&self, view: &V) -> u64 {
        let mut end = self.end(view);
        if end.prev(view) { self.rank(view, &end) + end.item(view).map_or(0, K::weight) } else { 0 }
    }

    /// Returns the sum of all weights, of a tree that may be damaged: each weight that it is made
    /// of is compared with the node that it tells of.
    pub fn weight_sound<V: View>(&self, view: &V) -> Result<u64, Damaged> {
        verify_path::check_weights::<K, V>(view, &self.end(view))?;
        Ok(self.weight(view))
    }

    /// Returns a cursor before the first item.
    pub fn begin<V: View>(&self, view: &V) -> Cursor {
        Cursor::descend(view, self.root, |_| 0)
    }

    /// Returns a cursor after the last item.
    pub fn end<V: View>(&self, view: &V) -> Cursor {
        let last = |node: &Node| node.count().saturating_sub(usize::from(node.height > 0));
        Cursor::descend(view, self.root, last)
    }

    /// Returns a cursor before the first item of which `before`, which is true of items up to some
    /// place and of none after it, is not true.
    pub fn seek<V: View>(&self, view: &V, before: impl FnMut(Item) -> bool) -> Cursor {
        self.seek_by(view, |_| None, before)
    }

    /// As [`Tree::seek`], where `first` knows of most items by their first word alone whether they
    /// are before the place.
    pub fn seek_by<V: View>(
        &self,
        view: &V,
        first: impl Fn(u64) -> Option<bool>,
        mut before: impl FnMut(Item) -> bool,
    ) -> Cursor {
        Cursor::descend(view, self.root, |node| match node.height {
            0 => node.partition(view, 0, &first, &mut before),
            _ => node.partition(view, 1, &first, &mut before).saturating_sub(1),
        })
    }

    /// Returns a cursor before the item in which this much weight before it ends, and how much of
    /// it is the item's own; at the end where there is not more in all.
    pub fn seek_weight<V: View>(&self, view: &V, weight: u64) -> (Cursor, u64) {
        let mut left = weight;
        let cursor = Cursor::descend(view, self.root, |node| {
            let (count, is_leaf) = (node.count(), node.height == 0);
            for position in 0..count {
                let own = match is_leaf {
                    true => K::weight(node.item(view, position)),
                    false => node.child_weight(view, position),
                };
                if left < own || !is_leaf && position + 1 == count {
                    return position;
                }
                left -= own;
            }
            count
        });
        (cursor, left)
    }

    /// As [`Tree::seek_weight`], of a tree that may be damaged: what leads there is verified.
    pub fn seek_weight_sound<V: View>(
        &self,
        view: &V,
        weight: u64,
    ) -> Result<(Cursor, u64), Damaged> {
        let (cursor, left) = self.seek_weight(view, weight);
        verify_path::check::<K, V>(view, self.root, &cursor)?;
        Ok((cursor, left))
    }

    /// Returns true if the leaf of a cursor's item has the sum of its items; the end of an empty
    /// tree is sound.
    pub fn is_leaf_sound<V: View>(&self, view: &V, at: &Cursor) -> bool {
        let mut at = *at;
        at.advance_to_item(view);
        match at.leaf() {
            Some(leaf) => leaf.node.content_checksum(view) == leaf.node.checksum(),
            None => self.is_empty(view),
        }
    }

    /// Returns true if nothing is after a cursor, or, `backwards`, before it: and not only nothing
    /// that can be reached.
    pub fn is_edge<V: View>(&self, view: &V, at: &Cursor, backwards: bool) -> bool {
        let is_edge = if backwards { at.is_at_start() } else { at.is_at_end() };
        is_edge && at.leaf().is_some() || self.is_empty(view)
    }

    /// Returns the sum of the weights before a cursor.
    pub fn rank<V: View>(&self, view: &V, cursor: &Cursor) -> u64 {
        let before = |step: &cursor::Step| -> u64 {
            let positions = 0..step.position.min(step.node.count());
            match step.node.height {
                0 => positions.map(|i| K::weight(step.node.item(view, i))).sum(),
                _ => positions.map(|i| step.node.child_weight(view, i)).fold(0, u64::wrapping_add),
            }
        };
        cursor.steps().iter().map(before).fold(0, u64::wrapping_add)
    }

    /// Returns the item that a cursor is before, verified; none at the end. A leaf that is not as
    /// it was written, and a way that is lost before the end, are damage.
    pub fn item_at<V: View>(&self, view: &V, at: &Cursor) -> Result<Option<Item>, Damaged> {
        let mut at = *at;
        check_leaf_of(view, &at)?;
        let found = at.advance_to_item(view);
        if found {
            check_leaf_of(view, &at)?;
            return Ok(at.item(view));
        }
        let mut last = at;
        match self.is_empty(view) || at.is_at_end() && last.prev(view) {
            true => Ok(None),
            false => Err(Damaged::new("way through a tree", self.root, 0, view.word(self.root))),
        }
    }

    /// Returns where the item of this number is, and the item, verified as by [`Tree::item_at`];
    /// none where there are no more. For trees whose items weigh 1.
    pub fn numbered<V: View>(
        &self,
        view: &V,
        number: u64,
    ) -> Result<Option<(Cursor, Item)>, Damaged> {
        let (at, left) = self.seek_weight(view, number);
        match self.item_at(view, &at)? {
            // A weight says more than there is: to go on would have no end.
            Some(_) if left > 0 => {
                Err(Damaged::new("weight of a tree node", self.root, number - left, number))
            }
            found => Ok(found.map(|item| (at, item))),
        }
    }

    /// Puts an item before a cursor's. In a damaged tree without a way to the cursor's leaf nothing
    /// happens.
    pub fn insert<S: Store>(&self, store: &mut S, at: &Cursor, item: Item) -> Result<(), Full> {
        insert::insert::<K, S>(store, self.root, at, item)
    }

    /// Makes an empty tree have these items, in their order, at the cost of its nodes.
    pub fn fill<S: Store>(&self, store: &mut S, items: &[Item]) -> Result<(), Full> {
        fill::fill::<K, S>(store, self.root, items)
    }

    /// Takes a cursor's item out and answers it.
    pub fn remove<S: Store>(&self, store: &mut S, at: &Cursor) -> Option<Item> {
        let mut item = None;
        self.remove_run(store, at, 1, |taken| item = Some(taken));
        item
    }

    /// Takes out up to `most` items from a cursor on, in order, as many as stand in one leaf: the
    /// step of a bulk removal. Answers how many; 0 at the end.
    pub fn remove_run<S: Store>(
        &self,
        store: &mut S,
        at: &Cursor,
        most: usize,
        taken: impl FnMut(Item),
    ) -> usize {
        remove::remove_run::<K, S>(store, self.root, at, most, taken)
    }

    /// Takes all items before a cursor out at once, for the free queue: the root word of a tree
    /// that has them. Changes and writes at most one node for each level, however many items there
    /// are.
    pub fn split_off_front<S: Store>(&self, store: &mut S, at: &Cursor) -> Result<u64, Full> {
        split_off::split_off_front::<K, S>(store, self.root, at)
    }

    /// Puts another item, which belongs to the same place, in the place of a cursor's; the cursor
    /// stays valid.
    pub fn replace<S: Store>(&self, store: &mut S, at: &Cursor, item: Item) {
        let mut at = *at;
        if !at.advance_to_item(store) {
            return;
        }
        let Some((leaf, above)) = at.steps().split_last() else { return };
        let old = leaf.node.item(store, leaf.position);
        leaf.node.reread(store).replace_item(store, leaf.position, item);
        let (less, more) = (K::weight(old), K::weight(item));
        if less != more {
            for step in above {
                let weight = step.node.child_weight(store, step.position);
                let weight = weight.wrapping_sub(less).wrapping_add(more);
                step.node.set_child_weight(store, step.position, weight);
            }
        }
        if leaf.position == 0 && K::SORTED {
            insert::set_separator(store, above, item);
        }
    }

    /// Frees about `budget` blocks of a tree that nothing else refers to, from its end; answers how
    /// many. The tree is empty once all is free.
    ///
    /// `free_item` frees what an item owns and answers how many blocks that were.
    pub fn free_step<S: Store>(
        &self,
        store: &mut S,
        budget: usize,
        free_item: impl FnMut(&mut S, Item) -> Result<usize, Full>,
    ) -> Result<usize, Full> {
        free::free_step(store, self.root, budget, free_item)
    }

    /// Takes a step of defragmentation over the leaf at a sum of weights; answers where to go on
    /// (0: the end).
    ///
    /// `relocate_item` may move what an item owns: it answers the item as it is then, or `None` to
    /// leave it.
    pub fn relocate<S: Store>(
        &self,
        store: &mut S,
        weight: u64,
        relocate_item: impl FnMut(&mut S, Item) -> Result<Option<Item>, Full>,
    ) -> Result<u64, Full> {
        relocate::relocate(store, *self, weight, relocate_item)
    }

    /// Moves the leaf of a cursor's item, and the nodes above it that it is the first below, out of
    /// sparse spans. The cursor is invalid then.
    pub fn relocate_leaf<S: Store>(&self, store: &mut S, at: &Cursor) -> Result<(), Full> {
        let mut at = *at;
        at.advance_to_item(store);
        relocate::move_nodes(store, self.root, &at)
    }

    /// Verifies the leaf in which this much weight before an item ends, and the way to it, and
    /// visits its items; the sum of the weights up to the next leaf (0: there is none).
    pub fn check_leaf<V: View>(
        &self,
        view: &V,
        weight: u64,
        mut visit: impl FnMut(Item),
    ) -> Result<u64, Damaged> {
        let (at, _) = self.seek_weight_sound(view, weight)?;
        let Some(leaf) = at.leaf() else { return Ok(0) };
        let sum = (u64::from(leaf.node.content_checksum(view)), u64::from(leaf.node.checksum()));
        Damaged::unless_equal("tree leaf's checksum", leaf.node.at, sum.0, sum.1)?;
        let mut weight_after = self.rank(view, &at);
        for (position, item) in leaf.node.items(view).enumerate() {
            if position >= leaf.position {
                weight_after = weight_after.saturating_add(K::weight(item));
            }
            visit(item);
        }
        let (next, _) = self.seek_weight(view, weight_after);
        match next.item(view) {
            Some(_) => Ok(weight_after),
            None if self.is_edge(view, &next, false) => Ok(0),
            // A lost child is not the end.
            None => Err(Damaged::new("way through a tree", leaf.node.at, weight_after, 0)),
        }
    }

    /// Verifies the whole tree, and visits each of its blocks, and its items in order. `rises(a,
    /// b)` says whether item `b` may stand behind `a`.
    ///
    /// Takes as long as the tree is large: for a pool at rest.
    pub fn check<V: View>(
        &self,
        view: &V,
        mut rises: impl FnMut(Item, Item) -> bool,
        mut visit: impl FnMut(Part),
    ) -> Result<(), Damaged> {
        check::check(view, self.root, &Rules::of::<K>(), &mut rises, &mut visit)
    }

    /// Shows every block and item that can be reached, and all that is wrong, in a tree that may be
    /// damaged.
    ///
    /// `visit` answers whether a block is to be read: it must not be when it was shown before, or
    /// is no allocated block of at least this many bytes.
    pub fn salvage_walk<V: View>(&self, view: &V, mut visit: impl FnMut(WalkItem) -> bool) {
        salvage_walk::salvage_walk::<K, V>(view, self.root, &mut visit);
    }

    /// Visits the blocks that can be reached and were not seen, each once, in a tree that may be
    /// damaged.
    pub fn salvage_walk_blocks<V: View>(
        &self,
        view: &V,
        seen: &mut HashSet<Ptr>,
        mut visit: impl FnMut(Ptr),
    ) {
        self.salvage_walk_all(view, seen, |part| {
            if let Part::Block(at) = part {
                visit(at);
            }
        });
    }

    /// As [`Tree::salvage_walk_blocks`], with the items of the leaves that are sound.
    pub fn salvage_walk_all<V: View>(
        &self,
        view: &V,
        seen: &mut HashSet<Ptr>,
        mut visit: impl FnMut(Part),
    ) {
        self.salvage_walk(view, |found| {
            match found {
                WalkItem::Block(at, _) if !seen.insert(at) => return false,
                WalkItem::Block(at, _) => visit(Part::Block(at)),
                WalkItem::Item(item) => visit(Part::Item(item)),
                WalkItem::Damage(_) => {}
            }
            true
        });
    }
}

/// Verifies the leaf that a cursor is in.
fn check_leaf_of<V: View>(view: &V, at: &Cursor) -> Result<(), Damaged> {
    let Some(leaf) = at.leaf() else { return Ok(()) };
    let (own, said) = (leaf.node.content_checksum(view), leaf.node.checksum());
    Damaged::unless_equal("tree leaf's checksum", leaf.node.at, u64::from(own), u64::from(said))
}

/// Verifies what is left of a tree that is being freed.
pub(crate) fn check_dying<V: View>(
    view: &V,
    root: Ptr,
    visit: &mut dyn FnMut(Part),
) -> Result<(), Damaged> {
    check::check(view, root, &Rules::DYING, &mut |_, _| true, visit)
}

/// As [`Tree::free_step`], of whatever kind.
pub(crate) fn free_step<S: Store>(
    store: &mut S,
    root: Ptr,
    budget: usize,
    free_item: impl FnMut(&mut S, Item) -> Result<usize, Full>,
) -> Result<usize, Full> {
    free::free_step(store, root, budget, free_item)
}
