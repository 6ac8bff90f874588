//! What byte strings cost, by length: one block up to some tens of KiB, a table of chunks above.
//!
//! `cargo bench --bench blob`. One iteration is:
//! - *replace*: a blob is made, the one before it freed, one commit: the bytes are copied, summed
//!   and, where the medium asks for it, flushed;
//! - *read*: the whole blob is read in place and one byte of each line looked at;
//! - *set 16 bytes*: 16 bytes in the middle are overwritten, which copies the block or chunk around
//!   them; one commit;
//! - *append 64 times*: a fresh blob of that length gets 64 times 16 bytes, each with its commit;
//!   making and freeing it is not measured. Criterion's time per element is that of one append.

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use heap::{Heap, Shard};
use structures::blob::Blob;

mod media;
#[path = "media/pool.rs"]
mod pool;

use media::Medium;
use pool::Pool;

const LENGTHS: [usize; 4] = [64, 4096, 65536, 1 << 20];
const APPENDS: usize = 64;

fn create(shard: &mut Shard<'_>, bytes: &[u8]) -> Blob {
    Blob::create(shard, black_box(bytes)).expect("free memory")
}

/// Frees all of a blob within the open transaction.
fn free(shard: &mut Shard<'_>, mut blob: Blob) {
    while blob != Blob::EMPTY {
        blob = blob.free_step(shard, 1000).0;
    }
}

fn replace(c: &mut Criterion, medium: Medium, heap: &Heap, bytes: &[u8]) {
    let mut group = c.benchmark_group(format!("blob/{}/{}", medium.name(), bytes.len()));
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    let mut blob = Blob::EMPTY;
    group.bench_function("replace", |b| {
        b.iter(|| {
            let mut shard = heap.lock(0);
            let new = create(&mut shard, bytes);
            free(&mut shard, std::mem::replace(&mut blob, new));
            shard.commit().expect("a commit");
        });
    });
    let mut shard = heap.lock(0);
    free(&mut shard, blob);
    shard.commit().expect("a commit");
}

fn read(c: &mut Criterion, medium: Medium, heap: &Heap, bytes: &[u8]) {
    let mut shard = heap.lock(0);
    let blob = create(&mut shard, bytes);
    shard.commit().expect("a commit");
    let mut group = c.benchmark_group(format!("blob/{}/{}", medium.name(), bytes.len()));
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("read", |b| {
        b.iter(|| {
            let mut sum = 0;
            let add = |piece: &[u8]| {
                sum += piece.iter().step_by(64).map(|byte| u64::from(*byte)).sum::<u64>();
            };
            black_box(blob).read(&shard, 0..bytes.len() as u64, add).expect("a sound blob");
            sum
        });
    });
    free(&mut shard, blob);
    shard.commit().expect("a commit");
}

fn set_range(c: &mut Criterion, medium: Medium, heap: &Heap, bytes: &[u8]) {
    let mut shard = heap.lock(0);
    let mut blob = create(&mut shard, bytes);
    shard.commit().expect("a commit");
    let name = format!("blob/{}/{}/set 16 bytes", medium.name(), bytes.len());
    let at = bytes.len() as u64 / 2;
    c.bench_function(&name, |b| {
        b.iter(|| {
            blob = blob.set_range(&mut shard, black_box(at), &[7; 16]).expect("free memory");
            shard.commit().expect("a commit");
        });
    });
    free(&mut shard, blob);
    shard.commit().expect("a commit");
}

fn append(c: &mut Criterion, medium: Medium, heap: &Heap, bytes: &[u8]) {
    let mut group = c.benchmark_group(format!("blob/{}/{}", medium.name(), bytes.len()));
    group.throughput(Throughput::Elements(APPENDS as u64));
    group.bench_function("append 64 times", |b| {
        b.iter_custom(|iterations| {
            let mut shard = heap.lock(0);
            let mut time = Duration::ZERO;
            for _ in 0..iterations {
                let mut blob = create(&mut shard, bytes);
                shard.commit().expect("a commit");
                let start = Instant::now();
                for _ in 0..APPENDS {
                    blob = blob.append(&mut shard, black_box(&[7; 16])).expect("free memory");
                    shard.commit().expect("a commit");
                }
                time += start.elapsed();
                free(&mut shard, blob);
                shard.commit().expect("a commit");
            }
            time
        });
    });
}

fn blobs(c: &mut Criterion) {
    for medium in media::ALL {
        let Pool { heap, .. } = &Pool::on(medium);
        for len in LENGTHS {
            let bytes = vec![b'x'; len];
            for bench in [replace, read, set_range, append] {
                bench(c, medium, heap, &bytes);
            }
        }
        assert_eq!(heap.used(), 0, "every block was freed");
    }
}

criterion_group!(benches, blobs);
criterion_main!(benches);
