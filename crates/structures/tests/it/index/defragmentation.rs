//! Defragmentation returns the space that deletes left in an index, and hides no entry from a scan.

use super::{Hash, Pair, segments};
use heap::Ptr;
use std::collections::BTreeSet;

#[test]
fn defragmentation_gives_an_emptied_index_back() {
    let mut pair = Pair::with(Hash::Good, 30_000);
    let before = segments(&pair);
    (0..29_900).for_each(|key| {
        pair.remove(key);
    });
    for _ in 0..12 {
        pair.defragment(false);
    }
    pair.check();
    assert!(segments(&pair) <= 2, "{before} blocks became {}", segments(&pair));
}

#[test]
fn defragmentation_moves_every_block() {
    let mut pair = Pair::with(Hash::Good, 5000);
    let before: BTreeSet<Ptr> = pair.memory.blocks().into_iter().collect();
    pair.memory.all_sparse = true;
    let steps = pair.defragment(true);
    assert!(steps >= 5000 / 40);
    pair.check();
    assert_eq!(pair.memory.blocks().len(), before.len());
}

#[test]
fn a_merge_takes_no_segment_with_overflow_blocks() {
    let mut pair = Pair::with(Hash::Mixed, 1500);
    (0..1500).filter(|key| key % 3 != 0 || *key > 300).for_each(|key| {
        pair.remove(key);
    });
    for _ in 0..5 {
        pair.defragment(false);
        pair.check();
    }
}

#[test]
fn a_scan_goes_on_rightly_in_a_merged_segment() {
    for stop in 1..30 {
        let mut pair = Pair::with(Hash::Good, 4000);
        (300..4000).for_each(|key| {
            pair.remove(key);
        });
        let mut keys = BTreeSet::new();
        let mut cursor = 0;
        for _ in 0..stop {
            cursor = pair.scan(cursor, 5, &mut keys);
        }
        (0..4).for_each(|_| {
            pair.defragment(false);
        });
        while cursor != 0 {
            cursor = pair.scan(cursor, 5, &mut keys);
        }
        assert!((0..300).all(|key| keys.contains(&key)), "stopped after {stop} calls");
    }
}
