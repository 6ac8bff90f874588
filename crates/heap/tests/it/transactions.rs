//! Transactions, commits and reopening, over a pool file with emulated flushes.

use heap::{CreateOptions, Full, Geometry, Heap, Ptr, Recovery, Shard, View};
use pmem::{DomainRequest, MapOptions, Region};
use std::os::unix::fs::FileExt;
use std::path::Path;

const BOOT: [u8; 16] = [1; 16];

fn geometry() -> Geometry {
    Geometry { shards: 4, ring_parts: 4, ring_part: 4096, zone_spans: 64 }
}

fn options() -> CreateOptions {
    CreateOptions { geometry: geometry(), boot_id: BOOT, ..CreateOptions::default() }
}

fn region(path: &Path, reserve: u64) -> Region {
    let options =
        MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(reserve) };
    Region::open(path, &options).expect("a region")
}

struct Pool {
    folder: tempfile::TempDir,
    reserve: u64,
}

impl Pool {
    fn new(zones: u64) -> (Pool, Heap) {
        Pool::with(zones, geometry())
    }

    fn with(zones: u64, geometry: Geometry) -> (Pool, Heap) {
        let folder = tempfile::tempdir().expect("a folder");
        let reserve = (zones + 1) * 64 * 65536;
        let options = CreateOptions { geometry, ..options() };
        let heap = Heap::create(region(&folder.path().join("pool"), reserve), &options);
        (Pool { folder, reserve }, heap.expect("a pool"))
    }

    /// Opens the pool as after a process crash: the heap was dropped, not closed.
    fn open(&self) -> Heap {
        self.try_open().expect("a pool").0
    }

    fn try_open(&self) -> Result<(Heap, Recovery), heap::OpenError> {
        Heap::open(region(&self.folder.path().join("pool"), self.reserve), BOOT)
    }
}

/// Stores `bytes` in a block and its place in a root.
fn put(shard: &mut Shard<'_>, root: usize, bytes: &[u8]) -> Result<Ptr, Full> {
    let block = shard.reserve(bytes.len() + 8)?;
    shard.write_word(&block, 0, bytes.len() as u64);
    shard.write(&block, 8, bytes);
    let ptr = shard.publish(block, bytes.len() + 8);
    let old = Ptr::from_raw(shard.word(shard.root(root)));
    if !old.is_null() {
        shard.free(old);
    }
    let root = shard.root(root);
    shard.set(root, ptr.raw());
    Ok(ptr)
}

fn get(shard: &Shard<'_>, root: usize) -> Option<Vec<u8>> {
    let ptr = Ptr::from_raw(shard.word(shard.root(root)));
    let len = shard.word(ptr) as usize;
    (!ptr.is_null()).then(|| shard.bytes(ptr.add(8), len).to_vec())
}

#[test]
fn a_commit_costs_one_fence_and_is_there_after_a_crash() {
    let (pool, heap) = Pool::new(1);
    let mut shard = heap.lock(2);
    let mut retirements = 0;
    for round in 0..1000u32 {
        put(&mut shard, 7, &round.to_le_bytes()).unwrap();
        let before = pmem::counters().fences;
        shard.commit().unwrap();
        retirements += pmem::counters().fences - before - 1;
    }
    // Sixteen records are retired together, by the fences of two commits.
    assert_eq!(retirements, 0);
    drop(shard);
    drop(heap);
    assert_eq!(get(&pool.open().lock(2), 7), Some(999u32.to_le_bytes().to_vec()));
}

