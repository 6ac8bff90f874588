//! Adding many members at once: a set of a million members in the time that it takes to write its
//! blocks.
//!
//! In arbitrary order, each member goes to another segment of the index, to a line that is in no
//! cache, and each split of a segment reads all of its members. So the members are sorted by their
//! hashes first: one segment after the other is filled while it is in the cache, and the index
//! grows at once to the depth that will be needed. Members that are read from other tables are
//! already in this order, table by table.

use structures::dict::Hashed;
use structures::index::Index;

use super::edit::{Edit, State};
use super::field_expiry::FieldTime;
use crate::{Error, Txn};

/// The number of members from which it pays to sort them.
pub const MANY: usize = 1024;

/// A table that grows by more than this factor is made as deep as will be needed at once. With less
/// growth, many of the new members may exist already.
const GROWTH: u64 = 4;

/// The binary logarithm of the number of segments that are in the processor's cache together.
const CACHED: u32 = 4;

/// How many times unsorted members may go back to an earlier segment before they are sorted.
const RUNS: usize = 16;

/// The approximate minimum size of the sample of hashes in which the distinct ones are counted.
const COUNTED: usize = 1 << 14;

impl Edit {
    /// Sets fields to values, or adds members to a set. Returns how many are new. If a field occurs
    /// several times, its last value counts.
    pub(super) fn set_all<'a>(
        &mut self,
        txn: &mut Txn<'_>,
        members: impl IntoIterator<Item = (&'a [u8], &'a [u8]), IntoIter: Clone>,
    ) -> Result<usize, Error> {
        let mut members = members.into_iter();
        let mut new = 0;
        loop {
            if matches!(self.state, State::Table(_)) && members.size_hint().0 >= MANY {
                return Ok(new + self.set_in_order(txn, members)?);
            }
            let Some((field, value)) = members.next() else { return Ok(new) };
            new += usize::from(self.set(txn, field, value)?);
        }
    }

    fn set_in_order<'a>(
        &mut self,
        txn: &mut Txn<'_>,
        members: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) -> Result<usize, Error> {
        let State::Table(dict) = self.state else { return Ok(0) };
        let hashes = members.clone().map(|(field, _)| self.hashing.hash(field));
        let hashes: Vec<u64> = hashes.collect();
        let (before, more) = (self.len(txn), count_different(&hashes));
        let needed = Index::depth_for(before + more);
        let depth = if more > GROWTH * before { needed } else { 0 };
        let mut new = 0;
        let mut set = |hash: u64, (field, value): (&[u8], &[u8])| {
            let field = Hashed { bytes: field, hash };
            let time = FieldTime::Clear;
            new += usize::from(self.set_in_table(txn, dict, field, value, time, depth)?);
            Ok::<_, Error>(())
        };
        if is_in_runs(&hashes, needed) {
            hashes.into_iter().zip(members).try_for_each(|(hash, member)| set(hash, member))?;
            return Ok(new);
        }
        let members: Vec<(&[u8], &[u8])> = members.collect();
        // Sorted by number too, so that the values of a field that occurs twice stay in order.
        let mut order: Vec<(u64, usize)> = hashes.into_iter().zip(0..).collect();
        order.sort_unstable();
        order.into_iter().try_for_each(|(hash, number)| set(hash, members[number]))?;
        Ok(new)
    }
}

/// Returns true if members with these hashes pass through the segments of this depth in order,
/// apart from segments that are close together, and start over only a few times.
fn is_in_runs(hashes: &[u64], depth: u32) -> bool {
    let bits = depth.saturating_sub(CACHED);
    let place = |hash: u64| if bits == 0 { 0 } else { hash >> (64 - bits) };
    hashes.windows(2).filter(|pair| place(pair[1]) < place(pair[0])).nth(RUNS).is_none()
}

/// Returns the approximate number of distinct hashes, estimated from those that begin with some
/// number of zeros.
fn count_different(hashes: &[u64]) -> u64 {
    let zeros = (hashes.len() / COUNTED).checked_ilog2().unwrap_or(0);
    let is_counted = |hash: &&u64| hash.leading_zeros() >= zeros;
    let mut counted: Vec<u64> = hashes.iter().filter(is_counted).copied().collect();
    counted.sort_unstable();
    counted.dedup();
    (counted.len() as u64) << zeros
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns distinct numbers that look random.
    fn hashes(count: u64) -> Vec<u64> {
        (1..=count).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
    }

    #[test]
    fn hashes_are_in_runs_where_each_run_rises_but_for_neighbours() {
        let mut all = hashes(100_000);
        let depth = Index::depth_for(all.len() as u64);
        assert!(!is_in_runs(&all, depth));
        all.sort_unstable();
        assert!(is_in_runs(&all, depth));
        assert!(is_in_runs(&all.repeat(RUNS + 1), depth));
        assert!(!is_in_runs(&all.repeat(RUNS + 2), depth));
        all.chunks_mut(100).for_each(<[u64]>::reverse);
        assert!(is_in_runs(&all, depth));
        // A few segments fit in the cache, whatever the order of the members.
        assert!(is_in_runs(&hashes(5000), Index::depth_for(5000)));
    }

    #[test]
    fn hashes_that_are_there_twice_count_once() {
        for count in [1, 1000, 100_000, 1_000_000] {
            let all = hashes(count).repeat(2);
            let found = count_different(&all);
            assert!(found.abs_diff(count) <= count / 20, "{found} of {count}");
        }
    }
}
