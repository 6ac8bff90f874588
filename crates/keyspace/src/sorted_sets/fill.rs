//! Writing a sorted set of many members at once, in the time that it takes to write its blocks.

use std::cmp::Ordering;

use structures::sorted_set::SortedSet;

use super::edit::{SortedSetEdit, State};
use crate::types::Encoding;
use crate::{Error, Txn};

/// More members than this are written at once, if they are also more than Redis calls small.
pub const MANY: usize = 256;

/// Compares scores; -0 and 0 are equal.
fn by_score(one: f64, other: f64) -> Ordering {
    (one + 0.0).total_cmp(&(other + 0.0))
}

/// Sorts members in the order of a sorted set: by score, then by name.
pub fn sort_scored(members: &mut Vec<(&[u8], f64)>) {
    let compare = |(member, score): &(&[u8], f64), (other, its): &(&[u8], f64)| {
        by_score(*score, *its).then_with(|| member.cmp(other))
    };
    if members.is_sorted_by(|one, other| compare(one, other).is_le()) {
        return;
    }
    // Names of equal score are compared by their first bytes, which are kept in the row, before the
    // names themselves, which may be anywhere in memory, are read.
    let first = |name: &[u8]| {
        let mut bytes = [0; 8];
        let len = name.len().min(8);
        bytes[..len].copy_from_slice(&name[..len]);
        u64::from_be_bytes(bytes)
    };
    let mut rows: Vec<(u64, (&[u8], f64))> =
        members.drain(..).map(|member| (first(member.0), member)).collect();
    rows.sort_unstable_by(|(first, one), (other_first, other)| {
        let by_score = by_score(one.1, other.1);
        by_score.then(first.cmp(other_first)).then_with(|| one.0.cmp(other.0))
    });
    members.extend(rows.into_iter().map(|(_, member)| member));
}

impl SortedSetEdit {
    /// Makes a new sorted set a table of these members, which must be sorted.
    pub(super) fn fill(
        &mut self,
        txn: &mut Txn<'_>,
        members: &[(&[u8], f64)],
    ) -> Result<(), Error> {
        let hashing = self.hashing;
        let shard = &mut txn.shards[self.place.shard];
        let table = SortedSet::create_of(shard, |member| hashing.hash(member), members)?;
        (self.state, self.encoding) = (State::Table(table), Encoding::Skiplist);
        self.changed = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_sorted_by_score_and_then_by_all_bytes_of_their_names() {
        let names: [&[u8]; 9] = [
            b"",
            b"\0",
            b"a",
            b"a\0",
            b"a\0\0\0\0\0\0\0",
            b"a\0\0\0\0\0\0\0\x01",
            b"a\x01",
            b"member:1",
            b"member:10",
        ];
        let scores = [f64::NEG_INFINITY, -0.0, 0.5, f64::INFINITY];
        let sorted: Vec<(&[u8], f64)> =
            scores.iter().flat_map(|&score| names.map(|name| (name, score))).collect();
        let mut members: Vec<_> = (0..sorted.len()).map(|n| sorted[n * 7 % sorted.len()]).collect();
        sort_scored(&mut members);
        assert_eq!(members, sorted);
    }
}