#[test]
fn a_recovery_reads_two_sections_of_a_ring_at_most_whatever_its_size() {
    let geometry = Geometry { ring_parts: 16, ring_part: 32 << 10, ..geometry() };
    for commits in [1, 127, 128, 129, 255, 256, 257, 383, 500, 1023, 1024, 1025, 3000u32] {
        let (pool, heap) = Pool::with(1, geometry);
        let mut shard = heap.lock(2);
        for round in 0..commits {
            put(&mut shard, 7, &round.to_le_bytes()).unwrap();
            shard.commit().unwrap();
        }
        drop(shard);
        drop(heap);
        let (heap, recovery) = pool.try_open().unwrap();
        // A record takes one line and changes three words, a section is 8 KiB. The first one
        // publishes a span. Of a third section there may be one record.
        assert!((1..=257).contains(&recovery.records), "{recovery:?} after {commits} commits");
        assert!(recovery.words <= 3 * 257 + 2, "{recovery:?} after {commits} commits");
        let last = (commits - 1).to_le_bytes().to_vec();
        assert_eq!(get(&heap.lock(2), 7), Some(last));
    }
}

#[test]
fn what_was_not_committed_is_gone_and_given_back() {
    let (_pool, heap) = Pool::new(1);
    let mut shard = heap.lock(0);
    put(&mut shard, 0, b"first").unwrap();
    shard.commit().unwrap();
    let used = heap.used();
    let second = put(&mut shard, 0, b"second").unwrap();
    assert_eq!(get(&shard, 0).unwrap(), b"second", "a transaction sees what it staged");
    drop(shard);
    let mut shard = heap.lock(0);
    assert_eq!(get(&shard, 0).unwrap(), b"first");
    assert_eq!(heap.used(), used);
    assert_eq!(put(&mut shard, 1, b"third!").unwrap(), second, "the block is free again");
}

#[test]
fn a_failed_command_goes_back_to_its_savepoint() {
    let (_pool, heap) = Pool::new(1);
    let mut shard = heap.lock(0);
    put(&mut shard, 0, b"kept").unwrap();
    let savepoint = shard.savepoint();
    put(&mut shard, 0, b"dropped").unwrap();
    put(&mut shard, 1, b"dropped").unwrap();
    let place = Ptr::from_raw(shard.word(shard.root(0)));
    shard.set(place, 3);
    shard.rollback_to(savepoint);
    put(&mut shard, 2, b"after").unwrap();
    shard.commit().unwrap();
    assert_eq!(get(&shard, 0).unwrap(), b"kept");
    assert_eq!(get(&shard, 1), None);
    assert_eq!(get(&shard, 2).unwrap(), b"after");
}

#[test]
fn a_run_of_commands_logs_the_newest_value_of_a_word_and_only_that() {
    let (pool, heap) = Pool::new(1);
    let mut shard = heap.lock(1);
    for number in 1..=100 {
        shard.savepoint();
        let root = shard.root(0);
        shard.set(root, number);
    }
    let before = shard.savepoint();
    for root in [shard.root(0), shard.root(1)] {
        shard.set(root, 1000);
    }
    shard.rollback_to(before);
    let before = pmem::counters();
    shard.commit().unwrap();
    let cost = pmem::counters().since(&before);
    assert_eq!(cost.streamed + 64 * cost.lines, 64, "the record takes a line: {cost:?}");
    drop(shard);
    drop(heap);
    let heap = pool.open();
    let shard = heap.lock(1);
    assert_eq!((shard.word(shard.root(0)), shard.word(shard.root(1))), (100, 0));
}

#[test]
fn several_shards_commit_with_one_fence_whatever_their_number() {
    let (pool, heap) = Pool::new(1);
    let mut shards: Vec<_> = (0..4).map(|n| heap.lock(n)).collect();
    for shard in &mut shards {
        put(shard, 0, b"all or none").unwrap();
    }
    let before = pmem::counters().fences;
    heap.commit_all(&mut shards).unwrap();
    assert_eq!(pmem::counters().fences - before, 1);
    drop(shards);
    drop(heap);
    let heap = pool.open();
    for n in 0..4 {
        assert_eq!(get(&heap.lock(n), 0).unwrap(), b"all or none");
    }
}

