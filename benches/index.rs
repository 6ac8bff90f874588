//! What the hash index costs: lookups, changes at a constant size, growth.
//!
//! `cargo bench --bench index`. Entries are blocks of 16 bytes that hold their key. One iteration
//! is:
//! - *hit*, *miss*: one lookup of a uniformly random key that is there, or is not, in a table of a
//!   thousand entries (all in the processor's caches) and of a million (few of them);
//! - *remove and insert*: the oldest entry is taken out and freed, a new one comes, one commit: the
//!   table's size stays, and no segment splits;
//! - *grow to 4096*: 4096 entries into an empty index, 16 in a commit, splits included; the time
//!   for each entry is what criterion reports per element. Emptying the index again is not
//!   measured.

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use heap::{Ptr, Shard, View};
use structures::index::Index;
use structures::reclaim::{Owned, Queue};

mod media;
#[path = "media/pool.rs"]
mod pool;

use pool::Pool;

const GROWN: u64 = 4096;
const SIZES: [u64; 2] = [1000, 1_000_000];

fn hash(key: u64) -> u64 {
    let mixed = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

fn insert(shard: &mut Shard<'_>, index: Index, key: u64) {
    let fresh = shard.reserve(16).expect("free memory");
    shard.write_word(&fresh, 0, key);
    shard.write_word(&fresh, 8, 0);
    let entry = shard.publish(fresh, 16);
    let rehash = |shard: &Shard<'_>, entry: Ptr| hash(shard.word(entry));
    index.insert(shard, hash(key), entry, rehash).expect("free memory");
}

fn find(shard: &Shard<'_>, index: Index, key: u64) -> Option<Ptr> {
    index.find(shard, hash(key), |entry| shard.word(entry) == key).map(|slot| slot.entry())
}

fn remove(shard: &mut Shard<'_>, index: Index, key: u64) {
    let slot = index.find(shard, hash(key), |entry| shard.word(entry) == key).expect("the key");
    shard.free(slot.entry());
    index.remove(shard, slot);
}

/// Inserts keys, 16 in a transaction.
fn fill(shard: &mut Shard<'_>, index: Index, keys: std::ops::Range<u64>) {
    for key in keys {
        insert(shard, index, key);
        if key % 16 == 15 {
            shard.commit().expect("a commit");
        }
    }
    shard.commit().expect("a commit");
}

fn tables(c: &mut Criterion) {
    for medium in media::ALL {
        let Pool { heap, .. } = &Pool::on(medium);
        for (root, size) in SIZES.into_iter().enumerate() {
            let mut shard = heap.lock(0);
            let index = Index::at(shard.root(root));
            fill(&mut shard, index, 0..size);
            let mut group = c.benchmark_group(format!("index/{}/{size}", medium.name()));
            let mut rng = fastrand::Rng::with_seed(1);
            group.bench_function("hit", |b| {
                b.iter(|| assert!(find(&shard, index, black_box(rng.u64(..size))).is_some()));
            });
            group.bench_function("miss", |b| {
                b.iter(|| {
                    assert!(find(&shard, index, black_box(size + rng.u64(..size))).is_none())
                });
            });
            let mut oldest = 0;
            group.bench_function("remove and insert", |b| {
                b.iter(|| {
                    remove(&mut shard, index, oldest);
                    insert(&mut shard, index, oldest + size);
                    shard.commit().expect("a commit");
                    oldest += 1;
                });
            });
        }
    }
}

/// Frees all that an index holds, in steps as after FLUSHDB.
fn clear(shard: &mut Shard<'_>, root: Ptr, queue: Queue) {
    queue.push_index(shard, root, 0).expect("free memory");
    shard.commit().expect("a commit");
    while !queue.is_empty(shard) {
        let free_entry = |shard: &mut Shard<'_>, _, owned| {
            let Owned::Entry(entry) = owned else { unreachable!("an index owns entries") };
            shard.free(entry);
            Ok(1)
        };
        queue.step(shard, 64, free_entry).expect("free memory");
        shard.commit().expect("a commit");
    }
}

fn growth(c: &mut Criterion) {
    for medium in media::ALL {
        let Pool { heap, .. } = &Pool::on(medium);
        let mut group = c.benchmark_group(format!("index/{}", medium.name()));
        group.throughput(Throughput::Elements(GROWN));
        group.bench_function("grow to 4096", |b| {
            b.iter_custom(|iterations| {
                let mut shard = heap.lock(0);
                let (root, queue) = (shard.root(0), Queue::at(shard.root(1)));
                let mut time = Duration::ZERO;
                for _ in 0..iterations {
                    let start = Instant::now();
                    fill(&mut shard, Index::at(root), 0..GROWN);
                    time += start.elapsed();
                    clear(&mut shard, root, queue);
                }
                time
            });
        });
        assert_eq!(heap.used(), 0, "every block was freed");
    }
}

criterion_group!(benches, tables, growth);
criterion_main!(benches);
