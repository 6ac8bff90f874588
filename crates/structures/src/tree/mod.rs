//! A counted B+tree: an ordered sequence of items of two words, found by order or by weight.
//!
//! The caller defines an item's weight and, if the items are sorted, which item is before which
//! place; it also owns what an item refers to. Sorted sets keep (score, member) with weight 1.
//! Lists keep their nodes, unsorted, with the number of elements as weight: rank and place are
//! found by the sum of weights.
//!
//! The reasons: a node is an array of slots and a header with their order. An insertion writes a
//! free slot, a few words of the header, and one weight for each level above; a removal writes the
//! header and the weights. All of these are logged words: nothing is allocated, copied or freed
//! except when a node splits or is dropped, and a split leaves its left half in place. Copying a
//! leaf would cost as many lines as it has. `docs/format/tree.md` has the format and the counts.
//!
//! Invariants:
//! - every leaf is on the same level; no node is empty; the root has at least two children or is a
//!   leaf;
//! - in a sorted tree, the separator of each child except a node's first is the first item below
//!   that child, word for word: a removed item is nowhere in the tree, so that a comparison may
//!   follow what an item refers to;
//! - the weight next to a child is the sum of the weights of the items below it;
//! - a leaf's checksum is that of its items and their order.
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

/// An element of the tree: two words, which only the caller understands.
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

/// Returns the root word of an empty tree.
pub fn empty_root() -> u64 {
    root_word(Ptr::NULL)
}

/// The kind of a tree's items.
pub trait Kind: Copy {
    /// Whether places are found by comparison. If they are found by weight alone, separators are
    /// not kept.
    const SORTED: bool;

    /// Returns the weight of an item: at least 1.
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

    /// Returns true if it has no items.
    pub fn is_empty<V: View>(&self, view: &V) -> bool {
        layout::is_empty_root(view.word(self.root))
    }

    /// Returns the sum of all weights.
    pub fn weight<V: View>(&self, view: &V) -> u64 {
        let mut end = self.end(view);
        if end.prev(view) { self.rank(view, &end) + end.item(view).map_or(0, K::weight) } else { 0 }
    }

    /// Returns the sum of all weights of a tree that may be damaged: verifies each weight that
    /// contributes to it against its node.
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

    /// Returns a cursor before the first item for which `before` is false. `before` must be true up
    /// to some place, and false after it.
    pub fn seek<V: View>(&self, view: &V, before: impl FnMut(Item) -> bool) -> Cursor {
        self.seek_by(view, |_| None, before)
    }

    /// Like [`Tree::seek`], but `first` decides for most items by their first word alone.
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

    /// Returns a cursor before the item that contains this weight, and how much of the weight falls
    /// into the item itself; at the end if the total is not greater.
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

    /// Like [`Tree::seek_weight`], for a tree that may be damaged: verifies the path.
    pub fn seek_weight_sound<V: View>(
        &self,
        view: &V,
        weight: u64,
    ) -> Result<(Cursor, u64), Damaged> {
        let (cursor, left) = self.seek_weight(view, weight);
        verify_path::check::<K, V>(view, self.root, &cursor)?;
        Ok((cursor, left))
    }

    /// Returns true if the checksum of the leaf of a cursor's item is right; the end of an empty
    /// tree is sound.
    pub fn is_leaf_sound<V: View>(&self, view: &V, at: &Cursor) -> bool {
        let mut at = *at;
        at.advance_to_item(view);
        match at.leaf() {
            Some(leaf) => leaf.node.content_checksum(view) == leaf.node.checksum(),
            None => self.is_empty(view),
        }
    }

    /// Returns true if there is really nothing after a cursor, or before it with `backwards`, and
    /// not just nothing that can be reached.
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

    /// Returns the item after a cursor, verified; `None` at the end. A leaf with a wrong checksum,
    /// and a path that is lost before the end, are damage.
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

    /// Returns the place of the item with this number, and the item, verified like
    /// [`Tree::item_at`]; `None` if there are fewer items. For trees whose items weigh 1.
    pub fn numbered<V: View>(
        &self,
        view: &V,
        number: u64,
    ) -> Result<Option<(Cursor, Item)>, Damaged> {
        let (at, left) = self.seek_weight(view, number);
        match self.item_at(view, &at)? {
            // A weight promises more items than there are: continuing would never end.
            Some(_) if left > 0 => {
                Err(Damaged::new("weight of a tree node", self.root, number - left, number))
            }
            found => Ok(found.map(|item| (at, item))),
        }
    }

    /// Inserts an item before a cursor's. Does nothing in a damaged tree without a path to the
    /// cursor's leaf.
    pub fn insert<S: Store>(&self, store: &mut S, at: &Cursor, item: Item) -> Result<(), Full> {
        insert::insert::<K, S>(store, self.root, at, item)
    }

    /// Fills an empty tree with these items, in their order, at the cost of writing its nodes.
    pub fn fill<S: Store>(&self, store: &mut S, items: &[Item]) -> Result<(), Full> {
        fill::fill::<K, S>(store, self.root, items)
    }

