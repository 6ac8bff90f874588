//! Where the nodes of a list stand, and going from one to the next.

use heap::View;

use super::ends::{Ends, NodeRef};
use super::{List, Shape, Side};
use crate::Damaged;
use crate::tree::Cursor;

/// Where a node stands. Any change of the list but one of this node invalidates it.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// It is the only one.
    Single,
    End(Ends, Side),
    Between(Ends, Box<Cursor>),
}

/// A node and its place.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) node: NodeRef,
}

impl List {
    /// The node at one side.
    pub(super) fn outermost<V: View>(self, view: &V, side: Side) -> Result<Option<Found>, Damaged> {
        Ok(match self.shape() {
            Shape::Empty => None,
            Shape::Single(node) => Some(Found { place: Place::Single, node }),
            Shape::Many(ends) => {
                Some(Found { place: Place::End(ends, side), node: ends.node(view, side)? })
            }
        })
    }

    /// The node in which element number `index` is, counted from the head, and its number there.
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
            let place = Place::End(ends, Side::Tail);
            return Ok((left < node.count(view)?).then_some((Found { place, node }, left)));
        }
        let (at, own) = ends.tree().seek_weight(view, left);
        Ok(between_at(view, ends, at).map(|found| (found, own)))
    }
}

fn between_at<V: View>(view: &V, ends: Ends, at: Cursor) -> Option<Found> {
    let item = at.item(view)?;
    Some(Found { place: Place::Between(ends, Box::new(at)), node: NodeRef::from_word(item.second) })
}

impl Found {
    /// The next node away from a side.
    pub(super) fn next<V: View>(self, view: &V, from: Side) -> Result<Option<Found>, Damaged> {
        let (ends, at) = match self.place {
            Place::Single => return Ok(None),
            Place::End(_, side) if side != from => return Ok(None),
            Place::End(ends, Side::Head) => (ends, Some(ends.tree().begin(view))),
            Place::End(ends, Side::Tail) => {
                let mut at = ends.tree().end(view);
                (ends, at.prev(view).then_some(at))
            }
            Place::Between(ends, mut at) => {
                let moved = if from == Side::Head { at.next(view) } else { at.prev(view) };
                (ends, moved.then_some(*at))
            }
        };
        if let Some(found) = at.and_then(|at| between_at(view, ends, at)) {
            return Ok(Some(found));
        }
        let side = from.other();
        Ok(Some(Found { place: Place::End(ends, side), node: ends.node(view, side)? }))
    }
}
