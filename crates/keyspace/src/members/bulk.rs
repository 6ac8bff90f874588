//! Many members at once: a set of a million in the time that it takes to write its blocks.
//!
//! Members that come in any order go to another segment of the index each, a line that is in no
//! cache, and each split of a segment reads all of its members. So they are put in the order of
//! their hashes first: one segment after the other is filled, while it is in the cache, and grows
//! at once as deep as will be needed. Members of other tables come in this order already, table by
//! table.

use structures::index::Index;

use super::edit::{Edit, State};
use super::field_expiry::FieldTime;
use crate::{Error, Txn};

/// From this many members on it pays to order them.
pub const MANY: usize = 1024;

/// A table that grows by this factor is made as deep as will be needed. Of another, many of the
/// members may be there already.
const GROWTH: u64 = 4;

/// Two to the power of this many segments are in the processor's cache together.
const CACHED: u32 = 4;

/// How many times members that are not put in order may begin again with the first segment.
const RUNS: usize = 16;

/// Hashes of which those that differ are counted.
const COUNTED: usize = 1 << 14;

impl Edit {
    /// Gives fields their values, or adds members to a set; how many are new. The last value of a
    /// field counts.
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
            let member = (hash, field, value);
            new += usize::from(self.set_in_table(txn, dict, member, FieldTime::Clear, depth)?);
            Ok::<_, Error>(())
        };
        if is_in_runs(&hashes, needed) {
            hashes.into_iter().zip(members).try_for_each(|(hash, member)| set(hash, member))?;
            return Ok(new);
        }
        let members: Vec<(&[u8], &[u8])> = members.collect();
        // By number too: of a field that comes twice, the second value stays the second.
        let mut order: Vec<(u64, usize)> = hashes.into_iter().zip(0..).collect();
        order.sort_unstable();
        order.into_iter().try_for_each(|(hash, number)| set(hash, members[number]))?;
        Ok(new)
    }
}

/// Returns true if members with these hashes go through the segments of this depth one after the
/// other, but for a few that are close together, and not many times.
fn is_in_runs(hashes: &[u64], depth: u32) -> bool {
    let bits = depth.saturating_sub(CACHED);
    let place = |hash: u64| if bits == 0 { 0 } else { hash >> (64 - bits) };
    hashes.windows(2).filter(|pair| place(pair[1]) < place(pair[0])).nth(RUNS).is_none()
}

/// Returns how many hashes differ, about: those that begin with some zeros are counted for all.
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

    /// Numbers that look like chance, each once.
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
        // Few segments are in the cache, whatever their order.
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