    /// Removes a cursor's item and returns it.
    pub fn remove<S: Store>(&self, store: &mut S, at: &Cursor) -> Option<Item> {
        let mut item = None;
        self.remove_run(store, at, 1, |taken| item = Some(taken));
        item
    }

    /// Removes up to `most` items from a cursor on, in order, as many as are in one leaf: the step
    /// of a bulk removal. Returns how many; 0 at the end.
    pub fn remove_run<S: Store>(
        &self,
        store: &mut S,
        at: &Cursor,
        most: usize,
        taken: impl FnMut(Item),
    ) -> usize {
        remove::remove_run::<K, S>(store, self.root, at, most, taken)
    }

    /// Removes all items before a cursor at once, for the free queue; returns the root word of a
    /// tree that has them. Changes and writes at most one node for each level, however many items
    /// there are.
    pub fn split_off_front<S: Store>(&self, store: &mut S, at: &Cursor) -> Result<u64, Full> {
        split_off::split_off_front::<K, S>(store, self.root, at)
    }

    /// Replaces a cursor's item with another one that belongs to the same place; the cursor stays
    /// valid.
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

    /// Frees about `budget` blocks of a tree that nothing else refers to, from its end; returns how
    /// many. The tree is empty once everything is freed.
    ///
    /// `free_item` frees what an item owns and returns how many blocks that were.
    pub fn free_step<S: Store>(
        &self,
        store: &mut S,
        budget: usize,
        free_item: impl FnMut(&mut S, Item) -> Result<usize, Full>,
    ) -> Result<usize, Full> {
        free::free_step(store, self.root, budget, free_item)
    }

    /// Takes a step of defragmentation over the leaf at a sum of weights; returns where to continue
    /// (0: at the end).
    ///
    /// `relocate_item` may move what an item owns: it returns the new item, or `None` to leave it.
    pub fn relocate<S: Store>(
        &self,
        store: &mut S,
        weight: u64,
        relocate_item: impl FnMut(&mut S, Item) -> Result<Option<Item>, Full>,
    ) -> Result<u64, Full> {
        relocate::relocate(store, *self, weight, relocate_item)
    }

    /// Moves the leaf of a cursor's item, and the nodes above of which it is the first leaf, out of
    /// sparse spans. Invalidates the cursor.
    pub fn relocate_leaf<S: Store>(&self, store: &mut S, at: &Cursor) -> Result<(), Full> {
        let mut at = *at;
        at.advance_to_item(store);
        relocate::move_nodes(store, self.root, &at)
    }

    /// Verifies the leaf at this sum of weights, and the path to it, and visits its items; returns
    /// the sum of the weights up to the next leaf (0 if there is none).
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
            // A lost child does not mean the end.
            None => Err(Damaged::new("way through a tree", leaf.node.at, weight_after, 0)),
        }
    }

    /// Verifies the whole tree, and visits each of its blocks, and its items in order. `rises(a,
    /// b)` returns true if item `b` may come after `a`.
    ///
    /// Its time grows with the size of the tree: for a pool at rest.
    pub fn check<V: View>(
        &self,
        view: &V,
        mut rises: impl FnMut(Item, Item) -> bool,
        mut visit: impl FnMut(Part),
    ) -> Result<(), Damaged> {
        check::check(view, self.root, &Rules::of::<K>(), &mut rises, &mut visit)
    }

    /// Shows every block and item that can be reached, and all damage, in a tree that may be
    /// damaged.
    ///
    /// `visit` returns whether to read a block: it must return false if the block was shown before,
    /// or is no allocated block of at least this many bytes.
    pub fn salvage_walk<V: View>(&self, view: &V, mut visit: impl FnMut(WalkItem) -> bool) {
        salvage_walk::salvage_walk::<K, V>(view, self.root, &mut visit);
    }

    /// Visits the blocks that can be reached and have not been seen, each once, in a tree that may
    /// be damaged.
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

    /// Like [`Tree::salvage_walk_blocks`], with the items of the sound leaves.
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

/// Verifies the leaf of a cursor.
fn check_leaf_of<V: View>(view: &V, at: &Cursor) -> Result<(), Damaged> {
    let Some(leaf) = at.leaf() else { return Ok(()) };
    let (own, said) = (leaf.node.content_checksum(view), leaf.node.checksum());
    Damaged::unless_equal("tree leaf's checksum", leaf.node.at, u64::from(own), u64::from(said))
}

/// Verifies the rest of a tree that is being freed.
pub(crate) fn check_dying<V: View>(
    view: &V,
    root: Ptr,
    visit: &mut dyn FnMut(Part),
) -> Result<(), Damaged> {
    check::check(view, root, &Rules::DYING, &mut |_, _| true, visit)
}

/// Like [`Tree::free_step`], for any kind of tree.
pub(crate) fn free_step<S: Store>(
    store: &mut S,
    root: Ptr,
    budget: usize,
    free_item: impl FnMut(&mut S, Item) -> Result<usize, Full>,
) -> Result<usize, Full> {
    free::free_step(store, root, budget, free_item)
}
