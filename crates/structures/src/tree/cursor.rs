//! A place in a tree: the path from the root to an item, or to the end.
//!
//! A cursor is before an item. A cursor after the last item of a leaf is before the first item of
//! the next leaf, and moves there when it is needed; if it is a place of insertion, the item goes
//! into the leaf that was found.

use heap::View;

use super::Item;
use super::layout::{MAX_LEVELS, top};
use super::node::Node;

/// A place in a tree, before an item or at the end. Any change of the tree invalidates it.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    steps: [Step; MAX_LEVELS],
    levels: usize,
}

/// A node on the path, and the position in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) node: Node,
    pub(super) position: usize,
}

impl Cursor {
    /// Returns the path to a leaf from the node that a root word refers to. `choose` returns the
    /// position in each inner node, below its count, and in the leaf, at most its count. The path
    /// has no step if there is no tree, or none that makes sense.
    pub(super) fn descend<V: View>(
        view: &V,
        root: heap::Ptr,
        mut choose: impl FnMut(&Node) -> usize,
    ) -> Cursor {
        let mut cursor = Cursor { steps: [Step::NOWHERE; MAX_LEVELS], levels: 0 };
        let Some(mut at) = top(view, root) else { return cursor };
        let mut height = None;
        while let Some(node) = Node::read(view, at, height) {
            let position = choose(&node);
            cursor.push(Step { node, position });
            if node.height == 0 {
                return cursor;
            }
            if position >= node.count() {
                break;
            }
            (at, height) = (node.child_node(view, position), Some(node.height - 1));
        }
        cursor.levels = 0;
        cursor
    }

    fn push(&mut self, step: Step) {
        self.steps[self.levels] = step;
        self.levels += 1;
    }

    /// Returns the steps from the root to the leaf.
    pub(super) fn steps(&self) -> &[Step] {
        &self.steps[..self.levels]
    }

    pub(super) fn leaf(&self) -> Option<&Step> {
        self.steps().last()
    }

    /// Returns true if it is after the last item of the last leaf.
    pub fn is_at_end(&self) -> bool {
        self.steps()
            .iter()
            .all(|step| step.position + usize::from(step.node.height > 0) == step.node.count())
    }

    /// Returns true if it is before the first item.
    pub fn is_at_start(&self) -> bool {
        self.steps().iter().all(|step| step.position == 0)
    }

    /// Returns the item after the cursor; `None` at the end.
    pub fn item<V: View>(&self, view: &V) -> Option<Item> {
        let leaf = self.leaf()?;
        if leaf.position < leaf.node.count() {
            return Some(leaf.node.item(view, leaf.position));
        }
        let mut advanced = *self;
        advanced.advance_to_item(view).then(|| advanced.item(view))?
    }

    /// Returns the item `by` places ahead, or back with `backwards`, if it is in the same leaf.
    pub fn nearby_item<V: View>(&self, view: &V, by: usize, backwards: bool) -> Option<Item> {
        let leaf = self.leaf()?;
        let position = if backwards { leaf.position.checked_sub(by)? } else { leaf.position + by };
        (position < leaf.node.count()).then(|| leaf.node.item(view, position))
    }

    /// Moves past an item; returns `false` at the end.
    pub fn next<V: View>(&mut self, view: &V) -> bool {
        if !self.advance_to_item(view) {
            return false;
        }
        self.steps[self.levels - 1].position += 1;
        true
    }

    /// Moves back past an item; returns `false` at the start.
    pub fn prev<V: View>(&mut self, view: &V) -> bool {
        let Some(leaf) = self.leaf() else { return false };
        if leaf.position == 0 && !self.go_to_next_leaf(view, false) {
            return false;
        }
        let position = &mut self.steps[self.levels - 1].position;
        *position = position.saturating_sub(1);
        true
    }

    /// Moves to the next leaf if the cursor is after the items of its own; returns `false` at the
    /// end.
    pub(super) fn advance_to_item<V: View>(&mut self, view: &V) -> bool {
        match self.leaf() {
            Some(leaf) => leaf.position < leaf.node.count() || self.go_to_next_leaf(view, true),
            None => false,
        }
    }

    /// Moves to the start of the next leaf, or to the end of the previous one; if there is none,
    /// stays and returns `false`.
    fn go_to_next_leaf<V: View>(&mut self, view: &V, forward: bool) -> bool {
        let inner = &self.steps[..self.levels - 1];
        let can_go = |step: &Step| {
            if forward { step.position + 1 < step.node.count() } else { step.position > 0 }
        };
        let Some(level) = inner.iter().rposition(can_go) else { return false };
        let mut to = *self;
        let step = &mut to.steps[level];
        step.position = if forward { step.position + 1 } else { step.position - 1 };
        for below in level + 1..self.levels {
            let Step { node, position } = to.steps[below - 1];
            let child = node.child_node(view, position);
            let Some(node) = Node::read(view, child, Some(node.height - 1)) else { return false };
            if node.count() == 0 {
                return false;
            }
            let last = node.count() - usize::from(node.height > 0);
            to.steps[below] = Step { node, position: if forward { 0 } else { last } };
        }
        *self = to;
        true
    }
}

impl Step {
    const NOWHERE: Step = Step { node: Node::NOWHERE, position: 0 };
}
