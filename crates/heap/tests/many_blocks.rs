//! What a transaction of many blocks costs: each block as much as in a small one.

use std::time::{Duration, Instant};

use heap::{CreateOptions, Geometry, Heap, Ptr, Shard};

fn heap() -> Heap {
    let geometry = Geometry { shards: 1, ..Geometry::default() };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    Heap::volatile(256 << 20, &options).expect("a heap in memory")
}

fn block(shard: &mut Shard<'_>) -> Ptr {
    let fresh = shard.reserve(48).expect("room");
    shard.write(&fresh, 0, &[1; 40]);
    shard.publish(fresh, 40)
}

/// The shortest of a few runs, each in a heap of its own.
fn shortest(run: impl Fn(&mut Shard<'_>)) -> Duration {
    let once = || {
        let heap = heap();
        let mut shard = heap.lock(0);
        let begin = Instant::now();
        run(&mut shard);
        shard.commit().expect("a commit");
        begin.elapsed()
    };
    (0..5).map(|_| once()).min().expect("a run")
}

#[track_caller]
fn grows_with_its_blocks(run: impl Fn(&mut Shard<'_>, usize)) {
    const FEW: usize = 4_000;
    const TIMES: usize = 12;
    let (few, many) =
        (shortest(|shard| run(shard, FEW)), shortest(|shard| run(shard, FEW * TIMES)));
    assert!(
        many < few * 4 * TIMES as u32,
        "{FEW} blocks take {few:?}, {TIMES} times as many {many:?}"
    );
}

#[test]
fn blocks_that_their_own_transaction_frees_are_found_by_their_place() {
    // As one member that gets a score after the other.
    grows_with_its_blocks(|shard, count| {
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
    grows_with_its_blocks(|shard, count| {
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
