//! Frees a tree that nothing else refers to, leaf by leaf from its end.
//!
//! At every commit the rest is a tree, except for its weights, which nobody reads any more: so a
//! step logs no more than one word for each node that keeps some of its children.

use heap::{Full, Ptr};

use super::Item;
use super::cursor::Cursor;
use super::layout::{is_empty_root, root_word};
use super::node::Node;
use crate::Store;

/// Frees about `budget` blocks, including those that the callback counts; returns how many. The
/// tree is empty once everything is freed.
pub(super) fn free_step<S: Store>(
    store: &mut S,
    root: Ptr,
    budget: usize,
    mut free_item: impl FnMut(&mut S, Item) -> Result<usize, Full>,
) -> Result<usize, Full> {
    let mut freed = 0;
    while freed < budget && !is_empty_root(store.word(root)) {
        let last = |node: &Node| node.count().saturating_sub(usize::from(node.height > 0));
        let end = Cursor::descend(store, root, last);
        let Some((leaf, above)) = end.steps().split_last() else {
            // Damaged: the space of blocks that cannot be reached is lost.
            store.set(root, root_word(Ptr::NULL));
            break;
        };
        // A damaged leaf may belong to another structure by now, and so may what it leads to: the
        // space of all that is lost.
        if leaf.node.content_checksum(store) == leaf.node.checksum() {
            for position in 0..leaf.node.count() {
                let item = leaf.node.item(store, position);
                freed += free_item(store, item)?;
            }
            store.free(leaf.node.at);
        }
        freed += 1;
        let kept = above.iter().rposition(|step| step.node.count() > 1);
        for step in &above[kept.map_or(0, |kept| kept + 1)..] {
            store.free(step.node.at);
            freed += 1;
        }
        match kept {
            Some(kept) => {
                let mut node = above[kept].node;
                let last = node.count() - 1;
                node.remove(store, last, 1);
            }
            None => store.set(root, root_word(Ptr::NULL)),
        }
    }
    Ok(freed)
}