#[test]
fn a_transaction_larger_than_a_part_of_the_ring_is_one_transaction() {
    let (pool, heap) = Pool::new(2);
    let mut shard = heap.lock(1);
    let mut last = Ptr::NULL;
    for n in 0..3000u64 {
        let block = shard.reserve(32).unwrap();
        shard.write_word(&block, 0, n);
        shard.write_word(&block, 8, last.raw());
        last = shard.publish(block, 16);
    }
    let root = shard.root(0);
    shard.set(root, last.raw());
    shard.commit().unwrap();
    drop(shard);
    drop(heap);
    let heap = pool.open();
    let shard = heap.lock(1);
    let mut at = Ptr::from_raw(shard.word(shard.root(0)));
    for n in (0..3000u64).rev() {
        assert_eq!(shard.word(at), n);
        at = Ptr::from_raw(shard.word(at.add(8)));
    }
    assert!(at.is_null());
}

#[test]
fn a_full_pool_says_so_loses_nothing_and_takes_writes_again_after_deletes() {
    let (pool, heap) = Pool::new(1);
    let value = vec![7; 4000];
    let mut stored = Vec::new();
    for n in 0.. {
        let mut shard = heap.lock(n % 4);
        let root = n / 4;
        if root >= heap::ROOTS || put(&mut shard, root, &value).is_err() {
            break;
        }
        shard.commit().unwrap();
        stored.push((n % 4, root));
    }
    assert!(stored.len() > 300, "{}", stored.len());
    drop(heap);
    let heap = pool.open();
    for &(shard, root) in &stored {
        assert_eq!(get(&heap.lock(shard), root).unwrap(), value);
    }
    for &(shard, root) in &stored {
        let mut shard = heap.lock(shard);
        let at = shard.root(root);
        let block = Ptr::from_raw(shard.word(at));
        shard.free(block);
        shard.set(at, 0);
        shard.commit().unwrap();
    }
    assert_eq!(heap.used(), 0);
    // All of it can now go to one shard: the others transfer their spans.
    let mut shard = heap.lock(3);
    let mut whole = 0;
    while shard.reserve(65536).is_ok() {
        whole += 1;
    }
    assert!(whole > 40, "{whole} spans of 63");
}

#[test]
fn a_block_freed_by_a_commit_is_the_next_to_be_reserved() {
    let (_pool, heap) = Pool::new(1);
    let mut shard = heap.lock(0);
    let blocks = [1, 2, 3].map(|root| put(&mut shard, root, b"as long").unwrap());
    shard.commit().unwrap();
    let second = put(&mut shard, 3, b"as long").unwrap();
    assert!(!blocks.contains(&second), "not before the commit");
    shard.commit().unwrap();
    assert_eq!(put(&mut shard, 1, b"as long").unwrap(), blocks[2]);
    shard.rollback();
    assert_eq!(get(&shard, 1).unwrap(), b"as long");
}

#[test]
fn blocks_kept_for_the_next_transaction_hold_no_span() {
    let (_pool, heap) = Pool::new(1);
    let mut shard = heap.lock(0);
    let whole_spans = |shard: &mut Shard<'_>| {
        let count = std::iter::from_fn(|| shard.reserve(heap::MAX_BLOCK).ok()).count();
        shard.rollback();
        count
    };
    let free = whole_spans(&mut shard);
    let new = |shard: &mut Shard<'_>| {
        let block = shard.reserve(64).unwrap();
        shard.write(&block, 0, &[7; 64]);
        shard.publish(block, 64)
    };
    let mut blocks: Vec<Ptr> = (0..6000).map(|_| new(&mut shard)).collect();
    shard.commit().unwrap();
    assert!(whole_spans(&mut shard) < free - 5);
    for block in blocks.iter_mut().step_by(100) {
        shard.free(*block);
        *block = new(&mut shard);
    }
    shard.commit().unwrap();
    blocks.into_iter().for_each(|block| shard.free(block));
    shard.commit().unwrap();
    put(&mut shard, 0, b"a commit releases what is empty").unwrap();
    shard.commit().unwrap();
    // One span holds what was put, and spans that were being filled when they became empty are not
    // released.
    assert!(whole_spans(&mut shard) >= free - 3);
}

