//! Removal, and the treatment of nodes with few entries left.
//!
//! A node without entries is freed immediately. A node that together with a neighbour has no more
//! than half a node's entries is merged with it: the right one's entries move into free slots of
//! the left one. A root with one child is replaced by that child.

use heap::{Ptr, View};

use super::cursor::{Cursor, Step};
use super::insert::set_separator;
use super::layout::{root_word, slots, top};
use super::node::{self, Node};
use super::{Item, Kind};
use crate::Store;

/// Removes up to `most` items of the leaf at a cursor, from there on; returns how many.
pub(super) fn remove_run<K: Kind, S: Store>(
    store: &mut S,
    root: Ptr,
    at: &Cursor,
    most: usize,
    mut taken: impl FnMut(Item),
) -> usize {
    let mut at = *at;
    if !at.advance_to_item(store) {
        return 0;
    }
    let Some((&Step { mut node, position }, above)) = at.steps().split_last() else { return 0 };
    let some = most.min(node.count() - position);
    let mut weight = 0u64;
    for position in position..position + some {
        let item = node.item(store, position);
        weight = weight.wrapping_add(K::weight(item));
        taken(item);
    }
    if some == 0 {
        return 0;
    }
    for step in above {
        let old = step.node.child_weight(store, step.position);
        step.node.set_child_weight(store, step.position, old.wrapping_sub(weight));
    }
    let is_changed = if some == node.count() {
        remove_node::<K, S>(store, root, above, node);
        true
    } else {
        node.remove(store, position, some);
        if position == 0 && K::SORTED {
            let first = node.item(store, 0);
            set_separator(store, above, first);
        }
        merge(store, above, node.count())
    };
    if is_changed {
        lower(store, root);
    }
    some
}

/// Frees a node without entries, and the nodes above it that have no other child.
fn remove_node<K: Kind, S: Store>(store: &mut S, root: Ptr, above: &[Step], node: Node) {
    store.free(node.at);
    let Some((&Step { node: mut parent, position }, higher)) = above.split_last() else {
        return store.set(root, root_word(Ptr::NULL));
    };
    if parent.count() == 1 {
        return remove_node::<K, S>(store, root, higher, parent);
    }
    if position == 0 && K::SORTED {
        let first = parent.item(store, 1);
        set_separator(store, higher, first);
    }
    parent.remove(store, position, 1);
    merge(store, higher, parent.count());
}

/// Merges the node that the last of these steps leads to, which has `count` entries, with a
/// neighbour below the same parent, if both are small, and so on upwards. Returns true if it was
/// merged.
fn merge<S: Store>(store: &mut S, above: &[Step], count: usize) -> bool {
    let Some((step, higher)) = above.split_last() else { return false };
    let most = slots(step.node.height - 1) / 2;
    // It is half full by itself: no need to look at its neighbours.
    if count >= most {
        return false;
    }
    let Some(parent) = Node::read(store, step.node.at, Some(step.node.height)) else {
        return false;
    };
    let position = step.position;
    let is_small = |store: &S, neighbour: usize| {
        neighbour < parent.count()
            && count + node::count_at(store, parent.child_node(store, neighbour)) <= most
    };
    let merged =
        position > 0 && is_small(store, position - 1) && merge_pair(store, parent, position - 1)
            || is_small(store, position + 1) && merge_pair(store, parent, position);
    if merged {
        merge(store, higher, parent.count() - 1);
    }
    merged
}

/// Merges a child with the one after it, if both are small.
fn merge_pair<S: Store>(store: &mut S, mut parent: Node, position: usize) -> bool {
    let height = parent.height - 1;
    let (left, right) = (parent.child(store, position), parent.child(store, position + 1));
    let pair =
        (Node::read(store, left.node, Some(height)), Node::read(store, right.node, Some(height)));
    let (Some(mut to), Some(from)) = pair else { return false };
    if to.count() + from.count() > slots(height) / 2 {
        return false;
    }
    for i in 0..from.count() {
        let end = to.count();
        if height == 0 {
            let item = from.item(store, i);
            to.insert_item(store, end, item);
            continue;
        }
        let mut child = from.child(store, i);
        if i == 0 {
            child.separator = right.separator;
        }
        to.insert_child(store, end, child);
    }
    parent.set_child_weight(store, position, left.weight.wrapping_add(right.weight));
    parent.remove(store, position + 1, 1);
    store.free(from.at);
    true
}

/// Removes roots that have only one child.
pub(super) fn lower<S: Store>(store: &mut S, root: Ptr) {
    while let Some(node) = top_node(store, root).filter(|node| node.height > 0 && node.count() == 1)
    {
        let child = node.child_node(store, 0);
        store.set(root, root_word(child));
        store.free(node.at);
    }
}

fn top_node<V: View>(view: &V, root: Ptr) -> Option<Node> {
    Node::read(view, top(view, root)?, None)
}
