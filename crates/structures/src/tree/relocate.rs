//! Returns space while the store is in use: moves nodes, and what items own, out of sparse spans.

use heap::{Full, Ptr};

use super::cursor::{Cursor, Step};
use super::layout::root_word;
use super::{Item, Kind, Tree};
use crate::Store;

/// Takes a step over the leaf at `rank`: the leaf, the inner nodes of which it is the first leaf,
/// and its items. Returns where to continue.
pub(super) fn relocate<K: Kind, S: Store>(
    store: &mut S,
    tree: Tree<K>,
    rank: u64,
    mut relocate_item: impl FnMut(&mut S, Item) -> Result<Option<Item>, Full>,
) -> Result<u64, Full> {
    // In a damaged tree nothing moves: its weights may lead to one leaf forever.
    let Ok((at, _)) = tree.seek_weight_sound(store, rank) else { return Ok(0) };
    let Some((leaf, _)) = at.steps().split_last() else { return Ok(0) };
    let (count, mut begin) = (leaf.node.count(), tree.rank(store, &at));
    for position in 0..leaf.position.min(count) {
        begin = begin.saturating_sub(K::weight(leaf.node.item(store, position)));
    }
    move_nodes(store, tree.root, &at)?;
    let mut next = begin;
    for _ in 0..count {
        let (at, _) = tree.seek_weight(store, next);
        let Some(item) = at.item(store) else { return Ok(0) };
        next = next.saturating_add(K::weight(item).max(1));
        if let Some(moved) = relocate_item(store, item)? {
            tree.replace(store, &at, moved);
        }
    }
    let more = tree.seek_weight(store, next).0.item(store).is_some();
    Ok(if more { next } else { 0 })
}

/// Moves the leaf at a cursor, and the inner nodes above it as long as it is the first leaf below
/// them.
pub(super) fn move_nodes<S: Store>(store: &mut S, root: Ptr, at: &Cursor) -> Result<(), Full> {
    let steps = at.steps();
    for level in (0..steps.len()).rev() {
        let node = steps[level].node;
        if store.is_sparse(node.at) {
            let moved = node.copy(store)?;
            store.free(node.at);
            match level.checked_sub(1).map(|above| steps[above]) {
                Some(Step { node: parent, position }) => {
                    parent.set_child_node(store, position, moved);
                }
                None => store.set(root, root_word(moved)),
            }
        }
        if level > 0 && steps[level - 1].position > 0 {
            break;
        }
    }
    Ok(())
}
