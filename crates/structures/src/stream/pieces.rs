//! The pieces of a stream in a sequence, for operations that go through it in steps: its nodes, its
//! header, then group after group.
//!
//! A position in the sequence is one number, 0 at the start, and is found without walking over what
//! is before it:
//!
//! ```text
//!  63            36 35                 0
//! +----------------+--------------------+
//! | 0              | number of the node |   after the nodes: the header
//! | 1 + number of  | 0: the group       |
//! |     the group  | then its consumers, then its pending entries |
//! +----------------+--------------------+
//! ```

use heap::View;

use super::Stream;
use super::group::Group;
use crate::{Damaged, Store};

const WITHIN: u32 = 36;

/// The piece at a position.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    /// The node of this number, counted from 0.
    Node(u64),
    /// The stream itself.
    Head,
    /// The group of this number, counted from 0.
    Group(u64, Group),
    /// The consumers of a group from this number on.
    Consumers(Group, u64),
    /// Pending entries of a group from this number on.
    Pending(Group, u64),
    /// The end of the sequence.
    End,
}

impl Stream {
    /// Returns the piece at a position.
    pub fn piece<V: View>(&self, view: &V, place: u64) -> Result<Piece, Damaged> {
        let (group, within) = (place >> WITHIN, place & ((1 << WITHIN) - 1));
        let Some(number) = group.checked_sub(1) else {
            let is_node = within < self.node_count(view);
            return Ok(if is_node { Piece::Node(within) } else { Piece::Head });
        };
        let Some(group) = self.numbered_group(view, number)? else { return Ok(Piece::End) };
        let Some(within) = within.checked_sub(1) else { return Ok(Piece::Group(number, group)) };
        let consumers = group.consumer_count(view);
        Ok(match within.checked_sub(consumers) {
            None => Piece::Consumers(group, within),
            Some(pending) => Piece::Pending(group, pending),
        })
    }

    /// Returns the position after `done` parts of the same kind; 0 at the end of the sequence.
    /// `done` is 0 if there are no more of that kind.
    pub fn position_after<V: View>(&self, view: &V, place: u64, done: u64) -> Result<u64, Damaged> {
        let next_group = ((place >> WITHIN) + 1) << WITHIN;
        let next = match self.piece(view, place)? {
            Piece::Node(_) | Piece::Group(..) => place + done.max(1),
            Piece::Head => next_group,
            Piece::Consumers(..) | Piece::Pending(..) if done > 0 => place + done,
            // A weight promised more of them.
            Piece::Consumers(group, from) => {
                let most = group.consumer_count(view);
                return Err(Damaged::new("number of consumers", self.at, from, most));
            }
            Piece::Pending(..) => next_group,
            Piece::End => 0,
        };
        let ends = next >> WITHIN != place >> WITHIN
            && self.numbered_group(view, (next >> WITHIN).saturating_sub(1))?.is_none();
        Ok(if ends { 0 } else { next })
    }

    /// Verifies the piece at a position; returns the position to continue with (0: at the end), and
    /// how many bytes were read.
    pub fn check_step<V: View>(&self, view: &V, place: u64) -> Result<(u64, u64), Damaged> {
        let (done, bytes) = match self.piece(view, place)? {
            Piece::Node(number) => (1, self.check_node(view, number)?),
            Piece::Head | Piece::End => (1, 0),
            Piece::Group(_, group) => (1, group.check(view)?),
            Piece::Consumers(group, from) => group.check_consumers(view, from)?,
            Piece::Pending(group, from) => group.check_pending(view, from)?,
        };
        Ok((self.position_after(view, place, done)?, bytes))
    }

    /// Moves the piece at a position, and the blocks above it, out of sparse spans; at position 0
    /// also the header. Returns the stream's word, and the position to continue with (0: at the
    /// end).
    pub fn relocate<S: Store>(
        &mut self,
        store: &mut S,
        place: u64,
    ) -> Result<(u64, u64), super::Error> {
        let run = |from: u64, next: u64| next.saturating_sub(from);
        if place == 0 {
            self.relocate_head(store)?;
        }
        let done = match self.piece(store, place)? {
            Piece::Node(number) => {
                self.relocate_node(store, number)?;
                1
            }
            Piece::Head | Piece::End => 1,
            Piece::Group(number, _) => {
                self.relocate_group(store, number)?;
                1
            }
            Piece::Consumers(group, from) => {
                let left = group.consumer_count(store).saturating_sub(from);
                match run(from, group.relocate_consumers(store, from)?) {
                    0 => left,
                    some => some,
                }
            }
            Piece::Pending(group, from) => run(from, group.relocate_pending(store, from)?),
        };
        Ok((self.word(), self.position_after(store, place, done)?))
    }
}
