//! Insertion, and the split of full nodes.
//!
//! The left half of a split stays where it is: its order drops the slots of the right half, which
//! goes to a new block. So a split writes one block and frees none. An item after all others begins
//! a new leaf and leaves the full one full: trees that grow at their end, as with lists, streams
//! and rising scores, have full leaves.

use heap::{Full, Ptr};

use super::cursor::{Cursor, Step};
use super::layout::{INNER_SLOTS, LEAF_SLOTS, MAX_LEVELS, is_empty_root, root_word};
use super::node::{Child, Node, write_inner, write_leaf};
use super::{Item, Kind};
use crate::Store;

/// The result of a split: the node's own weight, and the new node after it.
struct Split {
    left: u64,
    right: Child,
}

pub(super) fn insert<K: Kind, S: Store>(
    store: &mut S,
    root: Ptr,
    at: &Cursor,
    item: Item,
) -> Result<(), Full> {
    let Some((leaf, above)) = at.steps().split_last() else {
        // A tree whose root makes no sense accepts no item: the items that it should lead to must
        // not be hidden.
        if !is_empty_root(store.word(root)) {
            return Err(Full);
        }
        let leaf = write_leaf(store, &[item])?;
        store.set(root, root_word(leaf));
        return Ok(());
    };
    let mut split = None;
    let mut node = leaf.node;
    if node.is_full() {
        if above.len() + 1 == MAX_LEVELS {
            return Err(Full);
        }
        split = Some(split_leaf::<K, S>(store, leaf, at.is_at_end(), item)?);
    } else {
        node.insert_item(store, leaf.position, item);
    }
    if leaf.position == 0 && K::SORTED {
        set_separator(store, above, item);
    }
    for step in above.iter().rev() {
        split = add(store, step, K::weight(item), split, at.is_at_end())?;
    }
    if let Some(split) = split {
        let old = above.first().map_or(leaf.node.at, |step| step.node.at);
        let first = Child { separator: Item::ZERO, node: old, weight: split.left };
        let node = write_inner(store, above.len() + 1, &[first, split.right])?;
        store.set(root, root_word(node));
    }
    Ok(())
}

/// Updates the separator of the leaf at the end of these steps to its first item, if it has a
/// separator.
pub(super) fn set_separator<S: Store>(store: &mut S, above: &[Step], first: Item) {
    if let Some(step) = above.iter().rev().find(|step| step.position > 0) {
        step.node.set_separator(store, step.position, first);
    }
}

/// Adds the inserted weight below a step, and the node that a split below created.
fn add<S: Store>(
    store: &mut S,
    step: &Step,
    weight: u64,
    split: Option<Split>,
    at_the_end: bool,
) -> Result<Option<Split>, Full> {
    let Step { mut node, position } = *step;
    let Some(Split { left, right }) = split else {
        let old = node.child_weight(store, position);
        node.set_child_weight(store, position, old.wrapping_add(weight));
        return Ok(None);
    };
    node.set_child_weight(store, position, left);
    if node.is_full() {
        return split_inner(store, node, position + 1, right, at_the_end).map(Some);
    }
    node.insert_child(store, position + 1, right);
    Ok(None)
}

fn split_leaf<K: Kind, S: Store>(
    store: &mut S,
    step: &Step,
    at_the_end: bool,
    item: Item,
) -> Result<Split, Full> {
    let Step { mut node, position } = *step;
    let mut items: Vec<Item> = node.items(store).collect();
    items.insert(position, item);
    let keep = if at_the_end { LEAF_SLOTS } else { LEAF_SLOTS / 2 + 1 };
    let (left, right) = items.split_at(keep);
    let new = write_leaf(store, right)?;
    let stay = keep - usize::from(position < keep);
    node.remove(store, stay, node.count() - stay);
    if position < keep {
        node.insert_item(store, position, item);
    }
    let weigh =
        |items: &[Item]| items.iter().map(|&item| K::weight(item)).fold(0, u64::wrapping_add);
    let right = Child { separator: right[0], node: new, weight: weigh(right) };
    Ok(Split { left: weigh(left), right })
}

fn split_inner<S: Store>(
    store: &mut S,
    mut node: Node,
    position: usize,
    child: Child,
    at_the_end: bool,
) -> Result<Split, Full> {
    let mut children: Vec<Child> = node.children(store).collect();
    children.insert(position, child);
    let keep = if at_the_end { INNER_SLOTS } else { INNER_SLOTS / 2 };
    let (left, right) = children.split_at(keep);
    let new = write_inner(store, node.height, right)?;
    let stay = keep - usize::from(position < keep);
    node.remove(store, stay, node.count() - stay);
    if position < keep {
        node.insert_child(store, position, child);
    }
    let weigh =
        |children: &[Child]| children.iter().map(|child| child.weight).fold(0, u64::wrapping_add);
    let right = Child { separator: right[0].separator, node: new, weight: weigh(right) };
    Ok(Split { left: weigh(left), right })
}
