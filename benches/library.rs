//! What calls of the library cost, from the key's hash to the durable commit.
//!
//! `cargo bench --bench library`. A store has 100000 keys of 16 bytes; each iteration picks one
//! uniformly at random and is:
//! - *get*: its value is read, copied as the library returns it;
//! - *get_with*: one byte of each of its lines is looked at where they lie;
//! - *set*: it gets another value of the same length, one commit;
//! - *transaction of 10*: ten such keys get other values in one transaction, over several shards;
//!   criterion's time per element is that of one value;
//! - *insert and delete*: a new key is set, the one before it deleted, two commits.
//!
//! The number of keys is the same before and after each iteration. Nothing runs in the background.

#![forbid(unsafe_code)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use perdura::prelude::*;
use perdura::{Error, Options, Perdura};
use tempfile::TempDir;

mod media;

use media::Medium;

const KEYS: u64 = 100_000;
const LENGTHS: [usize; 2] = [32, 4096];

fn key(n: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut rest = n;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Returns a store with all keys, and the folder of its pool.
fn store(medium: Medium, value: &[u8]) -> (Perdura, TempDir) {
    let folder = media::folder();
    let options = match medium.domain() {
        None => Options::volatile(),
        Some(domain) => Options::new(folder.path().join("pool")).domain(domain).emulate_pmem(true),
    };
    let store = Perdura::open(options.background(false)).expect("a store");
    (0..KEYS).for_each(|n| store.set(key(n), value).expect("free memory"));
    (store, folder)
}

fn calls(c: &mut Criterion, medium: Medium, len: usize) {
    let value = vec![b'v'; len];
    let (store, _folder) = store(medium, &value);
    let mut rng = fastrand::Rng::with_seed(1);
    let mut any = move || key(rng.u64(..KEYS));
    let mut group = c.benchmark_group(format!("library/{}/{len}", medium.name()));
    group.bench_function("get", |b| {
        b.iter(|| store.get(black_box(any())).expect("a read").expect("a value"));
    });
    group.bench_function("get_with", |b| {
        b.iter(|| {
            let mut sum = 0;
            let look = |piece: &[u8]| {
                sum += piece.iter().step_by(64).map(|byte| u64::from(*byte)).sum::<u64>();
            };
            assert!(store.get_with(black_box(any()), look).expect("a read"));
            sum
        });
    });
    group.bench_function("set", |b| {
        b.iter(|| store.set(black_box(any()), black_box(&value)).expect("free memory"));
    });
    let mut last = KEYS;
    store.set(key(last), &value).expect("free memory");
    group.bench_function("insert and delete", |b| {
        b.iter(|| {
            store.set(key(last + 1), black_box(&value)).expect("free memory");
            assert!(store.delete(key(last)).expect("a delete"));
            last += 1;
        });
    });
    group.throughput(Throughput::Elements(10));
    group.bench_function("transaction of 10", |b| {
        b.iter(|| {
            let keys: [[u8; 16]; 10] = std::array::from_fn(|_| any());
            let set: Result<(), Error> = store.transaction(&keys, |tx| {
                keys.iter().try_for_each(|key| tx.set(key, black_box(&value)))
            });
            set.expect("free memory");
        });
    });
    group.finish();
    assert_eq!(store.len(), KEYS + 1);
}

fn all_media(c: &mut Criterion) {
    for medium in media::ALL {
        LENGTHS.iter().for_each(|len| calls(c, medium, *len));
    }
}

criterion_group!(benches, all_media);
criterion_main!(benches);
