//! Bugs that searches found in the heap, each as a short history.
//!
//! Random crashes over the simulated medium found them first; others of their kind are shown by
//! disabling the fault points that prevent them
//! (`crates/sim/tests/fault_points/commit_protocol.rs`).

use heap::{CreateOptions, Detached, Full, Geometry, Heap, Ptr, Shard, View};
use pmem::{DomainRequest, MapOptions, Region};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const BOOT: [u8; 16] = [1; 16];
const RESERVE: u64 = 2 * 64 * SPAN;
const SPAN: u64 = 65536;
/// The word in which shard 0 records the newest fenced record.
const FENCED: u64 = 12288 + 64;

struct Pool {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn region(path: &Path) -> Region {
    let map = MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(RESERVE) };
    Region::open(path, &map).expect("a region")
}

impl Pool {
    fn new() -> (Pool, Heap) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let geometry = Geometry { shards: 2, ring_parts: 4, ring_part: 4096, zone_spans: 64 };
        let options = CreateOptions { geometry, boot_id: BOOT, ..CreateOptions::default() };
        let heap = Heap::create(region(&path), &options).expect("a pool");
        (Pool { _folder: folder, path }, heap)
    }

    /// Opens the pool as after the end of the process.
    fn open(&self, before: Heap) -> Result<Heap, heap::OpenError> {
        drop(before);
        Ok(Heap::open(region(&self.path), BOOT)?.0)
    }
}

fn put(shard: &mut Shard<'_>, root: usize, bytes: &[u8]) -> Result<Ptr, Full> {
    let block = shard.reserve(bytes.len())?;
    shard.write(&block, 0, bytes);
    let block = shard.publish(block, bytes.len());
    shard.set(shard.root(root), block.raw());
    Ok(block)
}

fn get(shard: &Shard<'_>, root: usize, len: usize) -> Option<Vec<u8>> {
    let block = Ptr::from_raw(shard.word(shard.root(root)));
    (!block.is_null()).then(|| shard.bytes(block, len).to_vec())
}

/// A span that a shard released was ahead of the cursor that looks for free spans. The cursor gave
/// it to another shard while the first still had it among its own.
#[test]
fn a_span_freed_after_a_reopening_is_not_found_twice() {
    let (pool, heap) = Pool::new();
    let mut shard = heap.lock(0);
    for root in 0..8 {
        put(&mut shard, root, &[root as u8; 60_000]).unwrap();
        shard.commit().unwrap();
    }
    drop(shard);
    let heap = pool.open(heap).expect("the pool opens");
    let mut shard = heap.lock(0);
    for root in 0..8 {
        let block = Ptr::from_raw(shard.word(shard.root(root)));
        shard.free(block);
        shard.set(shard.root(root), 0);
    }
    shard.commit().unwrap();
    drop(shard);
    let mut kept = Vec::new();
    for n in 0..60u8 {
        let (owner, root) = (usize::from(n % 2), usize::from(n / 2));
        let mut shard = heap.lock(owner);
        if put(&mut shard, root, &[n; 60_000]).is_err() || shard.commit().is_err() {
            break;
        }
        kept.push((owner, root, n));
    }
    assert!(kept.len() > 20, "{} spans", kept.len());
    for (owner, root, n) in kept {
        let found = get(&heap.lock(owner), root, 60_000);
        assert!(found == Some(vec![n; 60_000]), "the block of root {root} was written over");
    }
    heap.allocated().expect("no block is allocated twice");
}

