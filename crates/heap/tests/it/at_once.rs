//! Words of a volatile heap change during a transaction: only the transaction sees them until it
//! commits, and if it ends in any other way they are undone.

use heap::{CreateOptions, Geometry, Heap, Ptr, Savepoint, Shard, Snapshot, View};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The number of roots that are set.
const WORDS: usize = 40;

fn volatile() -> Arc<Heap> {
    let geometry = Geometry { shards: 1, ring_parts: 4, ring_part: 4096, zone_spans: 64 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    Arc::new(Heap::volatile(64 * 65536, &options).expect("a heap"))
}

fn set(shard: &mut Shard<'_>, root: usize, value: u64) {
    shard.set(shard.root(root), value);
}

/// Takes all space with blocks of which three fit into a span.
fn fill(shard: &mut Shard<'_>) -> Vec<Ptr> {
    let mut blocks = Vec::new();
    while let Ok(fresh) = shard.reserve(20_000) {
        shard.write(&fresh, 0, &[1; 20_000]);
        blocks.push(shard.publish(fresh, 20_000));
        shard.commit().expect("a commit");
    }
    blocks
}

fn words<V: View>(view: &V, root: impl Fn(usize) -> Ptr) -> Vec<u64> {
    (0..WORDS).map(|number| view.word(root(number))).collect()
}

fn all(shard: &Shard<'_>) -> Vec<u64> {
    words(shard, |number| shard.root(number))
}

#[test]
fn a_transaction_that_does_not_commit_undoes_its_words() {
    let heap = volatile();
    let mut shard = heap.lock(0);
    set(&mut shard, 0, 1);
    shard.commit().expect("a commit");
    set(&mut shard, 0, 2);
    set(&mut shard, 1, 2);
    set(&mut shard, 0, 3);
    assert!(shard.is_dirty());
    assert_eq!(all(&shard)[..2], [3, 2]);
    shard.rollback();
    assert!(!shard.is_dirty());
    assert_eq!(all(&shard)[..2], [1, 0]);
    set(&mut shard, 0, 4);
    drop(shard);
    assert_eq!(all(&heap.lock(0))[..2], [1, 0]);
    let panics = catch_unwind(AssertUnwindSafe(|| {
        let mut shard = heap.lock(0);
        set(&mut shard, 0, 5);
        panic!("as a command may");
    }));
    assert!(panics.is_err());
    assert_eq!(all(&heap.lock(0))[..2], [1, 0]);
    heap.pause(true);
    let mut shard = heap.lock(0);
    set(&mut shard, 0, 6);
    shard.commit().expect_err("it is paused");
    assert_eq!(all(&shard)[..2], [1, 0]);
}

/// A word of a block that goes away with its transaction, and later belongs to another one.
#[test]
fn words_of_new_blocks_do_not_come_back_in_later_ones() {
    let heap = volatile();
    let mut shard = heap.lock(0);
    let mut block = |fill: u8| {
        let fresh = shard.reserve(64).expect("space");
        shard.write(&fresh, 0, &[fill; 64]);
        let block = shard.publish(fresh, 64);
        let savepoint = shard.savepoint();
        shard.set(block, 7);
        shard.rollback_to(savepoint);
        assert_eq!(shard.word(block), u64::from_ne_bytes([fill; 8]));
        shard.set(block, 8);
        block
    };
    let dropped = block(1);
    shard.rollback();
    let fresh = shard.reserve(64).expect("space");
    assert_eq!(fresh.ptr(), dropped);
    shard.write(&fresh, 0, &[2; 64]);
    let kept = shard.publish(fresh, 64);
    shard.set(shard.root(0), kept.raw());
    shard.commit().expect("a commit");
    set(&mut shard, 1, 1);
    shard.rollback();
    assert_eq!(shard.bytes(kept, 64), [2; 64]);
}

/// The words of a heap, of its open transaction and of a snapshot.
#[derive(Default)]
struct Model {
    committed: Vec<u64>,
    open: Vec<u64>,
    cut: Vec<u64>,
}

#[test]
fn any_order_of_changes_and_returns_leaves_the_words_of_a_model() {
    let heap = volatile();
    let mut random = 11u64;
    let mut below = |most: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % most
    };
    let mut model = Model { committed: vec![0; WORDS], ..Model::default() };
    let mut snapshot: Option<Snapshot> = None;
    for round in 0..5000 {
        let mut shard = heap.lock(0);
        let mut savepoints: Vec<(Savepoint, Vec<u64>)> = Vec::new();
        model.open.clone_from(&model.committed);
        for step in 0..below(60) {
            match below(10) {
                0 => savepoints.push((shard.savepoint(), model.open.clone())),
                1 => {
                    let kept = savepoints.len().saturating_sub(1 + below(2) as usize);
                    if let Some((savepoint, words)) = savepoints.drain(kept..).next() {
                        shard.rollback_to(savepoint);
                        model.open = words;
                    }
                }
                _ => {
                    let (at, value) = (below(WORDS as u64) as usize, round * 100 + step);
                    set(&mut shard, at, value);
                    model.open[at] = value;
                }
            }
            assert_eq!(all(&shard), model.open, "round {round}");
        }
        match below(3) {
            0 => {}
            1 => {
                shard.rollback();
                assert_eq!(all(&shard), model.committed, "round {round}");
            }
            _ => {
                shard.commit().expect("a commit");
                model.committed.clone_from(&model.open);
                assert_eq!(all(&shard), model.committed, "round {round}");
            }
        }
        drop(shard);
        if let Some(taken) = &snapshot {
            let view = taken.lock(0).expect("it is not given up");
            assert_eq!(words(&view, |number| view.root(number)), model.cut, "round {round}");
        }
        match below(20) {
            0 => snapshot = None,
            1 => {
                snapshot = Some(heap.snapshot(|| ()).expect("a snapshot").0);
                model.cut.clone_from(&model.committed);
            }
            _ => {}
        }
    }
}

