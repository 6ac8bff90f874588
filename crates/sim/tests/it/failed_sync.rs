//! A failed sync must not release the log: the data that it should have made durable may be lost
//! from its page.

use heap::{CreateOptions, Geometry, Heap, Shard, View};
use pmem::{DomainRequest, MapOptions, Region};
use std::fs;
use std::path::Path;

const BOOT: [u8; 16] = [1; 16];
const RESERVE: u64 = 2 * 64 * 65536;

fn region(path: &Path) -> Region {
    let options = MapOptions { domain: DomainRequest::Msync, ..MapOptions::new(RESERVE) };
    Region::open(path, &options).expect("a region")
}

fn pool(path: &Path) -> Heap {
    pool_of(path, 4)
}

fn pool_of(path: &Path, ring_parts: usize) -> Heap {
    // Sections of one line: nearly every commit retires.
    let geometry = Geometry { shards: 1, ring_parts, ring_part: 512, zone_spans: 64 };
    let options = CreateOptions { geometry, boot_id: BOOT, ..CreateOptions::default() };
    Heap::create(region(path), &options).expect("a pool")
}

fn count(shard: &mut Shard<'_>, to: u64) -> bool {
    let root = shard.root(0);
    shard.set(root, to);
    shard.commit().is_ok()
}

/// Returns the content of a pool's log, read from a copy, and the number in it.
fn logged(path: &Path) -> (u64, u64, bool) {
    let copy = path.with_extension("copy");
    fs::copy(path, &copy).expect("a copy");
    let (heap, recovery) = Heap::open(region(&copy), BOOT).expect("a pool");
    let shard = heap.lock(0);
    (recovery.records, shard.word(shard.root(0)), recovery.clean)
}

#[test]
fn a_record_is_kept_when_the_sync_of_its_words_fails() {
    for commits in 1..40 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let heap = pool(&path);
        let mut shard = heap.lock(0);
        assert!((1..=commits).all(|number| count(&mut shard, number)));
        let (records, number, _) = logged(&path);
        assert_eq!(number, commits);
        heap.region().fail();
        assert!(!count(&mut shard, commits + 1), "not acknowledged");
        drop(shard);
        let after = logged(&path);
        assert!(after.0 >= records, "{records} records after {commits} commits, then {after:?}");
        assert!(after.1 >= commits);
    }
}

/// Changes this many words to a number; returns true if it was acknowledged.
fn change(shard: &mut Shard<'_>, words: usize, to: u64) -> bool {
    for word in 0..words {
        let root = shard.root(word);
        shard.set(root, to);
    }
    shard.commit().is_ok()
}

#[test]
fn nothing_is_written_where_the_durable_tail_is_when_a_sync_fails() {
    // Each record takes a part: the part that is entered is the one that the tail has just left.
    for commits in 1..12 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let heap = pool_of(&path, 3);
        let mut shard = heap.lock(0);
        assert!((1..=commits).all(|number| change(&mut shard, 24, number)));
        heap.region().fail();
        assert!(!change(&mut shard, 24, commits + 1), "not acknowledged");
        let (_, number, _) = logged(&path);
        assert_eq!(number, commits);
    }
}

#[test]
fn a_pool_is_not_marked_as_closed_when_a_sync_failed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let heap = pool(&path);
    assert!((1..=9).all(|number| count(&mut heap.lock(0), number)));
    let (records, ..) = logged(&path);
    heap.region().fail();
    assert!(heap.close().is_err());
    let (after, number, clean) = logged(&path);
    assert!(!clean && after >= records && number == 9, "{after} of {records} records");
    assert!(!count(&mut heap.lock(0), 10), "no write is taken any more");
}

#[test]
fn closing_a_poisoned_pool_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let heap = pool(&path);
    assert!(count(&mut heap.lock(0), 1));
    heap.region().fail();
    assert!(!count(&mut heap.lock(0), 2), "not acknowledged");
    assert!(heap.is_poisoned());
    let refused = heap.close().expect_err("it is not closed").to_string();
    assert!(refused.contains("stopped taking writes"), "{refused}");
}
