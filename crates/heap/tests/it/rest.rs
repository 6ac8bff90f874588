//! Logs are retired at rest: once, when nothing was committed for a while, and never by a commit.

use heap::{CreateOptions, Geometry, Heap, Recovery, RestingLogs, View};
use pmem::{DomainRequest, MapOptions, Region};

const BOOT: [u8; 16] = [1; 16];
const SHARDS: usize = 4;

struct Pool(tempfile::TempDir);

impl Pool {
    fn new() -> (Pool, Heap) {
        let pool = Pool(tempfile::tempdir().expect("a folder"));
        let geometry = Geometry { shards: SHARDS, ring_parts: 3, ring_part: 4096, zone_spans: 64 };
        let options = CreateOptions { geometry, boot_id: BOOT, ..CreateOptions::default() };
        let heap = Heap::create(pool.region(), &options).expect("a pool");
        (pool, heap)
    }

    fn region(&self) -> Region {
        let domain = DomainRequest::Clwb;
        let options = MapOptions { domain, emulate: true, ..MapOptions::new(16 << 20) };
        Region::open(self.0.path().join("pool"), &options).expect("a region")
    }

    /// Opens the pool as after a crash of the process, which had not closed it.
    fn reopen(&self, heap: Heap) -> (Heap, Recovery) {
        drop(heap);
        Heap::open(self.region(), BOOT).expect("a pool")
    }
}

fn put(heap: &Heap, shard: usize, value: u64) {
    let mut shard = heap.lock(shard);
    shard.set(shard.root(0), value);
    shard.commit().expect("a commit");
}

fn get(heap: &Heap, shard: usize) -> u64 {
    let shard = heap.lock(shard);
    shard.word(shard.root(0))
}

/// Looks once; returns the number of fences that it took.
fn look(logs: &mut RestingLogs, heap: &Heap) -> u64 {
    let before = pmem::counters().fences;
    logs.look(heap);
    pmem::counters().fences - before
}

#[test]
fn a_pool_at_rest_has_its_logs_retired_once_with_two_fences_for_each() {
    let (pool, heap) = Pool::new();
    let mut logs = RestingLogs::default();
    put(&heap, 0, 1);
    put(&heap, 2, 3);
    let fences: Vec<u64> = (0..8).map(|_| look(&mut logs, &heap)).collect();
    assert_eq!(fences, [0, 0, 4, 0, 0, 0, 0, 0]);
    let (heap, recovery) = pool.reopen(heap);
    assert_eq!((recovery.records, recovery.words), (0, 0));
    assert_eq!([0, 2].map(|shard| get(&heap, shard)), [1, 3]);
}

#[test]
fn a_commit_begins_the_rest_anew_and_is_in_the_log_until_then() {
    let (pool, heap) = Pool::new();
    let mut logs = RestingLogs::default();
    for value in 0..10 {
        put(&heap, 0, value);
        assert_eq!([(); 2].map(|()| look(&mut logs, &heap)), [0, 0], "{value}");
    }
    assert_eq!(look(&mut logs, &heap), 2);
    put(&heap, 0, 10);
    put(&heap, 1, 11);
    let (heap, recovery) = pool.reopen(heap);
    assert_eq!(recovery.records, 2);
    assert_eq!([0, 1].map(|shard| get(&heap, shard)), [10, 11]);
}

#[test]
fn a_shard_that_is_locked_is_retired_when_it_is_not() {
    let (pool, heap) = Pool::new();
    let mut logs = RestingLogs::default();
    put(&heap, 0, 1);
    put(&heap, 1, 2);
    let locked = heap.lock(1);
    let fences: Vec<u64> = (0..5).map(|_| look(&mut logs, &heap)).collect();
    assert_eq!(fences, [0, 0, 2, 0, 0]);
    drop(locked);
    assert_eq!([(); 2].map(|()| look(&mut logs, &heap)), [2, 0]);
    assert_eq!(pool.reopen(heap).1.records, 0);
}

#[test]
fn a_transaction_of_several_shards_counts_though_only_some_of_its_logs_are_retired() {
    let (pool, heap) = Pool::new();
    let mut shards: Vec<_> = (0..SHARDS).map(|shard| heap.lock(shard)).collect();
    for shard in &mut shards {
        shard.set(shard.root(0), 7);
    }
    heap.commit_all(&mut shards).expect("a commit");
    drop(shards);
    let locked = heap.lock(2);
    assert!(!heap.retire_logs());
    drop(locked);
    let (heap, recovery) = pool.reopen(heap);
    assert_eq!(recovery.records, 1, "that of the locked shard");
    assert!((0..SHARDS).all(|shard| get(&heap, shard) == 7));
}

#[test]
fn a_pool_that_takes_no_writes_keeps_its_logs() {
    let (pool, heap) = Pool::new();
    put(&heap, 0, 1);
    heap.close().expect("a close");
    assert!(!heap.retire_logs());
    let (heap, _) = pool.reopen(heap);
    put(&heap, 0, 2);
    heap.pause(true);
    assert!(!heap.retire_logs());
    heap.pause(false);
    assert!(heap.retire_logs());
}
