//! Creates a tree from all its items at once: node by node, each written once.
//!
//! The nodes are as full as those of a tree that grew at its end ([`super::insert`]); the last one
//! of each level has the rest.

use heap::{Full, Ptr};

use super::layout::{INNER_SLOTS, LEAF_SLOTS, MAX_LEVELS, is_empty_root, root_word};
use super::node::{Child, write_inner, write_leaf};
use super::{Item, Kind};
use crate::Store;

/// Fills an empty tree with these items, in their order.
pub(super) fn fill<K: Kind, S: Store>(
    store: &mut S,
    root: Ptr,
    items: &[Item],
) -> Result<(), Full> {
    if !is_empty_root(store.word(root)) {
        return Err(Full);
    }
    let leaf = |items: &[Item]| {
        let weight = items.iter().map(|&item| K::weight(item)).fold(0, u64::wrapping_add);
        Ok(Child { separator: items[0], node: write_leaf(store, items)?, weight })
    };
    let mut level: Vec<Child> = items.chunks(LEAF_SLOTS).map(leaf).collect::<Result<_, Full>>()?;
    let mut height = 0;
    while level.len() > 1 {
        height += 1;
        if height == MAX_LEVELS {
            return Err(Full);
        }
        level = above(store, height, &level)?;
    }
    level.iter().for_each(|top| store.set(root, root_word(top.node)));
    Ok(())
}

/// Writes the nodes of the level above these.
fn above<S: Store>(store: &mut S, height: usize, level: &[Child]) -> Result<Vec<Child>, Full> {
    let inner = |children: &[Child]| {
        let weight = children.iter().map(|child| child.weight).fold(0, u64::wrapping_add);
        let node = write_inner(store, height, children)?;
        Ok(Child { separator: children[0].separator, node, weight })
    };
    level.chunks(INNER_SLOTS).map(inner).collect()
}