/// A rollback kept the length to which an append had published a block of the same transaction. The
/// record's checksum covered bytes that the next append overwrote, and an acknowledged transaction
/// was not accepted.
#[test]
fn a_rollback_takes_back_to_where_a_block_was_published() {
    let (pool, heap) = Pool::new();
    let mut shard = heap.lock(0);
    let block = shard.reserve(100).unwrap();
    shard.write(&block, 0, b"published");
    let block = shard.publish(block, 9);
    let savepoint = shard.savepoint();
    shard.append(block, 9, b" and taken back");
    shard.rollback_to(savepoint);
    shard.set(shard.root(0), block.raw());
    shard.commit().unwrap();
    shard.append(block, 9, b" and not committed");
    drop(shard);
    let heap = pool.open(heap).expect("the newest record is whole");
    assert_eq!(get(&heap.lock(0), 0, 9), Some(b"published".to_vec()));
}

/// A damaged structure leads to a block twice: it was cached twice for the next transactions, and
/// given to two of them.
#[test]
fn a_block_that_is_freed_twice_is_given_out_once() {
    let (_pool, heap) = Pool::new();
    let mut shard = heap.lock(0);
    let blocks: Vec<Ptr> = (0..100).map(|n| put(&mut shard, n, &[1; 50]).unwrap()).collect();
    shard.commit().unwrap();
    for &block in blocks.iter().chain(&blocks[..1]) {
        shard.free(block);
        let fresh = shard.reserve(3000).unwrap();
        shard.write(&fresh, 0, b"so that as many are kept");
        shard.publish(fresh, 24);
    }
    shard.commit().unwrap();
    let mut given: Vec<u64> = (0..300).map(|_| shard.reserve(50).unwrap().ptr().raw()).collect();
    given.sort_unstable();
    assert!(given.windows(2).all(|pair| pair[0] != pair[1]), "a block was given out twice");
}

/// A damaged structure leads to a block that is free and cached for the next reservation: it was
/// taken for a block of this transaction, and what was published there was lost.
#[test]
fn a_free_of_what_is_free_takes_nothing_from_who_reserves_it_next() {
    let (_pool, heap) = Pool::new();
    let mut shard = heap.lock(0);
    let old = put(&mut shard, 0, &[1; 50]).unwrap();
    shard.commit().unwrap();
    shard.free(old);
    put(&mut shard, 0, &[2; 50]).unwrap();
    shard.commit().unwrap();
    shard.free(old);
    let new = put(&mut shard, 1, &[3; 50]).unwrap();
    assert_eq!(new, old, "the block kept last is taken first");
    shard.commit().unwrap();
    let others = (0..100).map(|n| put(&mut shard, 2 + n, &[4; 50]).unwrap());
    assert!(others.into_iter().all(|other| other != new));
    assert_eq!(get(&shard, 1, 50), Some(vec![3; 50]));
}

/// If both copies of the header were zeros, a new pool was created over an old one's blocks and
/// logs.
#[test]
fn a_pool_that_lost_its_header_is_not_taken_for_a_new_file() {
    let (pool, heap) = Pool::new();
    let mut shard = heap.lock(1);
    put(&mut shard, 0, b"a value").unwrap();
    shard.commit().unwrap();
    drop(shard);
    drop(heap);
    let file = std::fs::File::options().write(true).open(&pool.path).expect("the file");
    file.write_all_at(&[0; 12288], 0).expect("no header");
    let region = region(&pool.path);
    assert!(!Heap::is_blank(&region));
    assert!(matches!(Heap::open(region, BOOT), Err(heap::OpenError::NoHeader)));
}

/// If the bytes up to where the shards' areas may reach were zeros, a new pool was created over an
/// old one's blocks.
#[test]
fn a_pool_whose_first_2_mib_are_zeros_is_not_taken_for_a_new_file() {
    let (pool, heap) = Pool::new();
    let mut shard = heap.lock(1);
    for root in 0..40 {
        put(&mut shard, root, &[7; 60_000]).unwrap();
        shard.commit().unwrap();
    }
    drop(shard);
    drop(heap);
    let file = std::fs::File::options().write(true).open(&pool.path).expect("the file");
    file.write_all_at(&vec![0; 2 << 20], 0).expect("zeros");
    let region = region(&pool.path);
    assert!(!Heap::is_blank(&region));
    let refused = Heap::open(region, BOOT).expect_err("no header");
    assert!(matches!(refused, heap::OpenError::NoHeader));
}

