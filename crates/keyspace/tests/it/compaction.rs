//! When compaction starts again, and how it handles blocks that cannot move.

use std::ops::Range;
use std::sync::Mutex;

use crate::common::{self, NOW, SEED, db, volatile, write};
use heap::{CreateOptions, Heap};
use keyspace::{Compacted, Compaction, Defragmentation, Expire, Keyspace};
use pmem::{DomainRequest, MapOptions, Region};

/// Sets a key to a value of this length. Returns false if there is no space.
fn set(ks: &Keyspace, key: &str, len: usize) -> bool {
    let key = ks.key(key.as_bytes());
    let mut txn = ks.begin_one(key.shard(), NOW);
    let is_set = txn.strings().set(db(0), &key, &vec![b'v'; len], Expire::Clear).is_ok();
    if is_set {
        txn.commit().expect("a commit");
    }
    is_set
}

fn remove(ks: &Keyspace, key: &str) {
    write(ks, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        assert!(txn.keys().delete(db(0), &key).expect("free memory"), "it was there");
    });
}

/// Sets keys with a common prefix until there is no space. Returns how many.
fn fill(ks: &Keyspace, prefix: &str, len: usize) -> usize {
    (0..).take_while(|n| common::goes_on() && set(ks, &format!("{prefix}{n}"), len)).count()
}

/// Runs steps until nothing is left to do. Returns the number of steps, and of the spans that they
/// freed.
fn steps(mut step: impl FnMut() -> Compacted) -> (usize, usize) {
    let (mut taken, mut freed) = (1, 0);
    loop {
        common::goes_on();
        match step() {
            Compacted::Freed(spans) => freed += spans,
            Compacted::More => {}
            Compacted::Nothing => return (taken, freed),
        }
        taken += 1;
    }
}

fn limited(file: &std::path::Path) -> Keyspace {
    let map =
        MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(16 << 20) };
    let region = Region::open(file, &map).expect("a mapping");
    let options = CreateOptions {
        geometry: common::geometry(1),
        hash_seed: SEED,
        ..CreateOptions::default()
    };
    let heap = match Heap::is_blank(&region) {
        true => Heap::create(region, &options).expect("a new pool"),
        false => Heap::open(region, [0; 16]).expect("the same pool").0,
    };
    Keyspace::new(heap, NOW)
}

#[test]
fn spans_that_a_restart_left_unknown_are_emptied_when_they_are_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pool");
    let ks = limited(&file);
    let keys = fill(&ks, "small:", 1000);
    (0..keys).filter(|n| n % 4 != 0).for_each(|n| remove(&ks, &format!("small:{n}")));
    ks.heap().close().expect("a clean close");
    drop(ks);
    let ks = limited(&file);
    let at = Mutex::new(Compaction::default());
    // No span was requested yet, so none of the old ones is known.
    steps(|| ks.compact_for(&at, 0, 1));
    let mut stored = 0;
    while common::goes_on()
        && (set(&ks, &format!("large:{stored}"), 3000)
            || (0..16).any(|_| {
                ks.compact_for(&at, 3000, 1000) != Compacted::Nothing
                    && set(&ks, &format!("large:{stored}"), 3000)
            }))
    {
        stored += 1;
    }
    let used = ks.heap().used() * 100 / ks.heap().limit();
    assert!(used >= 85, "{used} % in use, of {keys} small values and {stored} large ones");
    ks.check().expect("an intact keyspace");
}

/// Returns a full store of one shard, in which three of four values of 200 bytes were deleted, and
/// in which some smaller values are in blocks of that size because there are no smaller blocks. No
/// span is free. Also returns the keys that are left.
fn nearly_full() -> (Keyspace, Vec<String>) {
    let small = |n: usize| format!("small:{n}");
    let ks = volatile(1, 1);
    assert!(set(&ks, "large", 1 << 20));
    let keys = fill(&ks, "a:", 200);
    ks.heap().allow_larger_blocks();
    const SMALL: Range<usize> = 0..20;
    for n in SMALL {
        remove(&ks, &format!("a:{n}"));
        assert!(set(&ks, &small(n), 8 * n), "in the block of the other");
    }
    // Once there are free spans, no larger blocks are taken.
    remove(&ks, "large");
    ks.reclaim_until(|| false);
    ks.heap().share_free_spans();
    let more = fill(&ks, "b:", 200);
    // Leave the fewest values in the span of the small ones, so that it is emptied before others.
    let others = (SMALL.end..keys).map(|n| (n > 120 && n % 4 == 0, format!("a:{n}")));
    let others = others.chain((0..more).map(|n| (n % 4 == 0, format!("b:{n}"))));
    let (stay, go): (Vec<_>, Vec<_>) = others.partition(|(stays, _)| *stays);
    go.iter().for_each(|(_, key)| remove(&ks, key));
    (ks, SMALL.map(small).chain(stay.into_iter().map(|(_, key)| key)).collect())
}

