//! Snapshots, each of their promises as a separate history: the content at the cut is read; what is
//! held stays unchanged, is returned in bounded steps, and refuses no write.

use heap::{CreateOptions, Geometry, Heap, Ptr, Shard, SnapshotLost, View};
use keyspace::{Content, Db, Expire, Keyspace};
use std::sync::Arc;

/// All of them, by name.
pub(crate) const ALL: &[(&str, fn())] = &[
    ("a_snapshot_reads_each_word_as_it_was_at_its_cut", each_word_is_as_it_was_at_the_cut),
    ("each_of_several_snapshots_reads_its_own_cut", each_of_several_reads_its_own_cut),
    ("a_held_block_stays_as_it_was", a_held_block_stays_as_it_was),
    ("a_block_is_held_for_the_oldest_of_several", a_block_is_held_for_the_oldest_of_several),
    ("held_blocks_return_a_few_with_each_commit", held_blocks_return_a_few_with_each_commit),
    ("a_released_part_is_not_read", a_released_part_is_not_read),
    ("a_snapshot_over_its_limit_is_given_up", a_snapshot_over_its_limit_is_given_up),
    ("a_full_heap_gives_the_snapshot_up", a_full_heap_gives_the_snapshot_up),
    ("a_shard_is_released_after_its_last_key", a_shard_is_released_after_its_last_key),
];

const ROOTS: usize = 8;
const LEN: usize = 200;

