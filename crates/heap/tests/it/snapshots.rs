//! What a snapshot holds, when that is returned, and when the snapshot is given up.

use heap::{CreateOptions, Full, Geometry, Heap, Ptr, Shard, Snapshot, SnapshotLost, View};
use pmem::{DomainRequest, MapOptions, Region};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const GEOMETRY: Geometry = Geometry { shards: 4, ring_parts: 4, ring_part: 4096, zone_spans: 64 };
/// The number of roots of each shard that have a block.
const BLOCKS: usize = 100;
const LEN: usize = 100;
/// The minimum size of a block of this length.
const TAKEN: u64 = LEN as u64;
/// The maximum number of blocks that a commit returns if it frees few.
const BY_COMMIT: u64 = 32;

fn volatile() -> Arc<Heap> {
    let options = CreateOptions { geometry: GEOMETRY, ..CreateOptions::default() };
    Arc::new(Heap::volatile(2 * 64 * 65536, &options).expect("a heap"))
}

fn pool(folder: &tempfile::TempDir) -> Arc<Heap> {
    let options = MapOptions {
        domain: DomainRequest::Clwb,
        emulate: true,
        ..MapOptions::new(2 * 64 * 65536)
    };
    let region = Region::open(folder.path().join("pool"), &options).expect("a region");
    let options = CreateOptions { geometry: GEOMETRY, ..CreateOptions::default() };
    Arc::new(Heap::create(region, &options).expect("a pool"))
}

/// Puts a block of this length into a root; frees the block that it had.
fn put(shard: &mut Shard<'_>, root: usize, len: usize, fill: u8) -> Result<(), Full> {
    let fresh = shard.reserve(len)?;
    shard.write(&fresh, 0, &vec![fill; len]);
    let block = shard.publish(fresh, len);
    replace(shard, root, block);
    shard.commit().map_err(|_| Full)
}

fn replace(shard: &mut Shard<'_>, root: usize, block: Ptr) {
    let at = shard.root(root);
    let old = Ptr::from_raw(shard.word(at));
    shard.set(at, block.raw());
    if !old.is_null() {
        shard.free(old);
    }
}

fn put_all(heap: &Heap, fill: u8) {
    for shard in 0..heap.shards() {
        (0..BLOCKS).for_each(|root| put(&mut heap.lock(shard), root, LEN, fill).expect("space"));
    }
}

/// Puts blocks of a length into the roots of all shards, except the last root, until no shard has
/// space; returns the roots that have one.
fn fill(heap: &Heap, len: usize) -> Vec<(usize, usize)> {
    let roots =
        (0..heap::ROOTS - 1).flat_map(|root| (0..heap.shards()).map(move |shard| (shard, root)));
    roots.filter(|(shard, root)| put(&mut heap.lock(*shard), *root, len, 1).is_ok()).collect()
}

fn delete(heap: &Heap, (shard, root): (usize, usize)) {
    let mut shard = heap.lock(shard);
    shard.allow_reserve(true);
    replace(&mut shard, root, Ptr::NULL);
    shard.commit().expect("a delete needs no space");
}

#[test]
fn a_shard_that_was_read_gives_back_what_it_held_at_once() {
    let heap = volatile();
    put_all(&heap, 1);
    let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
    assert!(heap.snapshot_stats().is_taken);
    put_all(&heap, 2);
    let at_first = heap.snapshot_stats();
    assert!(at_first.held >= 4 * BLOCKS as u64 * TAKEN, "{at_first:?}");
    assert!(at_first.overlay >= 4 * BLOCKS as u64 * 8, "{at_first:?}");
    let mut before = at_first;
    for shard in 0..4 {
        let view = snapshot.lock(shard).expect("it was not released");
        let block = Ptr::from_raw(view.word(view.root(7)));
        assert_eq!(view.bytes(block, LEN), [1; LEN], "as at the cut");
        drop(view);
        snapshot.release(shard);
        let after = heap.snapshot_stats();
        assert_eq!(after.held, at_first.held * (3 - shard as u64) / 4, "shard {shard}");
        assert!(after.overlay < before.overlay, "{after:?}");
        assert_eq!(snapshot.lock(shard).err(), Some(SnapshotLost::Released));
        // Blocks that are freed now are not held.
        (0..BLOCKS).for_each(|root| put(&mut heap.lock(shard), root, LEN, 3).expect("space"));
        assert_eq!(heap.snapshot_stats().held, after.held);
        before = after;
    }
    assert_eq!((before.held, before.overlay), (0, 0));
    assert_eq!(before.peak, at_first.peak);
    drop(snapshot);
    assert!(!heap.snapshot_stats().is_taken);
}

