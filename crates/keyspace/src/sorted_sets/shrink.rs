//! Taking nearly all members out of a large sorted set.
//!
//! One by one, a removal costs as much as it takes, in one transaction under the shard's lock.
//! Where few members stay, they go into a new set instead, and the old one is freed incrementally,
//! as with DEL.

use heap::Shard;
use structures::sorted_set::SortedSet;
use structures::{Damaged, Error};

use crate::key::Hashing;

/// Removals of fewer members are made one by one.
const MANY: u64 = 256;
/// This many members go for each one that is written again.
const FOR_EACH: u64 = 8;

/// Returns a set of what stays when `count` members from a rank on go; none where it is better to
/// take them out, or where there is no space for it.
pub(super) fn rebuilt(
    shard: &mut Shard<'_>,
    (sorted_set, hashing): (SortedSet, Hashing),
    (rank, count): (u64, u64),
    verify: bool,
) -> Result<Option<SortedSet>, Error> {
    let len = sorted_set.len(shard);
    if count < MANY || len.saturating_sub(count) > count / FOR_EACH {
        return Ok(None);
    }
    let mut kept = Vec::new();
    let range_end = rank + count;
    for range in [(0, rank), (range_end, len.saturating_sub(range_end))] {
        let keep = |member: &[u8], score: f64| kept.push((member.to_vec(), score));
        show(shard, sorted_set, range, verify, keep)?;
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

/// Shows this many members from a rank on.
pub(super) fn show(
    shard: &Shard<'_>,
    sorted_set: SortedSet,
    (rank, count): (u64, u64),
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
