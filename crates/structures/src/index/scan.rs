//! A scan in steps, over an index that may change between them.
//!
//! The order is by hash prefix, then by home bucket. A cursor is a position in that order: a
//! prefix, its depth, and a home bucket. It means that all entries with a smaller prefix have been
//! visited, and of this prefix all with a smaller home bucket. An entry's hash, and so its home
//! bucket, never changes, and the entry is visited with its home wherever it is stored; so
//! displacements lose none. If the segment has split since, the scan continues in the first half at
//! the home bucket, and visits later halves completely; if it has been merged, the merged segment
//! is visited completely. So an entry may be visited twice, and one that stays throughout is never
//! missed.

use heap::{Ptr, View};

use super::layout::*;
use super::path::SegmentPath;
use super::segment::visit_home;

const HOME_BITS: u32 = 6;
const _: () = assert!(HOMES == 1 << HOME_BITS);
const _: () = assert!(MAX_DEPTH + 1 + HOME_BITS == super::CURSOR_BITS);

/// The maximum number of home buckets that a call visits for each requested entry, so that a sparse
/// index costs no more.
const HOMES_PER_ENTRY: usize = 10;

/// The position of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) prefix: u64,
    pub(super) depth: u32,
    pub(super) home: usize,
}

impl Position {
    pub(super) const START: Position = Position { prefix: 0, depth: 0, home: 0 };

    /// Reads a cursor. Any number is a valid position: clients send what they like.
    pub(super) fn from_cursor(cursor: u64) -> Position {
        let marked = (cursor & ((1 << super::CURSOR_BITS) - 1)) >> HOME_BITS;
        if marked == 0 {
            return Position::START;
        }
        let depth = MAX_DEPTH - marked.trailing_zeros();
        let prefix = prefix(marked << (63 - MAX_DEPTH), depth);
        Position { prefix, depth, home: cursor as usize % HOMES }
    }

    /// Encodes the prefix, a 1 after its last bit and zeros, then the home bucket. Never 0.
    pub(super) fn cursor(self) -> u64 {
        let marked = self.prefix >> (63 - MAX_DEPTH) | 1 << (MAX_DEPTH - self.depth);
        marked << HOME_BITS | self.home as u64
    }

    /// Returns the corresponding position in a segment of this depth, to which the position's
    /// prefix leads.
    pub(super) fn in_segment(self, depth: u32) -> Position {
        let home = if depth < self.depth { 0 } else { self.home };
        Position { prefix: prefix(self.prefix, depth), depth, home }
    }

    /// Returns the start of the next segment; `None` after the last.
    pub(super) fn next_segment(self) -> Option<Position> {
        let step = 1u64.checked_shl(64 - self.depth)?;
        let prefix = self.prefix.checked_add(step)?;
        Some(Position { prefix, depth: self.depth, home: 0 })
    }
}

/// Returns the segment that a position leads to, and the position in it.
pub(super) fn locate<V: View>(
    view: &V,
    root: Ptr,
    from: Position,
) -> Option<(SegmentPath, Position)> {
    let place = SegmentPath::of(view, root, from.prefix)?;
    let depth = place.depth(view)?;
    Some((place, from.in_segment(depth)))
}

pub(super) fn scan<V: View>(
    view: &V,
    root: Ptr,
    cursor: u64,
    count: usize,
    least_homes: usize,
    mut visit: impl FnMut(Ptr),
) -> u64 {
    let count = count.max(1);
    let most_homes = count.saturating_mul(HOMES_PER_ENTRY).max(least_homes);
    let mut entries = 0;
    let mut homes = 0;
    let mut from = Some(Position::from_cursor(cursor));
    while let Some(position) = from {
        let Some((place, mut position)) = locate(view, root, position) else { return 0 };
        while position.home < HOMES {
            if entries >= count || homes >= most_homes {
                return position.cursor();
            }
            visit_home(view, place.segment, position.home, |_, slot| {
                entries += 1;
                visit(entry_of(slot));
            });
            homes += 1;
            position.home += 1;
        }
        from = position.next_segment();
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cursor_is_its_position(hash: u64, depth in 0..=MAX_DEPTH, home in 0..HOMES) {
            let position = Position { prefix: prefix(hash, depth), depth, home };
            prop_assert!(position.cursor() != 0);
            prop_assert!(position.cursor() < 1 << super::super::CURSOR_BITS);
            prop_assert_eq!(Position::from_cursor(position.cursor()), position);
        }

        #[test]
        fn any_number_is_a_position(cursor: u64) {
            let position = Position::from_cursor(cursor);
            prop_assert!(position.depth <= MAX_DEPTH && position.home < HOMES);
            prop_assert_eq!(prefix(position.prefix, position.depth), position.prefix);
        }
    }

    #[test]
    fn the_last_segment_has_no_next() {
        assert_eq!(Position::START.next_segment(), None);
        let last = Position { prefix: u64::MAX << 63, depth: 1, home: 3 };
        assert_eq!(last.next_segment(), None);
    }
}
