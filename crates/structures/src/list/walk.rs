//! Finds the nodes of a list, and goes from one to the next.

use heap::View;

use super::ends::{Ends, NodeRef};
use super::{List, Shape, Side};
use crate::Damaged;
use crate::tree::Cursor;

/// The place of a node. Any change of the list, except one of this node, invalidates it.
#[derive(Clone, Debug)]
pub(super) enum NodePosition {
    /// The only node.
    Single,
    End(Ends, Side),
    Between(Ends, Box<Cursor>),
}

/// A node and its place.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) place: NodePosition,
    pub(super) node: NodeRef,
}

impl List {
    /// Returns the node at one side.
    pub(super) fn outermost<V: View>(self, view: &V, side: Side) -> Result<Option<Found>, Damaged> {
        Ok(match self.shape() {
            Shape::Empty => None,
            Shape::Single(node) => Some(Found { place: NodePosition::Single, node }),
            Shape::Many(ends) => {
                Some(Found { place: NodePosition::End(ends, side), node: ends.node(view, side)? })
            }
        })
    }

    /// Returns the node that contains element number `index`, counted from the head, and the
    /// element's number in the node.
    pub(super) fn locate<V: View>(
        self,
        view: &V,
        index: u64,
    ) -> Result<Option<(Found, u64)>, Damaged> {
        let mut left = index;
        let Some(head) = self.outermost(view, Side::Head)? else { return Ok(None) };
        let count = head.node.count(view)?;
        if left < count {
            return Ok(Some((head, left)));
        }
        left -= count;
        let Shape::Many(ends) = self.shape() else { return Ok(None) };
        let between = ends.between(view)?;
        if left >= between {
            left -= between;
            let node = ends.node(view, Side::Tail)?;
            let place = NodePosition::End(ends, Side::Tail);
            return Ok((left < node.count(view)?).then_some((Found { place, node }, left)));
        }
        let (at, own) = ends.tree().seek_weight_sound(view, left)?;
        let found = between_at(view, ends, at).ok_or_else(|| no_way(view, ends))?;
        Ok(Some((found, own)))
    }
}

/// Returns the error of a tree that leads nowhere though it has items.
fn no_way<V: View>(view: &V, ends: Ends) -> Damaged {
    Damaged::new("tree of a list's nodes", ends.at, ends.tree().weight(view), 0)
}

fn between_at<V: View>(view: &V, ends: Ends, at: Cursor) -> Option<Found> {
    let item = at.item(view)?;
    Some(Found {
        place: NodePosition::Between(ends, Box::new(at)),
        node: NodeRef::from_word(item.second),
    })
}

impl Found {
    /// Returns the next node away from a side.
    pub(super) fn next<V: View>(self, view: &V, from: Side) -> Result<Option<Found>, Damaged> {
        let backwards = from == Side::Tail;
        let (ends, mut at) = match self.place {
            NodePosition::Single => return Ok(None),
            NodePosition::End(_, side) if side != from => return Ok(None),
            NodePosition::End(ends, Side::Head) => (ends, ends.tree().begin(view)),
            NodePosition::End(ends, Side::Tail) => (ends, ends.tree().end(view)),
            NodePosition::Between(ends, mut at) => {
                // If it cannot move on, the check of the edge reports that.
                if !backwards {
                    at.next(view);
                }
                (ends, *at)
            }
        };
        let has_more = !backwards || at.prev(view);
        if let Some(found) = between_at(view, ends, at).filter(|_| has_more) {
            return Ok(Some(found));
        }
        if !ends.tree().is_edge(view, &at, backwards) {
            return Err(no_way(view, ends));
        }
        let side = from.other();
        Ok(Some(Found { place: NodePosition::End(ends, side), node: ends.node(view, side)? }))
    }
}
