//! Cuts the front of a tree off as a separate tree.
//!
//! Only the nodes on the path to the cut have entries on both sides of it: the part before it moves
//! to a new node. So the cost follows the tree's height, and the part that was cut off is freed
//! incrementally.

use heap::{Full, Ptr};

use super::Item;
use super::Kind;
use super::cursor::{Cursor, Step};
use super::layout::root_word;
use super::node::{Child, write_inner, write_leaf};
use super::remove::lower;
use crate::Store;

pub(super) fn split_off_front<K: Kind, S: Store>(
    store: &mut S,
    root: Ptr,
    at: &Cursor,
) -> Result<u64, Full> {
    let mut at = *at;
    if !at.advance_to_item(store) {
        // At the end: everything is cut off.
        let all = store.word(root);
        store.set(root, root_word(Ptr::NULL));
        return Ok(all);
    }
    let Some((&Step { mut node, position }, above)) = at.steps().split_last() else {
        return Ok(root_word(Ptr::NULL));
    };
    let items: Vec<Item> = node.items(store).collect();
    let (before, after) = items.split_at(position);
    let mut front = None;
    if !before.is_empty() {
        let leaf = write_leaf(store, before)?;
        front = Some(Child { separator: Item::ZERO, node: leaf, weight: weigh::<K>(before) });
        node.remove(store, 0, position);
    }
    let mut stays = weigh::<K>(after);
    for &Step { mut node, position } in above.iter().rev() {
        let children: Vec<Child> = node.children(store).collect();
        let mut before = children[..position].to_vec();
        before.extend(
            front.take().map(|front| Child { separator: children[position].separator, ..front }),
        );
        node.set_child_weight(store, position, stays);
        let others = children[position + 1..].iter().map(|child| child.weight);
        stays = others.fold(stays, u64::wrapping_add);
        if !before.is_empty() {
            let weight = before.iter().map(|child| child.weight).fold(0, u64::wrapping_add);
            let inner = write_inner(store, node.height, &before)?;
            front = Some(Child { separator: Item::ZERO, node: inner, weight });
        }
        if position > 0 {
            node.remove(store, 0, position);
        }
    }
    lower(store, root);
    Ok(root_word(front.map_or(Ptr::NULL, |front| front.node)))
}

fn weigh<K: Kind>(items: &[Item]) -> u64 {
    items.iter().map(|&item| K::weight(item)).fold(0, u64::wrapping_add)
}