#[test]
fn a_pool_grows_in_zones_up_to_its_limit() {
    let (pool, heap) = Pool::new(3);
    let (mut shard, at_first) = (heap.lock(0), heap.size());
    for n in 0..100 {
        put(&mut shard, n, &[n as u8; 60000]).unwrap();
        shard.commit().unwrap();
    }
    assert!(heap.size() > at_first);
    drop(shard);
    drop(heap);
    let heap = pool.open();
    for n in 0..100 {
        assert_eq!(get(&heap.lock(0), n).unwrap(), vec![n as u8; 60000]);
    }
}

#[test]
fn a_snapshot_sees_the_heap_as_it_was_while_writers_go_on() {
    let (_pool, heap) = Pool::new(1);
    let heap = std::sync::Arc::new(heap);
    let mut shard = heap.lock(0);
    put(&mut shard, 0, b"before").unwrap();
    shard.commit().unwrap();
    drop(shard);
    let (snapshot, ()) = heap.snapshot(|| ()).unwrap();
    let mut shard = heap.lock(0);
    for n in 0..50u64 {
        put(&mut shard, 0, &n.to_le_bytes()).unwrap();
        shard.commit().unwrap();
    }
    drop(shard);
    let then = snapshot.lock(0).unwrap();
    let block = Ptr::from_raw(then.word(then.root(0)));
    assert_eq!(then.bytes(block.add(8), then.word(block) as usize), b"before");
    drop(then);
    assert!(snapshot.held_words() > 0);
    drop(snapshot);
    assert!(heap.snapshot(|| ()).is_ok());
}

#[test]
fn a_large_value_is_filled_without_the_lock_and_may_be_dropped() {
    let (pool, heap) = Pool::new(1);
    let used = heap.used();
    let block = heap.lock(0).reserve_detached(50000).unwrap();
    drop(block);
    let mut block = heap.lock(0).reserve_detached(50000).unwrap();
    block.write(0, &50000u64.to_le_bytes());
    block.write(8, &[9; 40000]);
    heap::Detached::persist(std::slice::from_ref(&block));
    let mut shard = heap.lock(0);
    let fresh = shard.adopt(block);
    let ptr = shard.publish(fresh, 40008);
    let root = shard.root(0);
    shard.set(root, ptr.raw());
    shard.commit().unwrap();
    assert!(heap.used() > used);
    drop(shard);
    drop(heap);
    let heap = pool.open();
    let shard = heap.lock(0);
    let ptr = Ptr::from_raw(shard.word(shard.root(0)));
    assert_eq!(shard.bytes(ptr.add(8), 40000), vec![9; 40000]);
}

#[test]
fn a_volatile_heap_needs_no_fence() {
    let heap = Heap::volatile(64 << 20, &options()).unwrap();
    let before = pmem::counters();
    let mut shard = heap.lock(0);
    put(&mut shard, 0, b"gone with the process").unwrap();
    shard.commit().unwrap();
    assert_eq!(get(&shard, 0).unwrap(), b"gone with the process");
    assert_eq!((pmem::counters().fences, pmem::counters().lines), (before.fences, before.lines));
}

#[test]
fn a_pool_of_another_boot_opens_only_if_it_was_closed() {
    let (pool, heap) = Pool::new(1);
    drop(heap);
    let path = pool.folder.path().join("pool");
    let refused = Heap::open(region(&path, pool.reserve), [2; 16]);
    assert!(matches!(refused, Err(heap::OpenError::OtherBoot { .. })));
    pool.open().close().unwrap();
    let (_, report) = Heap::open(region(&path, pool.reserve), [2; 16]).unwrap();
    assert!(report.clean);
}