#[test]
fn what_holds_nothing_is_blank_and_nothing_else_is() {
    let check = |len: u64, bytes: &[(u64, u8)], is_blank: bool| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(len).expect("a hole");
        for &(at, byte) in bytes {
            file.write_all_at(&[byte], at).expect("a byte");
        }
        assert_eq!(Heap::is_blank(&region(&path)), is_blank, "{bytes:?} of {len}");
    };
    check(0, &[], true);
    check(100 << 20, &[], true);
    check(100 << 20, &[(3 << 20, 0), (50 << 20, 0)], true);
    // Bytes that creating a pool writes before its header is whole.
    check(100 << 20, &[(8192, 1), (40, 9), (4096 + 40, 9)], true);
    check(100 << 20, &[(0, b'P')], false);
    check(100 << 20, &[(4096, b'P')], false);
    check(100 << 20, &[(12288, 1)], false);
    check(100 << 20, &[(99 << 20, 1)], false);
    check(100 << 20, &[((100 << 20) - 1, 1)], false);
    check(3, &[(1, 1)], false);
}

#[test]
fn a_file_of_zeros_is_no_new_pool_unless_one_was_never_finished() {
    const ENOUGH: u64 = 256 << 20;
    let open = |len: u64, bytes: &[u8]| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let file = std::fs::File::create(&path).expect("a file");
        file.write_all_at(bytes, 0).expect("its begin");
        file.set_len(len).expect("a hole");
        let map =
            MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(ENOUGH) };
        let region = Region::open(&path, &map).expect("a region");
        let opened = Heap::open_or_create(region).map(|(_, recovery)| recovery.is_none());
        opened.map_err(|error| error.to_string())
    };
    assert_eq!(open(0, b""), Ok(true));
    assert_eq!(open(3 << 12, b""), Ok(true));
    let refused = open(ENOUGH, b"");
    assert!(refused.as_ref().is_err_and(|why| why.contains("bytes of zeros")), "{refused:?}");
    for (len, bytes) in [
        (100, &b"no pool at all"[..]),
        (8, b"PERDURX\0"),
        (7, b"PERDURX"),
        (3, b"abc"),
        (1, b"\n"),
        (3, b"\0\0\0"),
    ] {
        let refused = open(len, bytes);
        assert!(
            refused.as_ref().is_err_and(|why| why.contains("not a Perdura pool")),
            "{refused:?}"
        );
    }
    for (len, bytes) in [
        (1, &b"P"[..]),
        (3, b"PER"),
        (7, b"PERDURA"),
        (96, b"PERDURA\0"),
        (100, b"PERDURA\0 and more"),
    ] {
        let refused = open(len, bytes);
        assert!(refused.as_ref().is_err_and(|why| why.contains("was cut short")), "{refused:?}");
    }
}

/// The hint that records which record was fenced had no checksum: after one flipped bit, a pool
/// that was closed cleanly could not be opened.
#[test]
fn a_flipped_bit_of_the_fenced_hint_costs_nothing() {
    for closed in [true, false] {
        let (pool, heap) = Pool::new();
        let mut shard = heap.lock(0);
        for round in 0..20u8 {
            put(&mut shard, 0, &[round; 50]).unwrap();
            shard.commit().unwrap();
        }
        drop(shard);
        if closed {
            heap.close().expect("a clean close");
        }
        drop(heap);
        let bytes = std::fs::read(&pool.path).expect("the pool");
        let hint = 12288 + 64;
        assert!(bytes[hint..hint + 8].iter().any(|byte| *byte != 0));
        for bit in 0..64 {
            let mut flipped = bytes.clone();
            flipped[hint + bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&pool.path, &flipped).expect("the pool");
            let opened = Heap::open(region(&pool.path), BOOT);
            let (heap, _) = opened.unwrap_or_else(|why| panic!("bit {bit}: {why}"));
            let shard = heap.lock(0);
            assert_eq!(get(&shard, 0, 50), Some(vec![19; 50]), "bit {bit}");
        }
    }
}

