//! Lost bytes of a pool's own metadata are restored, or reported to the layer above, or the pool
//! takes no more writes.
//!
//! The bytes are set to zero without the heap's knowledge, as they read after a loss.

use heap::{CreateOptions, Geometry, Heap, LostPart, Ptr, View};
use pmem::{DomainRequest, Lost, MapOptions, Region};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const AREA: u64 = 12288;
const AREA_BYTES: u64 = 2048;
const SHARDS: u64 = 2;
const RING: u64 = 8 * 4096;
const RINGS: u64 = AREA + 4096;
const ZONES: u64 = (RINGS + SHARDS * RING).next_multiple_of(65536);

struct Pool {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Pool {
    fn new() -> Pool {
        let folder = tempfile::tempdir().expect("a folder");
        Pool { path: folder.path().join("pool"), _folder: folder }
    }

    fn open(&self) -> Heap {
        let mut options = MapOptions::new(64 << 20);
        options.domain = DomainRequest::Process;
        let region = Region::open(&self.path, &options).expect("a mapping");
        if Heap::is_blank(&region) {
            let geometry = Geometry {
                shards: SHARDS as usize,
                ring_parts: 8,
                ring_part: 4096,
                zone_spans: 16,
            };
            let options = CreateOptions { geometry, ..CreateOptions::default() };
            return Heap::create(region, &options).expect("a pool");
        }
        Heap::open(region, [0; 16]).expect("a pool").0
    }

    fn zero(&self, lost: Lost) {
        let file = OpenOptions::new().write(true).open(&self.path).expect("the pool");
        file.write_all_at(&vec![0; lost.len as usize], lost.at).expect("a write");
    }