fn heap(shards: usize) -> Arc<Heap> {
    let geometry = Geometry { shards, ring_parts: 3, ring_part: 4096, zone_spans: 16 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    Arc::new(Heap::volatile(2 << 20, &options).expect("a heap"))
}

/// Puts a block into each of the first roots, in one transaction; returns true if there was space.
fn put(heap: &Heap, shard: usize, roots: usize, len: usize, fill: u8) -> bool {
    let mut shard = heap.lock(shard);
    (0..roots).all(|root| put_one(&mut shard, root, len, fill)) && shard.commit().is_ok()
}

fn put_one(shard: &mut Shard<'_>, root: usize, len: usize, fill: u8) -> bool {
    let Ok(fresh) = shard.reserve(len) else { return false };
    shard.write(&fresh, 0, &vec![fill; len]);
    let (block, at) = (shard.publish(fresh, len), shard.root(root));
    let old = Ptr::from_raw(shard.word(at));
    shard.set(at, block.raw());
    if !old.is_null() {
        shard.free(old);
    }
    true
}

fn each_word_is_as_it_was_at_the_cut() {
    let heap = heap(1);
    let set = |value: u64| {
        let mut shard = heap.lock(0);
        (0..ROOTS).for_each(|root| shard.set(shard.root(root), value + root as u64));
        shard.commit().expect("a commit");
    };
    set(100);
    let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
    (2..5).for_each(|round| set(100 * round));
    let view = snapshot.lock(0).expect("it is held");
    for root in 0..ROOTS {
        assert_eq!(view.word(view.root(root)), 100 + root as u64, "word {root} at the cut");
    }
}

fn each_of_several_reads_its_own_cut() {
    let heap = heap(1);
    let set = |value: u64| {
        let mut shard = heap.lock(0);
        (0..ROOTS).for_each(|root| shard.set(shard.root(root), value + root as u64));
        shard.commit().expect("a commit");
    };
    let mut taken = Vec::new();
    for round in 1..5 {
        set(100 * round);
        taken.push((100 * round, heap.snapshot(|| ()).expect("a snapshot").0));
    }
    set(500);
    // One in the middle ends, which changes nothing for the others.
    taken.remove(1);
    set(600);
    for (value, snapshot) in &taken {
        let view = snapshot.lock(0).expect("it is held");
        for root in 0..ROOTS {
            let expected = value + root as u64;
            assert_eq!(view.word(view.root(root)), expected, "word {root} of cut {value}");
        }
    }
}

fn a_block_is_held_for_the_oldest_of_several() {
    let heap = heap(1);
    assert!(put(&heap, 0, ROOTS, LEN, 1));
    let (oldest, ()) = heap.snapshot(|| ()).expect("a snapshot");
    for fill in 2..12 {
        let (_younger, ()) = heap.snapshot(|| ()).expect("another one");
        assert!(put(&heap, 0, ROOTS, LEN, fill));
    }
    let view = oldest.lock(0).expect("it is held");
    for root in 0..ROOTS {
        let block = Ptr::from_raw(view.word(view.root(root)));
        assert!(view.bytes(block, LEN) == [1; LEN], "block {root} was used again");
    }
}

fn a_held_block_stays_as_it_was() {
    let heap = heap(1);
    assert!(put(&heap, 0, ROOTS, LEN, 1));
    let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
    (2..6).for_each(|fill| assert!(put(&heap, 0, ROOTS, LEN, fill)));
    let view = snapshot.lock(0).expect("it is held");
    for root in 0..ROOTS {
        let block = Ptr::from_raw(view.word(view.root(root)));
        assert!(view.bytes(block, LEN) == [1; LEN], "block {root} was used again");
    }
}

fn held_blocks_return_a_few_with_each_commit() {
    let heap = heap(1);
    assert!(put(&heap, 0, ROOTS, LEN, 1));
    let pin = heap.lock(0).pin();
    (2..52).for_each(|fill| assert!(put(&heap, 0, ROOTS, LEN, fill)));
    drop(pin);
    let block = heap.snapshot_stats().held / (50 * ROOTS as u64);
    assert!(put(&heap, 0, 1, LEN, 1));
    let left = heap.snapshot_stats().held / block;
    assert!((300..400).contains(&left), "a commit left {left} of 400 held blocks");
}

fn a_released_part_is_not_read() {
    let heap = heap(2);
    let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
    snapshot.release(1);
    assert!(snapshot.lock(0).is_ok());
    let lost = snapshot.lock(1).map(|_| ()).expect_err("what was released may have changed");
    assert_eq!(lost, SnapshotLost::Released);
}

fn a_snapshot_over_its_limit_is_given_up() {
    let heap = heap(2);
    heap.set_snapshot_limit(50_000);
    let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
    (0..100).for_each(|fill| assert!(put(&heap, 0, ROOTS, LEN, fill)));
    let lost = snapshot.lock(1).map(|_| ()).expect_err("it holds more than its limit");
    assert_eq!(lost, SnapshotLost::OverLimit);
    assert!(heap.snapshot_stats().held < 50_000, "{:?}", heap.snapshot_stats());
}

fn a_full_heap_gives_the_snapshot_up() {
    let heap = heap(2);
    heap.set_snapshot_limit(u64::MAX);
    assert!(put(&heap, 0, ROOTS, 30_000, 1));
    let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
    for fill in 0..20 {
        assert!(put(&heap, 0, ROOTS, 30_000, fill), "a write is refused because of a snapshot");
    }
    let lost = snapshot.lock(1).map(|_| ()).expect_err("writes needed its space");
    assert_eq!(lost, SnapshotLost::Full);
}

fn a_shard_is_released_after_its_last_key() {
    let heap = Arc::into_inner(heap(2)).expect("nobody else has it");
    let keyspace = Keyspace::new(heap, 0);
    let set = |value: u8| {
        let mut txn = keyspace.begin_all(0);
        for (db, n) in (0..16).flat_map(|db| (0..4).map(move |n| (db, n))) {
            let name = format!("key {n}");
            let key = txn.key(name.as_bytes());
            let db = Db::new(db).expect("a database");
            txn.strings().set(db, &key, &[value; 40], Expire::Clear).expect("free memory");
        }
        txn.commit().expect("a commit");
    };
    set(1);
    let mut walk = keyspace.snapshot(|| ()).expect("a snapshot").0.walk();
    let (mut items, mut found) = (Vec::new(), Vec::new());
    let mut held = u64::MAX;
    set(2);
    while walk.next(&mut items).expect("a shard was released too early") {
        found.append(&mut items);
        set(3);
        held = held.min(keyspace.heap().snapshot_stats().held);
    }
    assert_eq!(found.len(), 16 * 4);
    assert!(found.iter().all(|item| item.value == Content::String(vec![1; 40])), "{found:?}");
    assert_eq!(keyspace.heap().snapshot_stats().held, 0, "all shards were released");
    assert!(held > 0, "the shard that was read last was held until then");
}
