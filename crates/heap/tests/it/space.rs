//! The space of free spans is given back to the file system, and is reserved again before anybody
//! stores into it.

use heap::{CreateOptions, Geometry, Heap, Ptr, Shard, View};
use pmem::{DomainRequest, MapOptions, Region};
use std::path::Path;
use std::sync::Arc;

const BOOT: [u8; 16] = [1; 16];
const GEOMETRY: Geometry = Geometry { shards: 4, ring_parts: 8, ring_part: 4096, zone_spans: 128 };
const ZONE: u64 = 128 << 16;
/// The number of blocks of a shard; two fit into a span.
const BLOCKS: usize = 120;
const LEN: usize = 30_000;

const DOMAINS: [DomainRequest; 3] =
    [DomainRequest::Process, DomainRequest::Msync, DomainRequest::Clwb];

fn open(path: &Path, domain: DomainRequest) -> Heap {
    open_with(path, domain, GEOMETRY)
}

fn open_with(path: &Path, domain: DomainRequest, geometry: Geometry) -> Heap {
    let options = MapOptions { domain, emulate: true, ..MapOptions::new(6 * ZONE) };
    let region = Region::open(path, &options).expect("a region");
    if Heap::is_blank(&region) {
        let options = CreateOptions { geometry, boot_id: BOOT, ..CreateOptions::default() };
        return Heap::create(region, &options).expect("a pool");
    }
    Heap::open(region, BOOT).expect("a pool").0
}

fn volatile() -> Heap {
    let options = CreateOptions { geometry: GEOMETRY, ..CreateOptions::default() };
    Heap::volatile(6 * ZONE, &options).expect("a heap")
}

fn bytes(n: usize) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    fastrand(n as u64 + 1, &mut bytes);
    bytes
}

fn fastrand(seed: u64, bytes: &mut [u8]) {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for byte in bytes {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        *byte = word as u8;
    }
}

/// Puts a block into a root of the shard.
fn put(shard: &mut Shard<'_>, n: usize) -> bool {
    let Ok(fresh) = shard.reserve(LEN) else { return false };
    shard.write(&fresh, 0, &bytes(n));
    let block = shard.publish(fresh, LEN);
    shard.set(shard.root(n), block.raw());
    shard.commit().is_ok()
}

fn fill(heap: &Heap) {
    for shard in 0..heap.shards() {
        let mut shard = heap.lock(shard);
        assert!((0..BLOCKS).all(|n| put(&mut shard, n)));
    }
}

fn empty(heap: &Heap) {
    empty_shards(heap, heap.shards());
}

fn empty_shards(heap: &Heap, shards: usize) {
    for shard in 0..shards {
        let mut shard = heap.lock(shard);
        for root in (0..BLOCKS).map(|n| shard.root(n)).collect::<Vec<_>>() {
            let block = Ptr::from_raw(shard.word(root));
            shard.set(root, 0);
            if !block.is_null() {
                shard.free(block);
            }
        }
        shard.commit().expect("a commit");
    }
}

fn verify(heap: &Heap) {
    for shard in 0..heap.shards() {
        let shard = heap.lock(shard);
        for n in 0..BLOCKS {
            let block = Ptr::from_raw(shard.word(shard.root(n)));
            assert!(!block.is_null() && shard.bytes(block, LEN) == bytes(n), "block {n}");
        }
    }
    assert_eq!(heap.allocated().expect("an intact pool").len(), GEOMETRY.shards * BLOCKS);
    assert_eq!(heap.damaged(), 0);
}

/// Runs `check` with a folder on a disk and one in memory, in each domain.
fn everywhere(check: impl Fn(&Path, DomainRequest)) {
    for folder in [&std::env::temp_dir(), Path::new("/dev/shm")] {
        for domain in DOMAINS {
            let folder = tempfile::tempdir_in(folder).expect("a folder");
            check(&folder.path().join("pool"), domain);
        }
    }
}

#[test]
fn after_a_purge_an_empty_pool_takes_almost_nothing() {
    everywhere(|path, domain| {
        let heap = open(path, domain);
        fill(&heap);
        let (size, full) = (heap.size(), heap.space_taken());
        assert!(size >= 2 * ZONE && full >= size, "{domain:?}: {full} of {size}");
        heap.purge();
        empty(&heap);
        heap.purge();
        let left = heap.space_taken();
        assert!(heap.gives_space_back() && left < ZONE / 4, "{domain:?}: {left} of {size}");
        assert_eq!(heap.size(), size, "its length is as it was");
        fill(&heap);
        verify(&heap);
        assert!(heap.space_taken() > left + (GEOMETRY.shards * BLOCKS * LEN) as u64);
        drop(heap);
        verify(&open(path, domain));
    });
}

#[test]
fn what_was_given_back_is_known_after_a_restart() {
    everywhere(|path, domain| {
        let heap = open(path, domain);
        fill(&heap);
        empty(&heap);
        heap.purge();
        let (given, left) = (heap.given_back(), heap.space_taken());
        drop(heap);
        let heap = open(path, domain);
        let taken = heap.space_taken();
        // The header's page may be a huge one.
        assert!(
            taken <= left + (3 << 20),
            "{domain:?}: an opening reserves nothing: {taken}, {left}"
        );
        assert!(heap.given_back() + (3 << 20) >= given);
        fill(&heap);
        verify(&heap);
        let taken = heap.space_taken();
        assert!(
            taken > left + (GEOMETRY.shards * BLOCKS * LEN) as u64,
            "{domain:?}: reserved before the stores"
        );
        empty(&heap);
        heap.purge();
        let again = heap.given_back();
        assert!(again + (4 << 16) >= given, "{domain:?}: {again} of {given}");
    });
}