/// Bytes followed by their own CRC have a CRC that does not depend on them: to the record's
/// checksum, the header of a new span would have looked like any other span's header.
#[test]
fn a_record_distinguishes_the_header_of_its_span_from_that_of_another() {
    let (pool, heap) = Pool::new();
    let mut shard = heap.lock(0);
    let small = put(&mut shard, 0, &[1; 20]).unwrap();
    shard.commit().unwrap();
    let large = put(&mut shard, 1, &[2; 3000]).unwrap();
    shard.commit().unwrap();
    let span = |block: Ptr| block.raw() / SPAN * SPAN;
    assert_ne!(span(small), span(large));
    drop(shard);
    let file = std::fs::File::options().read(true).write(true).open(&pool.path).expect("the file");
    let mut header = [0; 64];
    file.read_exact_at(&mut header, span(small)).expect("a header");
    file.write_all_at(&header, span(large)).expect("the other one");
    let is_accepted = pool.open(heap).is_ok_and(|heap| get(&heap.lock(0), 1, 1).is_some());
    assert!(!is_accepted, "a record was accepted over a header that is not the one it published");
}

/// Bytes appended to a block that the same transaction freed were listed with the record's
/// checksums. The next transaction could use the block at once; its first bytes invalidated the
/// record, and an acknowledged transaction was lost.
#[test]
fn bytes_appended_to_a_block_that_is_freed_are_not_part_of_the_record() {
    let (pool, heap) = Pool::new();
    let mut shard = heap.lock(0);
    let block = shard.reserve(100).unwrap();
    shard.write(&block, 0, b"published");
    let block = shard.publish(block, 9);
    shard.set(shard.root(0), block.raw());
    shard.commit().unwrap();
    shard.append(block, 9, b" and more");
    shard.free(block);
    shard.set(shard.root(0), 0);
    shard.set(shard.root(1), 7);
    shard.commit().unwrap();
    let again = shard.reserve(100).unwrap();
    assert_eq!(again.ptr(), block, "the block is used again at once");
    shard.write(&again, 0, b"what the next transaction writes before it crashes");
    drop(shard);
    let heap = pool.open(heap).expect("the newest record is whole");
    let shard = heap.lock(0);
    assert_eq!([0, 1].map(|root| shard.word(shard.root(root))), [0, 7]);
}

/// Bytes appended to a block that had a fence of its own were accepted as if that fence had covered
/// them too.
#[test]
fn an_append_to_an_adopted_block_is_verified_with_it() {
    let check = |appended: bool| {
        let (pool, heap) = Pool::new();
        let mut block = heap.lock(0).reserve_detached(1000).expect("free memory");
        block.write(0, &[1; 500]);
        Detached::persist(std::slice::from_ref(&block));
        let mut shard = heap.lock(0);
        let fresh = shard.adopt(block);
        let at = shard.publish(fresh, 500);
        if appended {
            shard.append(at, 500, &[2; 100]);
        }
        let root = shard.root(0);
        shard.set(root, at.raw());
        shard.commit().expect("a commit");
        drop(shard);
        drop(heap);
        // The record arrived, but neither the words that are stored after its fence, nor bytes that
        // only this fence made durable.
        let file = std::fs::OpenOptions::new().write(true).open(&pool.path).expect("the pool");
        for (at, len) in [(at.raw() + 500, 100), (root.raw(), 8), (FENCED, 8)] {
            file.write_all_at(&vec![0; len], at).expect("a write");
        }
        let heap = Heap::open(region(&pool.path), BOOT).expect("the pool opens").0;
        let shard = heap.lock(0);
        assert_eq!(get(&shard, 0, 500).is_some(), !appended, "appended: {appended}");
    };
    check(false);
    check(true);
}