#[test]
fn words_that_only_the_allocator_reads_are_not_saved() {
    let folder = tempfile::tempdir().expect("a folder");
    for heap in [volatile(), pool(&folder)] {
        put_all(&heap, 1);
        let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
        (0..3).for_each(|fill| put_all(&heap, fill));
        // One root for each block; no bitmap, span or count.
        assert_eq!(snapshot.held_words(), 4 * BLOCKS);
    }
}

#[test]
fn a_commit_returns_a_bounded_number_of_held_blocks() {
    let heap = volatile();
    put_all(&heap, 1);
    let pins: Vec<_> = (0..4).map(|shard| heap.lock(shard).pin()).collect();
    (0..5).for_each(|fill| put_all(&heap, fill));
    let held = heap.snapshot_stats().held;
    assert!(held >= 20 * BLOCKS as u64 * TAKEN);
    drop(pins);
    assert_eq!(heap.snapshot_stats().held, held, "whoever drops a pin returns nothing");
    let (mut before, mut commits) = (held, 0);
    let size = held / (20 * BLOCKS as u64);
    while before > 0 {
        put(&mut heap.lock(commits % 4), 0, LEN, 1).expect("space");
        let after = heap.snapshot_stats().held;
        assert!(before - after <= BY_COMMIT * size, "{} at once", (before - after) / size);
        (before, commits) = (after, commits + 1);
    }
    assert!(commits >= 20 * BLOCKS / BY_COMMIT as usize, "{commits}");
}

#[test]
fn the_background_returns_the_rest_in_bounded_steps() {
    let heap = volatile();
    put_all(&heap, 1);
    let pins: Vec<_> = (0..4).map(|shard| heap.lock(shard).pin()).collect();
    (0..9).for_each(|fill| put_all(&heap, fill));
    assert_eq!(heap.return_held_step(), 0, "they are pinned");
    drop(pins);
    let steps: Vec<usize> =
        std::iter::repeat_with(|| heap.return_held_step()).take_while(|step| *step > 0).collect();
    assert_eq!(steps.iter().sum::<usize>(), 36 * BLOCKS);
    assert!(steps.len() > 2 && steps.iter().all(|step| *step <= 4 * 256), "{steps:?}");
    assert_eq!(heap.snapshot_stats().held, 0);
}

#[test]
fn after_a_snapshot_of_a_full_pool_deletes_and_then_writes_work_again() {
    let folder = tempfile::tempdir().expect("a folder");
    for (heap, len) in [(volatile(), 20_000), (pool(&folder), 20_000), (volatile(), 65536)] {
        let stored = fill(&heap, len);
        assert!(stored.len() > 40, "{}", stored.len());
        let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
        let (deleted, kept) = stored.split_at(stored.len() / 2);
        deleted.iter().for_each(|at| delete(&heap, *at));
        assert!(heap.snapshot_stats().held >= (deleted.len() * len) as u64);
        drop(snapshot);
        assert_eq!(heap.snapshot_stats().held, 0);
        for (shard, root) in deleted {
            put(&mut heap.lock(*shard), *root, len, 2).expect("what was deleted is free");
        }
        for (shard, root) in kept {
            let shard = heap.lock(*shard);
            let block = Ptr::from_raw(shard.word(shard.root(*root)));
            assert!(shard.bytes(block, len) == vec![1; len]);
        }
    }
}