#[test]
fn a_heap_in_memory_gives_its_pages_back() {
    let heap = volatile();
    fill(&heap);
    empty(&heap);
    assert!(heap.purge() > (BLOCKS * LEN) as u64);
    assert!(heap.space_taken() < ZONE);
    fill(&heap);
    verify(&heap);
}

#[test]
fn what_a_reader_has_pinned_keeps_its_space() {
    for heap in [volatile(), open(&tempfile::tempdir().unwrap().path().join("pool"), DOMAINS[0])] {
        fill(&heap);
        let (pin, blocks) = {
            let shard = heap.lock(0);
            let block = |n| Ptr::from_raw(shard.word(shard.root(n)));
            (shard.pin(), (0..BLOCKS).map(block).collect::<Vec<_>>())
        };
        empty(&heap);
        heap.purge();
        for (n, block) in blocks.iter().enumerate() {
            assert!(heap.pinned(&pin, *block, LEN) == bytes(n), "block {n}");
        }
        let before = heap.given_back();
        drop(pin);
        heap.purge();
        assert!(heap.given_back() >= before + (BLOCKS * LEN) as u64);
    }
}

#[test]
fn so_does_what_a_snapshot_shows() {
    let heap = Arc::new(volatile());
    fill(&heap);
    let (snapshot, ()) = heap.snapshot(|| ()).expect("a snapshot");
    empty(&heap);
    heap.purge();
    for shard in 0..heap.shards() {
        let shard = snapshot.lock(shard).expect("it is held");
        for n in 0..BLOCKS {
            let block = Ptr::from_raw(shard.word(shard.root(n)));
            assert!(shard.bytes(block, LEN) == bytes(n), "block {n}");
        }
    }
}

/// Rests as often as it takes until spans that a shard does not need are given back.
fn rest(heap: &Heap) {
    for _ in 0..4 {
        heap.rest();
        while heap.give_back() {}
    }
}

#[test]
fn the_background_gives_back_what_rested_but_a_zone() {
    let folder = tempfile::tempdir().unwrap();
    let heap = open(&folder.path().join("pool"), DomainRequest::Process);
    fill(&heap);
    rest(&heap);
    assert_eq!(heap.given_back(), 0, "all of it is in use, but less than a zone");
    empty(&heap);
    heap.rest();
    while heap.give_back() {}
    assert_eq!(heap.given_back(), 0, "it was not free for long");
    rest(&heap);
    let (given, left) = (heap.given_back(), heap.space_taken());
    assert!(given >= heap.size() - 2 * ZONE, "{given} of {}", heap.size());
    assert!(given.is_multiple_of(2 << 20), "whole huge pages");
    assert!(left >= ZONE, "{left}: a zone is kept");
    fill(&heap);
    verify(&heap);
}

/// The shards take spans in turn, so that each huge page has some of every shard.
#[test]
fn what_is_kept_does_not_keep_huge_pages_of_others() {
    let geometry = Geometry { zone_spans: 512, ..GEOMETRY };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    let heap = Heap::volatile(512 << 18, &options).expect("a heap");
    let mut blocks = Vec::new();
    'full: loop {
        for number in 0..heap.shards() {
            let mut shard = heap.lock(number);
            let Ok(fresh) = shard.reserve(60_000) else { break 'full };
            blocks.push((number, shard.publish(fresh, 60_000)));
            shard.commit().expect("a commit");
        }
    }
    for (number, block) in blocks {
        let mut shard = heap.lock(number);
        shard.free(block);
        shard.commit().expect("a commit");
    }
    rest(&heap);
    let (given, size, zone) = (heap.given_back(), heap.size(), 512 << 16);
    assert!(given + zone + (12 << 20) > size, "{given} of {size}");
}

#[test]
fn growth_ahead_does_not_take_back_what_nobody_needs() {
    let folder = tempfile::tempdir().unwrap();
    let heap = open(&folder.path().join("pool"), DomainRequest::Process);
    fill(&heap);
    empty(&heap);
    heap.purge();
    let given = heap.given_back();
    assert!(!heap.grow_ahead());
    assert_eq!(heap.given_back(), given);
    assert!((0..12).all(|n| put(&mut heap.lock(0), n)));
    assert!(heap.grow_ahead(), "somebody writes again: ahead of the need");
    while heap.grow_ahead() {}
    assert!(heap.given_back() + ZONE / 2 < given);
    assert!(heap.given_back() > 0, "and no more than half a zone");
}

#[test]
fn what_a_purge_keeps_for_deletes_the_background_keeps_too() {
    let folder = tempfile::tempdir().unwrap();
    let geometry = Geometry { shards: 64, ring_part: 512, ..GEOMETRY };
    let heap = open_with(&folder.path().join("pool"), DomainRequest::Process, geometry);
    assert!((0..BLOCKS).all(|n| put(&mut heap.lock(0), n) && put(&mut heap.lock(1), n)));
    empty_shards(&heap, 2);
    assert!(heap.purge() > 0);
    let given = heap.given_back();
    for _ in 0..4 {
        while heap.give_back() {}
        heap.rest();
    }
    assert_eq!(heap.given_back(), given);
}

#[test]
fn a_pool_that_was_opened_again_keeps_a_zone_that_is_certainly_free() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    fill(&open(&path, DomainRequest::Process));
    let heap = open(&path, DomainRequest::Process);
    empty_shards(&heap, 2);
    rest(&heap);
    assert_eq!(heap.given_back(), 0, "less than a zone is free, as far as anybody has looked");
    empty(&heap);
    rest(&heap);
    assert!(heap.given_back() > 0);
}
