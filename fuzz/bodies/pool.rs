//! Opening a damaged pool gives an error or a heap whose metadata can be checked and which commits;
//! never a panic, never an endless loop, never a byte outside of the pool.
//!
//! Input that begins with a zero byte is the pool itself, as it is in the file. Any other is a
//! series of changes to a small pool with some records in its rings: a kind, a place of three
//! bytes, a length, bytes. Since checksums would stop nearly every change at the door, there are
//! kinds that make the checksum right again.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use heap::{CreateOptions, Geometry, Heap, View};
use pmem::{Domain, DomainRequest, MapOptions, Region};
use tempfile::NamedTempFile;

const GEOMETRY: Geometry = Geometry { shards: 2, ring_parts: 3, ring_part: 1024, zone_spans: 8 };
const BOOT: [u8; 16] = [1; 16];
/// Where the rings of [`GEOMETRY`] begin: after the shard areas.
const RINGS: usize = 16384;
const HEADERS: [usize; 2] = [0, 4096];
const HEADER_LEN: usize = 192;
const LINE: usize = 64;
const SPAN: usize = 65536;

/// The body of the target.
pub(crate) fn check(data: &[u8]) {
    let image = match data.split_first() {
        None => return,
        Some((0, raw)) => raw.to_vec(),
        Some(_) => changed(data),
    };
    let file = scratch();
    put(&file, &image).expect("a scratch file can be written");
    let Ok((heap, _)) = Heap::open(region(&file), BOOT) else { return };
    let was_sound = heap.allocated().is_ok();
    for shard in 0..heap.shards() {
        exercise(&heap, shard);
    }
    assert!(!was_sound || heap.allocated().is_ok(), "commits damaged a sound pool");
    let closed = heap.close();
    drop(heap);
    if closed.is_ok() {
        Heap::open(region(&file), BOOT).expect("what was closed cleanly opens");
    }
}

/// Some transactions, each allowed to fail.
fn exercise(heap: &Heap, shard: usize) {
    for round in 0..3 {
        let mut tx = heap.lock(shard);
        let root = tx.root(round);
        let Ok(fresh) = tx.reserve(100 << (4 * round)) else { return };
        tx.write(&fresh, 0, &[round as u8; 40]);
        let block = tx.publish(fresh, 40);
        tx.set(root, block.raw());
        if tx.commit().is_err() {
            return;
        }
    }
}

/// Returns the small pool with the changes that the input says.
fn changed(mut data: &[u8]) -> Vec<u8> {
    let mut image = base().to_vec();
    while let [kind, a, b, c, len, rest @ ..] = data {
        let at = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
        let (bytes, following) = rest.split_at(usize::from(*len).min(rest.len()));
        match kind % 6 {
            0 => image.truncate(at),
            1 | 2 => write(&mut image, at, bytes),
            3 => fix_header_checksum(&mut image, HEADERS[at % 2]),
            4 => fix_record_checksum(&mut image, RINGS + at * LINE),
            _ => fix_span_checksum(&mut image, at * SPAN),
        }
        data = following;
    }
    image
}

fn write(image: &mut [u8], at: usize, bytes: &[u8]) {
    let fitting = image.len().saturating_sub(at).min(bytes.len());
    if fitting > 0 {
        image[at..at + fitting].copy_from_slice(&bytes[..fitting]);
    }
}

fn fix_header_checksum(image: &mut [u8], at: usize) {
    if let Some(header) = image.get_mut(at..at + HEADER_LEN) {
        let crc = crc32c::crc32c(&header[16..]);
        header[12..16].copy_from_slice(&crc.to_le_bytes());
    }
}

fn fix_span_checksum(image: &mut [u8], at: usize) {
    if let Some(header) = image.get_mut(at..at + 12) {
        let crc = crc32c::crc32c(&header[..8]).rotate_right(15).wrapping_add(0xa282_ead8);
        header[8..].copy_from_slice(&crc.to_le_bytes());
    }
}

fn fix_record_checksum(image: &mut [u8], at: usize) {
    let Some(&[low, high]) = image.get(at + 14..at + 16) else { return };
    let len = usize::from(u16::from_le_bytes([low, high])) * 8;
    if let Some(record) = image.get_mut(at..at + len).filter(|record| record.len() >= 24) {
        let crc = crc32c::crc32c(&record[4..]);
        record[..4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Returns a pool that was left in the middle of its life: blocks allocated and freed, records of
/// one shard and of both.
fn base() -> &'static [u8] {
    static BASE: OnceLock<Vec<u8>> = OnceLock::new();
    BASE.get_or_init(|| {
        let file = scratch();
        let options =
            CreateOptions { geometry: GEOMETRY, uuid: [2; 16], hash_seed: [3; 16], boot_id: BOOT };
        drop(Heap::create(region(&file), &options).expect("a pool can be made"));
        // Its second life, so that both copies of the header are there.
        let (heap, _) = Heap::open(region(&file), BOOT).expect("a new pool opens");
        (0..2).for_each(|shard| exercise(&heap, shard));
        {
            let mut both = [heap.lock(0), heap.lock(1)];
            for tx in &mut both {
                let root = tx.root(9);
                let fresh = tx.reserve(64).expect("free memory");
                tx.write(&fresh, 0, b"of a transaction over both");
                let block = tx.publish(fresh, 26);
                tx.set(root, block.raw());
            }
            heap.commit_all(&mut both).expect("memory does not fail");
        }
        {
            let mut tx = heap.lock(0);
            let block = heap::Ptr::from_raw(tx.word(tx.root(0)));
            tx.free(block);
            let root = tx.root(0);
            tx.set(root, 0);
            tx.commit().expect("memory does not fail");
        }
        let image = fs::read(file.path()).expect("the pool's file");
        drop(heap);
        is_where_it_was(&image);
        image
    })
}

/// The seals must change nothing in a sound pool; else the layout has moved, and this target tries
/// nothing any more.
fn is_where_it_was(image: &[u8]) {
    let mut fixed = image.to_vec();
    HEADERS.iter().for_each(|&at| fix_header_checksum(&mut fixed, at));
    fix_record_checksum(&mut fixed, RINGS);
    let span = (2..).find(|span| image[span * SPAN..][..12].iter().any(|&byte| byte != 0));
    fix_span_checksum(&mut fixed, span.expect("a span in use") * SPAN);
    assert!(image[RINGS + 14] > 0 && fixed == image, "the pool's layout is no longer what it was");
}

/// Writes the pages that are not zero: a pool has few.
fn put(file: &NamedTempFile, image: &[u8]) -> io::Result<()> {
    file.as_file().set_len(image.len() as u64)?;
    for (page, bytes) in image.chunks(4096).enumerate() {
        if bytes.iter().any(|&byte| byte != 0) {
            file.as_file().write_all_at(bytes, page as u64 * 4096)?;
        }
    }
    Ok(())
}

fn scratch() -> NamedTempFile {
    let memory = NamedTempFile::new_in("/dev/shm");
    memory.or_else(|_| NamedTempFile::new()).expect("a scratch file")
}

fn region(file: &NamedTempFile) -> Region {
    let options = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(4 << 20) };
    let region = Region::open(file.path(), &options).expect("a file can be mapped");
    assert_eq!(region.domain(), Domain::Process);
    region
}
