//! The cost of a transaction of many blocks: each block costs as much as in a small one.

use std::time::{Duration, Instant};

use heap::{CreateOptions, Geometry, Heap, Ptr, Savepoint, Shard, View};
use pmem::{DomainRequest, MapOptions, Region};

fn heap() -> Heap {
    let geometry = Geometry { shards: 1, ..Geometry::default() };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    Heap::volatile(256 << 20, &options).expect("a heap in memory")
}

fn block(shard: &mut Shard<'_>) -> Ptr {
    let fresh = shard.reserve(48).expect("free memory");
    shard.write(&fresh, 0, &[1; 40]);
    shard.publish(fresh, 40)
}

/// Returns the shortest of a few runs, each in a heap of its own.
fn shortest(run: impl Fn(&mut Shard<'_>)) -> Duration {
    let once = || {
        let heap = heap();
        let mut shard = heap.lock(0);
        let begin = Instant::now();
        run(&mut shard);
        shard.commit().expect("a commit");
        begin.elapsed()
    };
    (0..3).map(|_| once()).min().expect("a run")
}

/// A hundred thousand blocks take milliseconds; if each were compared with all others, many
/// seconds.
#[track_caller]
fn takes_no_time(run: impl Fn(&mut Shard<'_>, usize)) {
    let took = shortest(|shard| run(shard, 100_000));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn blocks_that_their_own_transaction_frees_are_found_by_their_place() {
    // Like one member that gets one score after another.
    takes_no_time(|shard, count| {
        let mut last = block(shard);
        for _ in 0..count {
            let next = block(shard);
            shard.free(last);
            last = next;
        }
    });
}

#[test]
fn appended_bytes_are_compared_with_freed_blocks_by_their_place() {
    takes_no_time(|shard, count| {
        let blocks: Vec<Ptr> = (0..2 * count).map(|_| block(shard)).collect();
        shard.commit().expect("a commit");
        for (number, at) in blocks.into_iter().enumerate() {
            match number % 2 {
                0 => shard.free(at),
                _ => shard.append(at, 40, &[2; 8]),
            }
        }
    });
}

/// Words of blocks that the transaction has reserved, with savepoints, rollbacks and frees in any
/// order: each has the value that a list of all of them has, and no other block is in use.
#[test]
fn words_of_reserved_blocks_follow_savepoints_and_returns() {
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let heap = heap();
        let mut shard = heap.lock(0);
        let mut model: Vec<(Ptr, u64)> = Vec::new();
        let mut marks: Vec<(Savepoint, Vec<(Ptr, u64)>)> = Vec::new();
        for round in 0..2000 {
            match random.u32(0..100) {
                0..60 => {
                    let at = block(&mut shard);
                    shard.set(at, round);
                    model.push((at, round));
                }
                60..85 if !model.is_empty() => {
                    let changed = random.usize(..model.len());
                    shard.set(model[changed].0, round);
                    model[changed].1 = round;
                }
                85..90 if !model.is_empty() => {
                    let (at, _) = model.swap_remove(random.usize(..model.len()));
                    shard.free(at);
                }
                90..97 => marks.push((shard.savepoint(), model.clone())),
                _ if !marks.is_empty() => {
                    let (mark, then) = marks.swap_remove(random.usize(..marks.len()).min(3));
                    marks.clear();
                    shard.rollback_to(mark);
                    model = then;
                }
                _ => {}
            }
        }
        for &(at, value) in &model {
            assert_eq!(shard.word(at), value, "seed {seed}, {at:?}");
        }
        shard.commit().expect("a commit");
        for &(at, value) in &model {
            assert_eq!(shard.word(at), value, "seed {seed}, {at:?} after the commit");
        }
        let used: usize = model.iter().map(|&(at, _)| shard.capacity(at)).sum();
        assert_eq!(heap.used(), used as u64, "seed {seed}: freed blocks are not in use");
    }
}

/// Returns how many whole spans another shard gets after this one has made a transaction longer
/// than its log, and this many short ones.
fn spans_left(short: u64) -> usize {
    let folder = tempfile::tempdir().expect("a scratch directory");
    let map = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(64 << 20) };
    let region = Region::open(folder.path().join("pool"), &map).expect("a region");
    let geometry = Geometry { shards: 2, ring_parts: 4, ring_part: 4096, zone_spans: 64 };
    let options = CreateOptions { geometry, boot_id: [1; 16], ..CreateOptions::default() };
    let heap = Heap::create(region, &options).expect("a pool");
    let mut shard = heap.lock(1);
    let last = (0..30_000).map(|_| block(&mut shard)).last().expect("a block");
    let root = shard.root(0);
    shard.set(root, last.raw());
    shard.commit().expect("a commit");
    for number in 0..short {
        shard.set(root, last.raw() + number);
        shard.commit().expect("a commit");
    }
    drop(shard);
    let mut shard = heap.lock(0);
    let mut taken = 0;
    while let Ok(fresh) = shard.reserve(60_000) {
        shard.write(&fresh, 0, &[1; 8]);
        shard.publish(fresh, 8);
        shard.commit().expect("a commit");
        taken += 1;
    }
    taken
}

#[test]
fn spans_that_a_resting_log_holds_are_handed_over() {
    let (resting, busy) = (spans_left(0), spans_left(500));
    assert!(busy > 100, "{busy}");
    assert_eq!(resting, busy);
}
