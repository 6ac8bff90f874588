//! Removing nearly all members from a large sorted set.
//!
//! Removing members one by one costs time in proportion to their number, in one transaction under
//! the shard's lock. If few members stay, they are written to a new set instead, and the old one is
//! freed incrementally, as with DEL.

use heap::Shard;
use structures::sorted_set::SortedSet;
use structures::{Damaged, Error};

use crate::key::Hashing;

/// Fewer members than this are removed one by one.
const MANY: u64 = 256;
/// The minimum number of removed members for each member that is written to the new set.
const FOR_EACH: u64 = 8;

/// Returns a new set of the members that stay when `count` members from a rank on are removed.
/// Returns `None` if it is better to remove them one by one, or if there is no space for the new
/// set.
pub(super) fn rebuilt(
    shard: &mut Shard<'_>,
    sorted_set: SortedSet,
    hashing: Hashing,
    rank: u64,
    count: u64,
    verify: bool,
) -> Result<Option<SortedSet>, Error> {
    let len = sorted_set.len(shard);
    if count < MANY || len.saturating_sub(count) > count / FOR_EACH {
        return Ok(None);
    }
    let mut kept = Vec::new();
    let range_end = rank + count;
    for (rank, count) in [(0, rank), (range_end, len.saturating_sub(range_end))] {
        let keep = |member: &[u8], score: f64| kept.push((member.to_vec(), score));
        show(shard, sorted_set, rank, count, verify, keep)?;
    }
    let savepoint = shard.savepoint();
    shard.allow_reserve(true);
    let few = write(shard, hashing, &kept);
    shard.allow_reserve(false);
    if let Err(Error::Full(_)) = few {
        shard.rollback_to(savepoint);
        return Ok(None);
    }
    few.map(Some)
}

fn write(
    shard: &mut Shard<'_>,
    hashing: Hashing,
    members: &[(Vec<u8>, f64)],
) -> Result<SortedSet, Error> {
    let few = SortedSet::create(shard)?;
    for (member, score) in members {
        few.insert(shard, |member| hashing.hash(member), member, *score)?;
    }
    Ok(few)
}

/// Calls `take` with this many members from a rank on.
pub(super) fn show(
    shard: &Shard<'_>,
    sorted_set: SortedSet,
    rank: u64,
    count: u64,
    verify: bool,
    mut take: impl FnMut(&[u8], f64),
) -> Result<(), Damaged> {
    if count == 0 {
        return Ok(());
    }
    let mut left = count;
    sorted_set.visit(shard, rank, false, verify, |member, score| {
        take(member, score);
        left -= 1;
        left > 0
    })
}