#[test]
fn a_full_pool_gives_the_snapshot_up_and_takes_the_write() {
    let folder = tempfile::tempdir().expect("a folder");
    for (heap, len) in [(volatile(), 20_000), (pool(&folder), 20_000), (volatile(), 65536)] {
        let stored = fill(&heap, len);
        let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
        // Nothing is held: a write that finds no space is refused, and the snapshot continues.
        assert_eq!(put(&mut heap.lock(0), heap::ROOTS - 1, len, 2), Err(Full));
        assert!(snapshot.lock(0).is_ok());
        stored[..stored.len() / 2].iter().for_each(|at| delete(&heap, *at));
        for (shard, root) in &stored[..stored.len() / 4] {
            put(&mut heap.lock(*shard), *root, len, 2).expect("what the snapshot held");
        }
        assert_eq!(snapshot.lock(0).err(), Some(SnapshotLost::Full));
        assert_eq!(heap.snapshot_stats().given_up, 1);
        drop(snapshot);
        let (snapshot, ()) = heap.snapshot(|| ()).expect("the next one");
        assert!(snapshot.lock(0).is_ok());
    }
}

#[test]
fn a_snapshot_that_holds_more_than_its_limit_is_given_up() {
    let heap = volatile();
    put_all(&heap, 1);
    heap.set_snapshot_limit(64 << 10);
    let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
    let mut fill = 0;
    while snapshot.lock(0).is_ok() {
        let stats = heap.snapshot_stats();
        assert!(stats.held + stats.overlay <= 64 << 10, "{stats:?}");
        put(&mut heap.lock(fill % 4), fill % BLOCKS, LEN, 2).expect("space");
        fill += 1;
    }
    let stats = heap.snapshot_stats();
    assert_eq!(snapshot.lock(0).err(), Some(SnapshotLost::OverLimit));
    assert!(stats.given_up == 1 && stats.peak > 64 << 10, "{stats:?}");
    // Writers return what it held, and it holds no more.
    (0..400).for_each(|n| put(&mut heap.lock(n % 4), n % BLOCKS, LEN, 3).expect("space"));
    heap.return_held_step();
    let stats = heap.snapshot_stats();
    assert_eq!((stats.held, stats.overlay, snapshot.held_words()), (0, 0, 0));
}

/// Spans that readers held are released by records of the usual length: a full pool has no space
/// for a longer one.
#[test]
fn many_spans_that_were_held_are_released_a_few_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let geometry = Geometry { ring_part: 512, shards: 1, ..GEOMETRY };
    let options =
        MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(6 << 22) };
    let region = Region::open(folder.path().join("pool"), &options).expect("a region");
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    let heap = Arc::new(Heap::create(region, &options).expect("a pool"));
    // Two in a span, so that a record has space for only a part of the spans.
    let stored = fill(&heap, 30_000);
    let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
    stored.iter().for_each(|at| delete(&heap, *at));
    drop(snapshot);
    let mut shard = heap.lock(0);
    for root in 0..stored.len() / 2 {
        put(&mut shard, root, 65536, 2).expect("each span is free for any block");
    }
}

#[test]
fn a_panic_at_the_cut_leaves_no_snapshot() {
    let heap = volatile();
    put_all(&heap, 1);
    let panic = || heap.snapshot(|| std::panic::resume_unwind(Box::new("a bug")));
    assert!(catch_unwind(AssertUnwindSafe(panic)).is_err());
    assert!(!heap.snapshot_stats().is_taken);
    put_all(&heap, 2);
    assert_eq!(heap.snapshot_stats().held, 0);
    assert!(heap.snapshot(|| ()).is_ok());
}

/// Returns the content of a root's block as a snapshot sees it.
fn filled(snapshot: &Snapshot, shard: usize, root: usize) -> u8 {
    let view = snapshot.lock(shard).expect("it is not given up");
    let bytes = view.bytes(Ptr::from_raw(view.word(view.root(root))), LEN);
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "bytes of two blocks");
    bytes[0]
}

