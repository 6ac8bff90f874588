//! What the queue of what is to be freed costs: the delete itself, and the freeing that follows in
//! steps.
//!
//! `cargo bench --bench reclaim`. One iteration is:
//! - *unlink*: a blob of that length is pushed onto the queue, one commit: what DEL of a large
//!   value waits for;
//! - *free*: the queue is worked off in steps of 64 blocks with a commit each.
//!
//! Making the blob, and the other half of the two, is not measured.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use heap::{Heap, Shard};
use structures::blob::Blob;
use structures::reclaim::Queue;

mod media;
#[path = "media/pool.rs"]
mod pool;

use pool::Pool;

const LENGTHS: [usize; 2] = [1 << 20, 16 << 20];

fn unlink(shard: &mut Shard<'_>, queue: Queue, blob: Blob) {
    queue.push_blob(shard, blob).expect("free memory");
    shard.commit().expect("a commit");
}

fn free(shard: &mut Shard<'_>, queue: Queue) {
    while !queue.is_empty(shard) {
        queue.step(shard, 64, |_, _, _| Ok(0)).expect("free memory");
        shard.commit().expect("a commit");
    }
}

/// Time of the first and of the second half.
fn set_and_reclaim(heap: &Heap, bytes: &[u8]) -> [Duration; 2] {
    let mut shard = heap.lock(0);
    let queue = Queue::at(shard.root(0));
    let blob = Blob::create(&mut shard, bytes).expect("free memory");
    shard.commit().expect("a commit");
    let start = Instant::now();
    unlink(&mut shard, queue, blob);
    let unlinked = start.elapsed();
    free(&mut shard, queue);
    [unlinked, start.elapsed() - unlinked]
}

fn queues(c: &mut Criterion) {
    for medium in media::ALL {
        let Pool { heap, .. } = &Pool::on(medium);
        for len in LENGTHS {
            let bytes = vec![b'x'; len];
            for (half, name) in ["unlink", "free"].into_iter().enumerate() {
                c.bench_function(&format!("reclaim/{}/{len}/{name}", medium.name()), |b| {
                    b.iter_custom(|n| (0..n).map(|_| set_and_reclaim(heap, &bytes)[half]).sum());
                });
            }
        }
        assert_eq!(heap.used(), 0, "every block was freed");
    }
}

criterion_group!(benches, queues);
criterion_main!(benches);