/// Checks that exactly these keys are left, and that the keyspace is intact.
#[track_caller]
fn check_left(ks: &Keyspace, left: &[String]) {
    ks.check().expect("an intact keyspace");
    for key in left {
        assert!(common::get(ks, NOW, 0, key).is_some(), "{key}");
    }
    let mut count = 0;
    ks.begin_all(NOW).database(db(0)).for_each(&mut |_, _| count += 1);
    assert_eq!(count, left.len());
}

#[test]
fn a_block_that_cannot_move_keeps_its_span_and_no_other() {
    let (ks, left) = nearly_full();
    let mut at = Compaction::default();
    let (_, freed) = steps(|| ks.compact_step(&mut at).expect("a step"));
    assert!(freed >= 30, "{freed} of the pool's 64 spans became free");
    check_left(&ks, &left);
}

#[test]
fn a_pass_of_the_defragmenter_leaves_out_what_cannot_move_and_goes_on() {
    let (ks, left) = nearly_full();
    let mut at = Some(Defragmentation::default());
    let mut moved = 0;
    while common::goes_on()
        && let Some(from) = at
    {
        at = ks.defragment_step(0, from, 64).expect("a step");
        moved = at.map_or(moved, |at| at.moved);
    }
    assert!(moved as usize > left.len() / 2, "{moved} of {} were moved", left.len());
    check_left(&ks, &left);
}

#[test]
fn a_nearly_full_store_rests_until_enough_was_freed() {
    let ks = volatile(1, 16 << 20);
    let keys = fill(&ks, "k:", 1000);
    let at = Mutex::new(Compaction::default());
    steps(|| ks.compact_ahead(&at, 1));
    let used = ks.heap().used();
    // Free a little everywhere, so that no span is worth emptying.
    let mut names = (0..keys).map(|n| format!("k:{}", n * 61 % keys));
    assert!(!keys.is_multiple_of(61), "each once");
    let mut free = |bytes: u64| {
        let enough = ks.heap().used() - bytes;
        while ks.heap().used() > enough {
            remove(&ks, &names.next().expect("a key"));
        }
    };
    free(used / 90);
    assert_eq!(ks.compact_ahead(&at, 1), Compacted::Nothing, "this is not worth a plan");
    let (taken, _) = steps(|| ks.compact_for(&at, 1000, 1));
    assert!(taken > 2, "unless somebody needs it now");
    let rounds = 10;
    let planned = (0..rounds).filter(|_| {
        free(used / 90);
        steps(|| ks.compact_ahead(&at, 1)).0 > 1
    });
    let planned = planned.count();
    assert!((1..=rounds / 3).contains(&planned), "planned in {planned} of {rounds} rounds");
    ks.check().expect("an intact keyspace");
}

#[test]
fn a_purge_frees_what_deletes_left_in_a_shard_that_was_locked_when_it_began() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = limited(&dir.path().join("pool"));
    assert!(set(&ks, "large", 8 << 20));
    remove(&ks, "large");
    ks.heap().ask_purge();
    let held = ks.begin_one(0, NOW);
    // The first step begins the purge, which continues when the shard is unlocked.
    assert!(ks.give_back_step() && !ks.give_back_step() && ks.heap().is_purging());
    drop(held);
    while common::goes_on() && ks.give_back_step() {}
    assert!(!ks.heap().is_purging() && !ks.has_garbage(0));
    assert!(ks.heap().given_back() > 8 << 20, "{}", ks.heap().given_back());
}
