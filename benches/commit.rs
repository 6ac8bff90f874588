//! What a commit of the heap costs: volatile, and with every flush and fence on memory that is
//! in for a persistent one (`/dev/shm`).
//!
//! `cargo bench --bench commit`. The transaction is that of a SET over an existing key: a new block
//! is filled and published, a slot swung to it, the old block freed.

use criterion::{Criterion, criterion_group, criterion_main};
use heap::{CreateOptions, Geometry, Heap, Ptr, View};
use pmem::{DomainRequest, MapOptions, Region};
use std::hint::black_box;

const LIMIT: u64 = 512 << 20;

fn options() -> CreateOptions {
    CreateOptions { geometry: Geometry::default(), ..CreateOptions::default() }
}

fn durable() -> (tempfile::TempDir, Heap) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in /dev/shm");
    let options_ =
        MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(LIMIT) };
    let region = Region::open(folder.path().join("pool"), &options_).expect("a region");
    (folder, Heap::create(region, &options()).expect("a pool"))
}

/// Overwrites the value of one of 4096 slots, as a SET does.
fn overwrite(heap: &Heap, table: Ptr, slot: u64, value: &[u8]) {
    let mut shard = heap.lock(0);
    let at = table.add(8 * slot);
    let old = Ptr::from_raw(shard.word(at));
    let block = shard.reserve(value.len() + 8).expect("free memory");
    shard.write_word(&block, 0, value.len() as u64);
    shard.write(&block, 8, value);
    let new = shard.publish(block, value.len() + 8);
    shard.set(at, new.raw());
    if !old.is_null() {
        shard.free(old);
    }
    shard.commit().expect("a commit");
}

fn table(heap: &Heap) -> Ptr {
    let mut shard = heap.lock(0);
    let block = shard.reserve(32768).expect("free memory");
    shard.write(&block, 0, &[0; 32768]);
    let table = shard.publish(block, 32768);
    shard.commit().expect("a commit");
    table
}

fn commit(c: &mut Criterion) {
    let volatile = Heap::volatile(LIMIT, &options()).expect("a heap");
    let (_folder, durable) = durable();
    for (name, heap) in [("volatile", &volatile), ("durable", &durable)] {
        let table = table(heap);
        for size in [32, 4096] {
            let value = vec![7; size];
            let mut n = 0u64;
            c.bench_function(&format!("overwrite/{name}/{size}"), |b| {
                b.iter(|| {
                    n = n.wrapping_mul(6364136223846793005).wrapping_add(1);
                    overwrite(heap, table, black_box(n >> 52), &value);
                });
            });
        }
        c.bench_function(&format!("one word/{name}"), |b| {
            let mut n = 0;
            b.iter(|| {
                n += 1;
                let mut shard = heap.lock(1);
                let root = shard.root(5);
                shard.set(root, n);
                shard.commit().expect("a commit");
            });
        });
    }
}

criterion_group!(benches, commit);
criterion_main!(benches);
