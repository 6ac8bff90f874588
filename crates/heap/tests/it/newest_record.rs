//! The newest record of a log, which may not have been fenced, and of which the medium loses
//! something: what opening the pool says.

use heap::{CreateOptions, Geometry, Heap, OpenError, Ptr, View};
use pmem::{DomainRequest, MapOptions, Region};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const BOOT: [u8; 16] = [1; 16];
/// The place of the hint that says which record is known to be fenced.
const FENCED: usize = 12288 + LINE;
const LINE: usize = 64;
const PAGE: usize = 4096;
const SPAN: usize = 65536;
/// More words than fit into a record of the ring.
const WORDS: u64 = 400;

fn region(path: &Path) -> Region {
    let domain = DomainRequest::Clwb;
    let map = MapOptions { domain, emulate: true, ..MapOptions::new(8 << 20) };
    Region::open(path, &map).expect("a region")
}

/// A pool in use, and the place of a copy of it.
struct Pool {
    _folder: tempfile::TempDir,
    path: PathBuf,
    copy: PathBuf,
    heap: Heap,
}

impl Pool {
    fn new() -> Pool {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let geometry = Geometry { shards: 1, ring_parts: 4, ring_part: 4096, zone_spans: 64 };
        let options = CreateOptions { geometry, boot_id: BOOT, ..CreateOptions::default() };
        let heap = Heap::create(region(&path), &options).expect("a pool");
        Pool { path, copy: folder.path().join("copy"), _folder: folder, heap }
    }

    /// Publishes a block with these bytes in a root, and sets the next root to 7.
    fn put(&self, root: usize, bytes: &[u8]) -> Ptr {
        let mut shard = self.heap.lock(0);
        let fresh = shard.reserve(bytes.len()).expect("free memory");
        shard.write(&fresh, 0, bytes);
        let block = shard.publish(fresh, bytes.len());
        shard.set(shard.root(root), block.raw());
        shard.set(shard.root(root + 1), 7);
        shard.commit().expect("a commit");
        block
    }

    fn root(&self, root: usize) -> usize {
        self.heap.lock(0).root(root).raw() as usize
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).expect("the pool")
    }
}

/// Opens a pool with these bytes, of which the medium says that it lost the page at `page`.
fn open_without(path: &Path, bytes: &[u8], page: usize) -> Result<(), OpenError> {
    fs::write(path, bytes).expect("the pool");
    let region = region(path);
    let file = OpenOptions::new().write(true).open(path).expect("the pool");
    file.set_len(page as u64).expect("a shorter file");
    region.load(page as u64);
    file.write_all_at(&bytes[page..], page as u64).expect("the rest of the pool");
    assert!(region.has_unresolved_losses());
    Heap::open(region, BOOT).map(|_| ())
}

/// The record was taken for one that had not been fenced: an acknowledged write was missing, and
/// nothing said so.
#[test]
fn a_newest_record_of_which_the_medium_lost_something_is_reported() {
    let pool = Pool::new();
    let block = pool.put(0, &[b'v'; 100]).raw() as usize;
    let mut bytes = pool.bytes();
    bytes[FENCED..FENCED + 8].fill(0);
    let refused = open_without(&pool.copy, &bytes, block / PAGE * PAGE);
    assert!(matches!(refused, Err(OpenError::LostLog { shard: 0, .. })), "{refused:?}");

    let pool = Pool::new();
    let first = pool.put(0, &[0; 8 * WORDS as usize]);
    let mut shard = pool.heap.lock(0);
    (0..WORDS).for_each(|n| shard.set(first.add(8 * n), 1 + n));
    shard.commit().expect("a commit of a long record");
    drop(shard);
    let mut bytes = pool.bytes();
    bytes[FENCED..FENCED + 8].fill(0);
    let entry = [first.raw() >> 3 | 1 << 60, 1].map(u64::to_le_bytes).concat();
    let body = bytes.chunks(SPAN).position(|span| span.starts_with(&entry)).expect("the body");
    let refused = open_without(&pool.copy, &bytes, SPAN * body);
    assert!(matches!(refused, Err(OpenError::LostLog { shard: 0, .. })), "{refused:?}");
}

/// A crash before the fence leaves that too: nothing was acknowledged.
#[test]
fn a_newest_record_whose_bytes_did_not_arrive_is_dropped() {
    let pool = Pool::new();
    let block = pool.put(0, &[b'v'; 100]).raw() as usize;
    let mut bytes = pool.bytes();
    bytes[FENCED..FENCED + 8].fill(0);
    bytes[block..block + 100].fill(0);
    bytes[pool.root(0)..pool.root(2)].fill(0);
    fs::write(&pool.copy, &bytes).expect("the pool");
    let heap = Heap::open(region(&pool.copy), BOOT).expect("the pool opens").0;
    let shard = heap.lock(0);
    assert_eq!(shard.word(shard.root(1)), 0);
}
