//! Keyspaces for tests, and checks of their contents.
#![allow(dead_code, reason = "each test uses its own part")]

pub(crate) mod maintenance;
pub(crate) mod medium;
pub(crate) mod ops;

use std::path::Path;

use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Db, Expire, Keyspace, Txn};
use pmem::{DomainRequest, MapOptions, Region};

/// Bytes before the key in the entry of a short key and value, without an expiry time and with one.
pub(crate) const HEADER: u64 = 8;
pub(crate) const HEADER_WITH_TIME: u64 = 16;
/// The present time in every test.
pub(crate) const NOW: u64 = 1_700_000_000_000;
pub(crate) const SEED: [u8; 16] = *b"a seed for tests";

pub(crate) fn geometry(shards: usize) -> Geometry {
    Geometry { shards, ring_parts: 8, ring_part: 32 * 1024, zone_spans: 64 }
}

fn options(shards: usize) -> CreateOptions {
    CreateOptions { geometry: geometry(shards), hash_seed: SEED, ..CreateOptions::default() }
}

/// Returns a keyspace in DRAM of up to `limit` bytes.
pub(crate) fn volatile(shards: usize, limit: u64) -> Keyspace {
    let heap = Heap::volatile(limit, &options(shards)).expect("a heap in memory");
    Keyspace::new(heap, NOW)
}

/// Returns a keyspace in a file, with the instructions of persistent memory.
pub(crate) fn emulated(file: &Path, shards: usize) -> Keyspace {
    let map =
        MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(256 << 20) };
    let region = Region::open(file, &map).expect("a mapping");
    let heap = if Heap::is_blank(&region) {
        Heap::create(region, &options(shards)).expect("a new pool")
    } else {
        Heap::open(region, [0; 16]).expect("the same pool").0
    };
    Keyspace::new(heap, NOW)
}

pub(crate) fn db(number: usize) -> Db {
    Db::new(number).expect("a database")
}

/// Runs `work` in a transaction over the shards of `keys`, and commits it.
pub(crate) fn write<R>(ks: &Keyspace, keys: &[&str], work: impl FnOnce(&mut Txn<'_>) -> R) -> R {
    write_at(ks, NOW, keys, work)
}

pub(crate) fn write_at<R>(
    ks: &Keyspace,
    now: u64,
    keys: &[&str],
    work: impl FnOnce(&mut Txn<'_>) -> R,
) -> R {
    let shards: Vec<usize> = keys.iter().map(|key| ks.key(key.as_bytes()).shard()).collect();
    let mut txn = ks.begin(&shards, now);
    let result = work(&mut txn);
    txn.commit().expect("a commit");
    result
}

pub(crate) fn set(ks: &Keyspace, key: &str, value: &str) {
    set_until(ks, key, value, Expire::Clear);
}

pub(crate) fn set_until(ks: &Keyspace, key: &str, value: &str, expire: Expire) {
    write(ks, &[key], |txn| {
        let k = txn.key(key.as_bytes());
        txn.strings().set(db(0), &k, value.as_bytes(), expire).expect("free memory");
    });
}

pub(crate) fn get(ks: &Keyspace, now: u64, number: usize, key: &str) -> Option<String> {
    let key = ks.key(key.as_bytes());
    let mut txn = ks.begin_one(key.shard(), now);
    let entry = txn.find(db(number), &key)?;
    let bytes = txn.string(&entry).and_then(|value| value.to_vec()).expect("a string");
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Checks what database 0 holds under `key` at `NOW`.
pub(crate) fn check(ks: &Keyspace, key: &str, expect: Option<&str>) {
    assert_eq!(get(ks, NOW, 0, key).as_deref(), expect, "{key}");
}

thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts a step of a loop, and returns true. Panics after more steps than any test needs, so that
/// a walk over a broken structure, or one that makes no progress, fails instead of hanging.
pub(crate) fn goes_on() -> bool {
    const MOST: u64 = 2_000_000;
    let steps = STEPS.get() + 1;
    STEPS.set(steps);
    assert!(steps < MOST, "a walk does not end");
    true
}
