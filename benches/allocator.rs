//! What the heap's allocator costs, by size of block.
//!
//! `cargo bench --bench allocator`. One iteration is:
//! - *replace*: a block is reserved and published, the oldest of 256 is freed, one commit. Only the
//!   first 8 bytes of a block are published, so that filling it and its checksum are not measured;
//!   `commit` measures those;
//! - *replace 64*: the same for 64 blocks with one commit, which shows the allocator without the
//!   commit's own cost;
//! - *reserve*: a block is reserved and given back by a rollback: what the free lists in DRAM cost;
//! - *reuse a span*: blocks of 2 KiB that fill a span are published, commit; freed, commit; then
//!   the same with 4 KiB, so that the empty span changes its class each time.
//!
//! The number of live blocks is the same before and after each iteration.

#![forbid(unsafe_code)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use heap::{Ptr, Shard};

mod media;
#[path = "media/pool.rs"]
mod pool;

use pool::Pool;

const SIZES: [usize; 5] = [32, 256, 2048, 16320, 65536];
const LIVE: usize = 256;

fn allocate(shard: &mut Shard<'_>, size: usize) -> Ptr {
    let fresh = shard.reserve(black_box(size)).expect("free memory");
    shard.write_word(&fresh, 0, 7);
    shard.publish(fresh, 8)
}

/// Blocks of one size, of which the oldest is freed first.
struct Blocks {
    live: Vec<Ptr>,
    oldest: usize,
    size: usize,
}

impl Blocks {
    fn new(shard: &mut Shard<'_>, size: usize) -> Blocks {
        let live = (0..LIVE).map(|_| allocate(shard, size)).collect();
        shard.commit().expect("a commit");
        Blocks { live, oldest: 0, size }
    }

    fn replace(&mut self, shard: &mut Shard<'_>) {
        let new = allocate(shard, self.size);
        shard.free(std::mem::replace(&mut self.live[self.oldest], new));
        self.oldest = (self.oldest + 1) % LIVE;
    }

    fn free(self, shard: &mut Shard<'_>) {
        self.live.into_iter().for_each(|block| shard.free(block));
        shard.commit().expect("a commit");
    }
}

fn replace(c: &mut Criterion) {
    for medium in media::ALL {
        let Pool { heap, .. } = &Pool::on(medium);
        for size in SIZES {
            let mut group = c.benchmark_group(format!("allocator/{}/{size}", medium.name()));
            let mut blocks = Blocks::new(&mut heap.lock(0), size);
            group.bench_function("replace", |b| {
                b.iter(|| {
                    let mut shard = heap.lock(0);
                    blocks.replace(&mut shard);
                    shard.commit().expect("a commit");
                });
            });
            group.throughput(Throughput::Elements(64));
            group.bench_function("replace 64", |b| {
                b.iter(|| {
                    let mut shard = heap.lock(0);
                    (0..64).for_each(|_| blocks.replace(&mut shard));
                    shard.commit().expect("a commit");
                });
            });
            blocks.free(&mut heap.lock(0));
        }
        assert_eq!(heap.used(), 0, "every block was freed");
    }
}

/// No commit, so no medium.
fn reserve(c: &mut Criterion) {
    let Pool { heap, .. } = &Pool::on(media::Medium::Volatile);
    for size in SIZES {
        c.bench_function(&format!("allocator/reserve/{size}"), |b| {
            b.iter(|| {
                let mut shard = heap.lock(0);
                black_box(shard.reserve(black_box(size)).expect("free memory").ptr());
                shard.rollback();
            });
        });
    }
}

fn reuse(c: &mut Criterion) {
    for medium in media::ALL {
        let Pool { heap, .. } = &Pool::on(medium);
        let mut size = 2048;
        c.bench_function(&format!("allocator/{}/reuse a span", medium.name()), |b| {
            b.iter(|| {
                let mut shard = heap.lock(0);
                let count = 65536 / size - 1;
                let blocks: Vec<Ptr> = (0..count).map(|_| allocate(&mut shard, size)).collect();
                shard.commit().expect("a commit");
                blocks.into_iter().for_each(|block| shard.free(block));
                shard.commit().expect("a commit");
                size = 2048 + 4096 - size;
            });
        });
        assert_eq!(heap.used(), 0, "every block was freed");
    }
}

criterion_group!(benches, replace, reserve, reuse);
criterion_main!(benches);
