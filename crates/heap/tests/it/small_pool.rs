//! Small pools in which tests look for bytes, and lose some.

use heap::{CreateOptions, Geometry, Heap, Ptr, Salvage};
use pmem::{DomainRequest, MapOptions, Region};
use std::fs;
use std::path::Path;

pub(crate) const BOOT: [u8; 16] = [1; 16];
pub(crate) const OTHER_BOOT: [u8; 16] = [2; 16];
/// The place of the tail of shard 0.
pub(crate) const TAIL: usize = 12288;
/// The place of its ring, and what a ring takes.
pub(crate) const RING: usize = 16384;
pub(crate) const RING_BYTES: usize = 4 * 4096;
pub(crate) const LINE: usize = 64;
pub(crate) const SPAN: usize = 65536;
/// More words than fit into a record of the ring.
pub(crate) const WORDS: u64 = 400;

pub(crate) fn create(path: &Path, shards: usize) -> Heap {
    let geometry = Geometry { shards, ring_parts: 4, ring_part: 4096, zone_spans: 64 };
    let options = CreateOptions { geometry, boot_id: BOOT, ..CreateOptions::default() };
    Heap::create(region(path), &options).expect("a pool")
}

pub(crate) fn region(path: &Path) -> Region {
    let domain = DomainRequest::Clwb;
    let map = MapOptions { domain, emulate: true, ..MapOptions::new(8 << 20) };
    Region::open(path, &map).expect("a region")
}

/// Salvages a pool with these bytes.
pub(crate) fn salvage(path: &Path, bytes: &[u8], boot_id: [u8; 16]) -> Salvage {
    fs::write(path, bytes).expect("the pool");
    Salvage::open(Region::inspect(path).expect("a mapping"), boot_id).expect("a pool")
}

/// Returns the two words that set a word in the body of a record.
pub(crate) fn set_entry(at: Ptr, value: u64) -> [u8; 16] {
    let words = [at.raw() >> 3 | 1 << 60, value];
    words.map(u64::to_le_bytes).concat().try_into().expect("two words")
}

/// Returns the place of the body of a long record that begins by setting a word to 1.
pub(crate) fn body(bytes: &[u8], first: Ptr) -> usize {
    let begin = set_entry(first, 1);
    let mut spans = bytes.chunks(SPAN).map(|span| span.starts_with(&begin));
    spans.position(|begins| begins).expect("the body") * SPAN
}

/// Returns the places of the lines of a shard's ring in which something is.
pub(crate) fn used_lines(bytes: &[u8], shard: usize) -> Vec<usize> {
    let is_used = |at: &usize| bytes[*at..][..LINE].iter().any(|byte| *byte != 0);
    let ring = RING + RING_BYTES * shard;
    (ring..ring + RING_BYTES).step_by(LINE).filter(is_used).collect()
}

/// Returns true if the record of this number begins on a line of a ring.
pub(crate) fn has_number(line: &[u8], number: u64) -> bool {
    line[8..14] == number.to_le_bytes()[..6]
}