#[test]
fn a_pool_cut_short_or_of_something_else_is_refused() {
    let check = |change: &dyn Fn(&mut Vec<u8>), expect: &str| {
        let (pool, heap) = Pool::new(1);
        drop(heap);
        let path = pool.folder.path().join("pool");
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        let error = pool.try_open().expect_err(expect).to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(&|bytes| bytes.truncate(100_000), "cut short: expected at least");
    let in_both_headers = |at: usize, byte: u8| {
        move |bytes: &mut Vec<u8>| {
            bytes[at] = byte;
            bytes[4096 + at] = byte;
        }
    };
    check(&in_both_headers(0, b'X'), "not a Perdura pool");
    check(&in_both_headers(8, 9), "format 9");
    check(&in_both_headers(70, 0xff), "both copies of the pool's header");
}

#[test]
fn a_damaged_tail_is_refused() {
    /// The place of shard 0's tail: see the pool's format.
    const TAIL: u64 = 12288;
    let (pool, heap) = Pool::new(1);
    let mut shard = heap.lock(0);
    for n in 0..10 {
        put(&mut shard, n, b"value").expect("free memory");
        shard.commit().expect("a commit");
    }
    drop(shard);
    drop(heap);
    let file =
        std::fs::File::options().read(true).write(true).open(pool.folder.path().join("pool"));
    let file = file.expect("the pool's file");
    let mut tail = [0; 8];
    file.read_exact_at(&mut tail, TAIL).expect("the tail");
    let refused = |byte: usize, flip: u8| {
        let mut damaged = tail;
        damaged[byte] ^= flip;
        file.write_all_at(&damaged, TAIL).expect("a write");
        pool.try_open().err().map(|error| format!("{error:?}")).unwrap_or_default()
    };
    let flips = [(0, 1), (0, 0x40), (3, 0x10), (5, 0x80), (6, 1), (7, 0x80)];
    let errors: Vec<String> = flips.into_iter().map(|(byte, flip)| refused(byte, flip)).collect();
    let expected = [
        // The number differs from that of the newest record in the ring.
        "DamagedLog { shard: 0, expected: 0, found: 10 }",
        "DamagedLog { shard: 0, expected: 11, found: 65 }",
        "DamagedLog { shard: 0, expected: 11, found: 268435457 }",
        "DamagedLog { shard: 0, expected: 11, found: 140737488355329 }",
        // The place is not that of record 1, though there are later ones.
        "DamagedLog { shard: 0, expected: 1, found: 10 }",
        // There is no such place.
        "DamagedTail { shard: 0, lines: 256, found: 32768 }",
    ];
    assert_eq!(errors, expected);
    file.write_all_at(&tail, TAIL).expect("a write");
    let heap = pool.open();
    let shard = heap.lock(0);
    assert!((0..10).all(|n| shard.word(shard.root(n)) != 0));
}

#[test]
fn a_damaged_copy_of_the_header_costs_nothing() {
    for copy in [0, 4096] {
        let (pool, heap) = Pool::new(1);
        drop(heap);
        // The pool's second incarnation, whose commits must not be forgotten in favour of the
        // first.
        let heap = pool.open();
        let mut shard = heap.lock(0);
        for n in 0..10 {
            put(&mut shard, n, b"value").expect("free memory");
            shard.commit().expect("a commit");
        }
        drop(shard);
        drop(heap);
        let path = pool.folder.path().join("pool");
        let file = std::fs::File::options().write(true).open(path).expect("the pool's file");
        file.write_all_at(&[0xff; 8], copy + 40).expect("a write");
        let heap = pool.open();
        let shard = heap.lock(0);
        assert!((0..10).all(|n| shard.word(shard.root(n)) != 0));
        drop(shard);
        drop(heap);
        pool.open();
    }
}

#[test]
fn pools_opened_by_many_threads_at_once_do_not_share_addresses() {
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            scope.spawn(move || {
                for _ in 0..10 {
                    let (pool, heap) = Pool::new(1);
                    let mut shard = heap.lock(0);
                    put(&mut shard, 0, &[thread; 100]).unwrap();
                    shard.commit().unwrap();
                    drop(shard);
                    drop(heap);
                    assert_eq!(get(&pool.open().lock(0), 0).unwrap(), [thread; 100]);
                }
            });
        }
    });
}