#[test]
fn each_of_several_snapshots_sees_its_own_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    for (seed, heap) in [volatile(), pool(&folder)].into_iter().enumerate() {
        let mut random = fastrand::Rng::with_seed(seed as u64);
        put_all(&heap, 0);
        let mut model = [[0; BLOCKS]; 4];
        let mut taken: Vec<(Snapshot, [[u8; BLOCKS]; 4])> = Vec::new();
        for step in 0..3000 {
            let (shard, root) = (random.usize(..4), random.usize(..BLOCKS));
            match random.usize(..20) {
                0 if taken.len() < 6 => {
                    let (snapshot, at_cut) = heap.snapshot(|| model).expect("a snapshot");
                    taken.push((snapshot, at_cut));
                }
                1 if !taken.is_empty() => drop(taken.swap_remove(random.usize(..taken.len()))),
                _ => {
                    let fill = random.u8(..);
                    put(&mut heap.lock(shard), root, LEN, fill).expect("space");
                    model[shard][root] = fill;
                }
            }
            for (snapshot, at_cut) in &taken {
                let (shard, root) = (random.usize(..4), random.usize(..BLOCKS));
                assert_eq!(filled(snapshot, shard, root), at_cut[shard][root], "step {step}");
            }
            assert_eq!(heap.snapshot_stats().taken, taken.len());
        }
        drop(taken);
        while heap.return_held_step() > 0 {}
        let stats = heap.snapshot_stats();
        assert_eq!((stats.held, stats.overlay, stats.given_up), (0, 0, 0));
    }
}

#[test]
fn a_snapshot_that_ends_gives_back_what_no_other_holds() {
    let heap = volatile();
    put_all(&heap, 1);
    let (first, ()) = heap.snapshot(|| ()).expect("a snapshot");
    put_all(&heap, 2);
    let of_first = heap.snapshot_stats().held;
    let (second, ()) = heap.snapshot(|| ()).expect("another one");
    put_all(&heap, 3);
    assert_eq!(heap.snapshot_stats().held, 2 * of_first);
    assert_eq!((first.held_words(), second.held_words()), (4 * BLOCKS, 4 * BLOCKS));
    drop(first);
    assert_eq!(heap.snapshot_stats().held, of_first, "what the second one may read");
    assert_eq!(filled(&second, 3, 7), 2);
    let (third, ()) = heap.snapshot(|| ()).expect("a third one");
    put_all(&heap, 4);
    // The newer one holds nothing that the older one does not.
    drop(third);
    assert_eq!(heap.snapshot_stats().held, 2 * of_first);
    assert_eq!(filled(&second, 0, 0), 2);
    drop(second);
    let stats = heap.snapshot_stats();
    assert_eq!((stats.held, stats.overlay, stats.taken), (0, 0, 0));
}

#[test]
fn the_oldest_of_several_snapshots_is_given_up_first() {
    let heap = volatile();
    put_all(&heap, 1);
    let limit = 512 << 10;
    heap.set_snapshot_limit(limit);
    let (old, ()) = heap.snapshot(|| ()).expect("a snapshot");
    // Three quarters of the limit, which the old one alone holds.
    let held = || heap.snapshot_stats().held + heap.snapshot_stats().overlay;
    let mut fill: u8 = 1;
    while held() < limit / 4 * 3 {
        fill += 1;
        put_all(&heap, fill);
    }
    let (young, ()) = heap.snapshot(|| ()).expect("another one");
    let at_cut = fill;
    while old.lock(0).is_ok() {
        fill += 1;
        put_all(&heap, fill);
    }
    assert_eq!(old.lock(1).err(), Some(SnapshotLost::OverLimit));
    // The space that it held is returned meanwhile, so that the younger one continues.
    for _ in 0..4 {
        fill += 1;
        put_all(&heap, fill);
        heap.return_held_step();
        assert_eq!(filled(&young, 2, 5), at_cut);
    }
    assert_eq!(heap.snapshot_stats().given_up, 1);
    assert!(held() < limit, "{} of {limit}", held());
    // ... until that one holds too much itself.
    for _ in 0..1000 {
        fill = fill.wrapping_add(1);
        put_all(&heap, fill);
        assert!(held() <= limit + limit / 4, "{} of {limit}", held());
    }
    assert_eq!(young.lock(0).err(), Some(SnapshotLost::OverLimit));
    assert_eq!(heap.snapshot_stats().given_up, 2);
    drop((old, young));
    while heap.return_held_step() > 0 {}
    assert_eq!(held(), 0);
}

