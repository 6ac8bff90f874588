//! Verifies the path to a leaf: that the weights on it are the sums of what is below them.
//!
//! A walk through a tree by weight must make progress: if the weight of a child is wrong, every
//! number may lead to the same leaf, or to none. A step compares each node on its path with its
//! parent, so that a walk over all leaves compares every weight.

use heap::{Ptr, View};

use super::Kind;
use super::cursor::{Cursor, Step};
use super::layout::root_word;
use super::node::Node;
use crate::Damaged;

/// Verifies the weights on the path to a cursor, which was found by weight.
pub(super) fn check<K: Kind, V: View>(view: &V, root: Ptr, at: &Cursor) -> Result<(), Damaged> {
    let Some(leaf) = at.leaf() else {
        return check_empty(view, root);
    };
    let mut said = None;
    for Step { node, position } in at.steps() {
        let (mut sum, mut own) = (0u64, None);
        for i in 0..node.count() {
            let weight = match node.height {
                0 => K::weight(node.item(view, i)),
                _ => node.child_weight(view, i),
            };
            if weight == 0 {
                return Err(Damaged::new("weight in a tree node", node.at, 1, 0));
            }
            sum = sum.wrapping_add(weight);
            if i == *position {
                own = Some(weight);
            }
        }
        Damaged::unless_equal("weight of a tree node", node.at, sum, said.unwrap_or(sum))?;
        said = own;
    }
    let is_at_item = leaf.position < leaf.node.count();
    if is_at_item || at.is_at_end() {
        return Ok(());
    }
    // The cursor is after the items of a leaf that is not the last one: no sum of weights leads
    // there.
    let count = leaf.node.count() as u64;
    Err(Damaged::new("weight of a tree node", leaf.node.at, count, count + 1))
}

/// Verifies every weight in the nodes on the path to a cursor: that each is the sum of its child's
/// weights.
pub(super) fn check_weights<K: Kind, V: View>(view: &V, at: &Cursor) -> Result<(), Damaged> {
    for Step { node, .. } in at.steps().iter().filter(|step| step.node.height > 0) {
        for i in 0..node.count() {
            let (place, said) = (node.child_node(view, i), node.child_weight(view, i));
            let sum = Node::read(view, place, Some(node.height - 1)).map(|child| {
                let weight = |i| match child.height {
                    0 => K::weight(child.item(view, i)),
                    _ => child.child_weight(view, i),
                };
                (0..child.count()).fold(0u64, |sum, i| sum.wrapping_add(weight(i)))
            });
            Damaged::unless_equal("weight of a tree node", place, sum.unwrap_or(0), said)?;
        }
    }
    Ok(())
}

/// Verifies that a tree whose top node cannot be found is empty.
pub(super) fn check_empty<V: View>(view: &V, root: Ptr) -> Result<(), Damaged> {
    Damaged::unless_equal("tree root", root, root_word(Ptr::NULL), view.word(root))
}