/// Once a transaction stages words it goes on staging, even after the snapshot has ended: its last
/// values count.
#[test]
fn a_snapshot_that_is_given_up_within_a_transaction_changes_no_word() {
    let heap = volatile();
    let mut shard = heap.lock(0);
    let mut blocks = fill(&mut shard);
    drop(shard);
    let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
    let mut shard = heap.lock(0);
    blocks.drain(..3).for_each(|block| shard.free(block));
    shard.allow_reserve(true);
    shard.commit().expect("a commit");
    set(&mut shard, 0, 1);
    let fresh = shard.reserve(20_000).expect("the snapshot is given up for it");
    set(&mut shard, 0, 2);
    set(&mut shard, 1, 3);
    shard.write(&fresh, 0, &[2; 20_000]);
    shard.publish(fresh, 20_000);
    shard.commit().expect("a commit");
    assert_eq!(all(&shard)[..2], [2, 3]);
    drop(shard);
    assert!(snapshot.lock(0).is_err(), "it was given up");
}

/// The same within a savepoint: words that were changed in place are undone before earlier changes.
#[test]
fn a_savepoint_outlives_a_snapshot_that_is_given_up() {
    let heap = volatile();
    let mut shard = heap.lock(0);
    // A span of small blocks, of which the others stay free.
    let fresh = shard.reserve(64).expect("space");
    shard.write(&fresh, 0, &[0; 64]);
    shard.publish(fresh, 64);
    shard.commit().expect("a commit");
    let mut blocks = fill(&mut shard);
    drop(shard);
    let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
    let mut shard = heap.lock(0);
    blocks.drain(..3).for_each(|block| shard.free(block));
    shard.allow_reserve(true);
    shard.commit().expect("a commit");
    let fresh = shard.reserve(64).expect("space");
    shard.write(&fresh, 0, &[0; 64]);
    let block = shard.publish(fresh, 64);
    let savepoint = shard.savepoint();
    shard.set(block, 7);
    shard.reserve(20_000).expect("the snapshot is given up for it");
    shard.set(block, 9);
    shard.rollback_to(savepoint);
    assert_eq!(shard.word(block), 0);
    drop(shard);
    assert!(snapshot.lock(0).is_err(), "it was given up");
}