#[test]
fn a_full_pool_gives_as_many_snapshots_up_as_hold_what_is_needed() {
    let heap = volatile();
    heap.set_snapshot_limit(u64::MAX);
    let stored = fill(&heap, 20_000);
    let (first, ()) = heap.snapshot(|| ()).expect("a snapshot");
    let (second, ()) = heap.snapshot(|| ()).expect("another one, of the same moment");
    stored[..stored.len() / 2].iter().for_each(|at| delete(&heap, *at));
    let (third, ()) = heap.snapshot(|| ()).expect("a third one");
    for (shard, root) in &stored[..stored.len() / 4] {
        put(&mut heap.lock(*shard), *root, 20_000, 2).expect("what the first two held");
    }
    assert_eq!(first.lock(0).err(), Some(SnapshotLost::Full));
    assert_eq!(second.lock(0).err(), Some(SnapshotLost::Full));
    assert!(third.lock(0).is_ok(), "it holds nothing that a writer needs");
}

#[test]
fn there_are_no_more_snapshots_than_may_be() {
    let heap = volatile();
    let mut all: Vec<Snapshot> = Vec::new();
    while let Ok((snapshot, ())) = heap.snapshot(|| ()) {
        all.push(snapshot);
    }
    assert_eq!(all.len(), heap::MOST_SNAPSHOTS);
    drop(all.pop());
    assert!(heap.snapshot(|| ()).is_ok());
}

/// A transaction that reads the past sees it by every way of reading, and ends with its guard.
#[test]
fn a_transaction_of_a_snapshot_sees_the_past_and_the_next_one_the_present() {
    let heap = volatile();
    let set = |value: u64| {
        let mut shard = heap.lock(0);
        (0..16).for_each(|root| shard.set(shard.root(root), value << 48 | root as u64));
        shard.commit().expect("a commit");
    };
    set(1);
    let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
    let check = |shard: &Shard<'_>, value: u64| {
        let first = shard.root(0).raw().next_multiple_of(64);
        let (at, n) = (Ptr::from_raw(first), (first - shard.root(0).raw()) / 8);
        assert_eq!(shard.word(at), value << 48 | n);
        assert_eq!(shard.line(at), std::array::from_fn(|i| value << 48 | (n + i as u64)));
        assert_eq!(shard.tagged(at, value as u16), 0xff);
    };
    for value in 2..5 {
        check(&snapshot.transaction(0).expect("it is there"), 1);
        set(value);
        check(&snapshot.transaction(0).expect("it is there"), 1);
        check(&heap.lock(0), value);
    }
    let panic = || {
        let _locked = snapshot.transaction(0);
        std::panic::resume_unwind(Box::new("a bug"));
    };
    assert!(catch_unwind(AssertUnwindSafe(panic)).is_err());
    check(&heap.lock(0), 4);
}

/// Readers of a snapshot take a shard again and again; a waiting thread must not have to be quick
/// to get it in between.
#[test]
fn a_writer_waits_for_few_steps_of_a_reader() {
    const WRITES: u64 = 300;
    let heap = volatile();
    put_all(&heap, 1);
    let (snapshot, ()) = heap.snapshot(|| ()).expect("the only one");
    let (steps, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let waited: Vec<u64> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                let shard = snapshot.lock(0).expect("it is not released");
                let began = Instant::now();
                while began.elapsed() < Duration::from_micros(50) {
                    std::hint::black_box(shard.word(shard.root(0)));
                }
                steps.fetch_add(1, Relaxed);
            }
        });
        let write = |_| {
            std::thread::sleep(Duration::from_micros(500));
            let before = steps.load(Relaxed);
            let mut shard = heap.lock(0);
            let waited = steps.load(Relaxed) - before;
            put(&mut shard, 1, LEN, 2).expect("space");
            waited
        };
        let waited = (0..WRITES).map(write).collect();
        is_over.store(true, Relaxed);
        waited
    });
    // One is under way when the writer arrives; more pass if the machine does not schedule the
    // writer.
    let soon = waited.iter().filter(|steps| **steps < 4).count();
    assert!(soon * 5 > waited.len() * 4, "{soon} of {WRITES} writes: {waited:?}");
    let sum: u64 = waited.iter().sum();
    assert!(sum < 40 * WRITES, "{sum} steps in {WRITES} writes: {waited:?}");
}