    fn bytes(&self, lost: Lost) -> Vec<u8> {
        fs::read(&self.path).expect("the pool")[lost.at as usize..][..lost.len as usize].to_vec()
    }
}

/// Puts a block with these bytes into a root of the shard.
fn put(heap: &Heap, shard: usize, root: usize, text: &[u8]) -> Ptr {
    let mut shard = heap.lock(shard);
    let fresh = shard.reserve(text.len()).expect("free memory");
    shard.write(&fresh, 0, text);
    let block = shard.publish(fresh, text.len());
    let root = shard.root(root);
    shard.set(root, block.raw());
    shard.commit().expect("a commit");
    block
}

fn fill(heap: &Heap) {
    for root in 0..20 {
        put(heap, 0, root, format!("the block of root {root}").as_bytes());
        put(heap, 1, root, format!("another block of root {root}").as_bytes());
    }
}

fn intact(heap: &Heap) {
    for (number, text) in [(0, "the"), (1, "another")] {
        let shard = heap.lock(number);
        for root in 0..20 {
            let text = format!("{text} block of root {root}");
            let block = Ptr::from_raw(shard.word(shard.root(root)));
            assert_eq!(shard.bytes(block, text.len()), text.as_bytes());
        }
    }
    assert!(heap.allocated().is_ok());
}

fn line(at: u64) -> Lost {
    Lost { at, len: 64 }
}

/// Returns the parts of these bytes whose meaning only the layer above knows.
fn lost_parts(heap: &Heap, lost: Lost) -> Vec<LostPart> {
    let restored = heap.restore(&[lost]);
    assert_eq!(restored.irreplaceable, None);
    restored.parts
}

/// Checks that these bytes are restored while the pool is in use, and that the pool survives when
/// the process is killed.
#[track_caller]
fn check_made_again(lost: Lost, same_bytes: bool) {
    let pool = Pool::new();
    let heap = pool.open();
    // More than the logs hold, so that their tails have moved.
    (0..20).for_each(|_| fill(&heap));
    let before = pool.bytes(lost);
    assert!(before.iter().any(|byte| *byte != 0), "there is something to lose");
    pool.zero(lost);
    assert_eq!(lost_parts(&heap, lost), []);
    assert_eq!(heap::check_headers(heap.region()), []);
    if same_bytes {
        assert_eq!(pool.bytes(lost), before);
    }
    intact(&heap);
    put(&heap, 0, 30, b"more");
    drop(heap);
    let heap = pool.open();
    intact(&heap);
    put(&heap, 1, 30, b"more");
    intact(&heap);
}

#[test]
fn what_the_heap_knows_is_made_again() {
    for copy in [0, 4096] {
        check_made_again(line(copy), false);
        check_made_again(line(copy + 64), false);
    }
    check_made_again(line(8192), true);
    for shard in 0..SHARDS {
        let area = AREA + shard * AREA_BYTES;
        check_made_again(line(area), false);
        check_made_again(line(area + 64), true);
        check_made_again(line(area + 128), true);
    }
    check_made_again(line(ZONES + 65536), true);
}

#[test]
fn a_tail_is_made_again_though_its_log_is_empty() {
    let pool = Pool::new();
    (0..20).for_each(|_| fill(&pool.open()));
    let heap = pool.open();
    let tail = line(AREA);
    let before = pool.bytes(tail);
    assert!(before[..8].iter().any(|byte| *byte != 0), "the tail has moved");
    pool.zero(tail);
    assert_eq!(lost_parts(&heap, tail), []);
    assert_eq!(pool.bytes(tail), before);
    drop(heap);
    intact(&pool.open());
}

#[test]
fn a_lost_line_of_a_log_is_needed_no_more() {
    for shard in 0..SHARDS {
        for part in 0..2 {
            check_made_again(Lost { at: RINGS + shard * RING + part * 256, len: 192 }, false);
        }
    }
}

/// With the newest record, the log lost what confirms its tail: the next opening was refused. The
/// hint confirms it to a salvage only.
#[test]
fn the_lost_line_of_the_newest_record_is_needed_no_more() {
    for rests in [false, true] {
        let pool = Pool::new();
        let heap = pool.open();
        fill(&heap);
        assert!(!rests || heap.retire_logs());
        let bytes = fs::read(&pool.path).expect("the pool");
        let is_used = |at: &u64| bytes[*at as usize..][..64].iter().any(|byte| *byte != 0);
        let newest = (RINGS..RINGS + RING).step_by(64).filter(is_used).max().expect("a record");
        let lost = line(newest);
        pool.zero(lost);
        assert_eq!(lost_parts(&heap, lost), []);
        drop(heap);
        pool.zero(line(AREA + 64));
        let heap = pool.open();
        intact(&heap);
        put(&heap, 0, 30, b"more");
        drop(heap);
        intact(&pool.open());
    }
}

/// Its record could not be read any more, and the next opening was refused.
#[test]
fn a_lost_line_of_the_body_of_a_long_record_is_needed_no_more() {
    const WORDS: u64 = 600;
    let pool = Pool::new();
    let heap = pool.open();
    let first = put(&heap, 0, 0, &[0; 8 * WORDS as usize]);
    let mut shard = heap.lock(0);
    (0..WORDS).for_each(|n| shard.set(first.add(8 * n), 1 + n));
    shard.commit().expect("a commit of a long record");
    drop(shard);
    put(&heap, 0, 1, b"more");
    let bytes = fs::read(&pool.path).expect("the pool");
    let entry = [first.raw() >> 3 | 1 << 60, 1].map(u64::to_le_bytes).concat();
    let body = bytes.chunks(65536).position(|span| span.starts_with(&entry)).expect("the body");
    let lost = line(65536 * body as u64 + 640);
    pool.zero(lost);
    assert_eq!(lost_parts(&heap, lost), []);
    drop(heap);
    let heap = pool.open();
    let shard = heap.lock(0);
    assert!((0..WORDS).all(|n| shard.word(first.add(8 * n)) == 1 + n));
}

#[test]
fn the_layer_above_is_reported_to_blocks_and_roots() {
    let pool = Pool::new();
    let heap = pool.open();
    fill(&heap);
    let roots = line(AREA + AREA_BYTES + 1024 + 64);
    assert_eq!(lost_parts(&heap, roots), [LostPart::Roots { shard: 1, from: 8, to: 16 }]);
    let block = put(&heap, 0, 40, &[7; 200]);
    let inside = line((block.raw() + 64) & !63);
    let parts = lost_parts(&heap, inside);
    let mine =
        |part: &LostPart| matches!(part, LostPart::Block { shard: 0, at, .. } if *at == block);
    assert!(parts.iter().any(mine), "{parts:?}");
    for part in parts {
        let LostPart::Block { from, to, .. } = part else { panic!("{part:?}") };
        assert!(inside.at <= from && from < to && to <= inside.at + 64);
    }
    // A span that belongs to nobody.
    assert_eq!(lost_parts(&heap, line(ZONES + 15 * 65536 + 64)), []);
}

#[test]
fn what_nothing_else_reports_is_named() {
    let pool = Pool::new();
    let heap = pool.open();
    fill(&heap);
    let check = |at: u64, what: &str| {
        let refused = heap.restore(&[line(at)]).irreplaceable.expect("a loss");
        assert_eq!((refused.at, refused.what), (at, what));
    };
    check(ZONES, "a part of the span table");
    check(ZONES + 65536 + 64, "a part of a span's bitmap");
}

#[test]
fn only_who_resolves_a_loss_commits() {
    let pool = Pool::new();
    let heap = pool.open();
    fill(&heap);
    let file = OpenOptions::new().write(true).open(&pool.path).expect("the pool");
    let len = file.metadata().expect("a file").len();
    file.set_len(len - 4096).expect("a shorter file");
    heap.region().load(len - 64);
    file.set_len(len).expect("as long as before");
    assert!(heap.region().has_unresolved_losses());
    let commit = || {
        let mut shard = heap.lock(0);
        let root = shard.root(50);
        shard.set(root, 8);
        shard.commit()
    };
    assert_eq!(commit(), Err(heap::CommitError::UnresolvedLosses));
    assert_eq!(heap.resolving(commit), Ok(()));
    assert_eq!(commit(), Err(heap::CommitError::UnresolvedLosses));
    let (pages, _) = heap.region().lost();
    heap.region().repair();
    assert!(heap.region().resolve(pages));
    assert_eq!(commit(), Ok(()));
    intact(&heap);
}
