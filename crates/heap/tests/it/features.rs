//! How a program treats a pool with features that it does not know, by kind of feature.

use heap::{CreateOptions, Geometry, Heap, OpenError, View};
use pmem::{DomainRequest, MapOptions, Region};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

const HEADERS: [u64; 2] = [0, 4096];
const COMPAT: u64 = 16;
const RO_COMPAT: u64 = 24;
const INCOMPAT: u64 = 32;
const UNKNOWN: u64 = 1 << 40;
/// The feature of pools whose blocks may have short headers.
const SHORT_HEADERS: u64 = 2;

fn region(path: &Path) -> Region {
    let options = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(16 << 20) };
    Region::open(path, &options).expect("a mapping")
}

/// Creates a pool with a number in a root and these features of the kind at `feature`.
fn pool(path: &Path, feature: u64, bits: u64) {
    let geometry = Geometry { shards: 1, ring_parts: 4, ring_part: 4096, zone_spans: 16 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    let heap = Heap::create(region(path), &options).expect("a pool");
    let mut shard = heap.lock(0);
    let root = shard.root(0);
    shard.set(root, 7);
    shard.commit().expect("a commit");
    drop(shard);
    drop(heap);
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the pool");
    for header in HEADERS {
        file.write_all_at(&bits.to_le_bytes(), header + feature).expect("a write");
        let mut covered = [0; 192 - 16];
        file.read_exact_at(&mut covered, header + 16).expect("a header");
        file.write_all_at(&heap::crc32c(&covered).to_le_bytes(), header + 12).expect("a write");
    }
}

fn bits(path: &Path, feature: u64) -> [u64; 2] {
    let bytes = fs::read(path).expect("the pool");
    HEADERS.map(|header| {
        let at = (header + feature) as usize;
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    })
}

fn holds_its_number(heap: &Heap) -> bool {
    let shard = heap.lock(0);
    shard.word(shard.root(0)) == 7
}

#[test]
fn a_compatible_feature_is_kept_as_it_was_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    pool(&path, COMPAT, UNKNOWN);
    for _ in 0..2 {
        let (heap, _) = Heap::open(region(&path), [0; 16]).expect("a pool");
        assert!(holds_its_number(&heap));
        heap.close().expect("a close");
        assert_eq!(bits(&path, COMPAT), [UNKNOWN; 2]);
    }
}

#[test]
fn a_pool_without_short_headers_may_have_them_once_it_was_opened_to_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    pool(&path, INCOMPAT, 0);
    assert_eq!(bits(&path, INCOMPAT), [0; 2]);
    let copy = Region::inspect(&path).expect("a private copy");
    assert!(holds_its_number(&Heap::open(copy, [0; 16]).expect("a pool").0));
    assert_eq!(bits(&path, INCOMPAT), [0; 2], "it was only looked at");
    let (heap, _) = Heap::open(region(&path), [0; 16]).expect("a pool");
    assert!(holds_its_number(&heap));
    assert_eq!(bits(&path, INCOMPAT), [SHORT_HEADERS; 2], "before anything is written");
    heap.close().expect("a close");
    assert_eq!(bits(&path, INCOMPAT), [SHORT_HEADERS; 2]);
}

#[test]
fn a_pool_with_an_unknown_feature_that_forbids_writes_is_looked_at_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    pool(&path, RO_COMPAT, UNKNOWN);
    let before = fs::read(&path).expect("the pool");
    let refused = Heap::open(region(&path), [0; 16]).expect_err("it would be written to");
    assert!(matches!(refused, OpenError::ReadOnly { unknown: UNKNOWN }), "{refused}");
    let copy = Region::inspect(&path).expect("a private copy");
    assert!(holds_its_number(&Heap::open(copy, [0; 16]).expect("a pool").0));
    assert!(fs::read(&path).expect("the pool") == before, "the file was changed");
}

#[test]
fn a_pool_with_an_unknown_incompatible_feature_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    pool(&path, INCOMPAT, UNKNOWN);
    let refused = Heap::open(region(&path), [0; 16]).expect_err("it means something else");
    assert!(matches!(refused, OpenError::Features { unknown: UNKNOWN }), "{refused}");
    let copy = Region::inspect(&path).expect("a private copy");
    let refused = Heap::open(copy, [0; 16]).expect_err("it means something else there too");
    assert!(matches!(refused, OpenError::Features { unknown: UNKNOWN }), "{refused}");
}
