//! What the pool records about a span: its word in the span table, and the header of a span that is
//! cut into blocks.

use super::size_class::{CLASSES, Class};
use crate::checksum::crc32c;

/// Returns the word of the span table for a span in use; 0 means free.
pub(crate) fn span_word(class: u8, shard: usize) -> u64 {
    (u64::from(class) + 1) | (shard as u64) << 8
}

/// Returns class and shard of a span in use; `None` if it is free or the word makes no sense.
pub(crate) fn split_span_word(word: u64, shards: usize) -> Option<(u8, usize)> {
    let class = (word & 0xff).checked_sub(1)?;
    let shard = (word >> 8) as usize;
    (class < CLASSES as u64 && shard < shards).then_some((class as u8, shard))
}

/// Masks a checksum that is stored right after the bytes it covers. Bytes followed by their own CRC
/// have a CRC that no longer depends on them: a plain checksum in a fresh range would make every
/// span's header look like any other's to the range's checksum.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Returns the header of a span of this shape: class, count, their checksum.
pub(crate) fn header(class: u8, shape: &Class) -> [u8; 64] {
    let mut header = [0; 64];
    header[..4].copy_from_slice(&u32::from(class).to_le_bytes());
    header[4..8].copy_from_slice(&shape.count.to_le_bytes());
    let checksum = masked(crc32c(&header[..8]));
    header[8..12].copy_from_slice(&checksum.to_le_bytes());
    header
}
