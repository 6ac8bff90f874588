//! Background work, run to its end, and the damage that it and the check find.

use keyspace::{CheckError, Defragmentation, Keyspace, Scrub};
use std::fs;
use std::path::Path;

use super::{emulated, goes_on};

/// Runs a step of freeing and one round each of defragmentation and scrubbing in every shard, and
/// checks that nothing is damaged.
pub(crate) fn maintain(ks: &Keyspace) {
    for shard in 0..ks.shards() {
        ks.reclaim_step(shard, 5).expect("a step");
        let mut at = Some(Defragmentation::default());
        while goes_on()
            && let Some(from) = at
        {
            at = ks.defragment_step(shard, from, 4).expect("a step");
        }
        assert_eq!(scrub_shard(ks, shard), 0);
    }
}

/// Returns the number of damaged keys that a scrub of a shard finds.
fn scrub_shard(ks: &Keyspace, shard: usize) -> u64 {
    let (mut at, mut more) = (Scrub::default(), true);
    while goes_on() && more {
        (at, more) = ks.scrub_step(shard, at).expect("a step");
    }
    at.found
}

/// Frees everything that was deleted.
pub(crate) fn reclaim_all(ks: &Keyspace) {
    while goes_on() && (0..ks.shards()).any(|shard| ks.reclaim_step(shard, 7).expect("a step").more)
    {
    }
}

/// Frees what was deleted in a keyspace of one shard, `budget` blocks at a time, and checks that no
/// step exceeds the budget by more than `slack`. Returns the number of steps, and of the blocks
/// that they freed.
pub(crate) fn reclaim_in_steps(ks: &Keyspace, budget: usize, slack: usize) -> (usize, usize) {
    let (mut steps, mut freed, mut more) = (0, 0, true);
    while goes_on() && more {
        let progress = ks.reclaim_step(0, budget).expect("a step");
        assert!(progress.done <= budget + slack, "{progress:?}");
        (steps, freed, more) = (steps + 1, freed + progress.done, progress.more);
    }
    ks.check().expect("a sound pool");
    (steps, freed)
}

/// Closes a pool of one shard, flips a bit `at` bytes after the start of the last copy of these
/// bytes, and reopens the pool.
pub(crate) fn flip(ks: Keyspace, file: &Path, bytes: &[u8], at: usize) -> Keyspace {
    ks.heap().close().expect("a clean close");
    drop(ks);
    let mut pool = fs::read(file).expect("the pool");
    let found = memchr::memmem::rfind(&pool, bytes).expect("it is there");
    pool[found + at] ^= 1;
    fs::write(file, pool).expect("the pool");
    emulated(file, 1)
}

/// Checks that the check and the scrub find the one damaged key of a keyspace of one shard, and
/// that a repair removes it. Returns the other problems that the check found.
pub(crate) fn remove_the_damaged_key(ks: &Keyspace) -> Vec<CheckError> {
    let mut problems = Vec::new();
    ks.inspect(0, &|_| {}, &mut |problem| problems.push(problem));
    let damaged = problems.iter().filter(|problem| matches!(problem, CheckError::Key(_)));
    assert_eq!(damaged.count(), 1, "{problems:?}");
    assert_eq!(scrub_shard(ks, 0), 1, "the scrub finds it");
    assert_eq!(ks.repair(&problems).expect("a repair").cut.len(), 1);
    ks.check().expect("a sound pool");
    problems.retain(|problem| !matches!(problem, CheckError::Key(_)));
    problems
}
