//! Copies past the cache.
//!
//! A copy that is flushed line by line afterwards reads each line into the cache and writes it out
//! again. Non-temporal stores of whole lines do neither; they are complete after a fence. But a
//! reader that follows soon must read the bytes from the medium. `examples/streaming.rs` measures
//! both; nanoseconds for a copy to lines that are not cached, and its fence, on an AMD EPYC (Zen 4,
//! virtual, clwb on DRAM):
//!
//! | bytes | flushed | streamed | flushed, then read | streamed, then read |
//! |---|---|---|---|---|
//! | 64 | 161 | 98 | 183 | 433 |
//! | 512 | 193 | 109 | 347 | 1022 |
//! | 1024 | 228 | 151 | 493 | 1260 |
//! | 2048 | 329 | 183 | 735 | 1523 |
//! | 4096 | 606 | 271 | 1049 | 1886 |
//! | 16384 | 2447 | 776 | 4877 | 4069 |
//!
//! Streaming always wins for the writer, by 60 to 80 ns up to 1 KiB and by half from there on; for
//! a reader that follows at once it wins from about 8 KiB. Small values are the ones that are read
//! again while cached, and index nodes are small: from [`STREAM_FROM`] on, the writer's gain grows
//! with the size.

use crate::lines::LINE;

/// Number of bytes from which a copy goes past the cache.
pub const STREAM_FROM: usize = 1024;

/// Returns how a copy of `len` bytes to offset `off` is divided: bytes before the first whole line,
/// whole lines, bytes after.
#[inline]
pub(crate) fn cut(off: u64, len: usize) -> (usize, usize, usize) {
    if len < STREAM_FROM {
        return (len, 0, 0);
    }
    let head = (off.next_multiple_of(LINE) - off) as usize;
    let body = (len - head) & !(LINE as usize - 1);
    (head, body, len - head - body)
}

/// Copies whole lines with non-temporal stores, if the CPU has them.
///
/// # Safety
/// `to` is the start of a line, `len` a multiple of the line, both ranges are mapped and do not
/// overlap, and nobody else accesses the destination meanwhile.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) unsafe fn copy_lines(to: *mut u8, from: *const u8, len: usize) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    const VECTOR: usize = size_of::<__m128i>();
    for line in (0..len / LINE as usize).map(|n| n * LINE as usize) {
        let from = from.wrapping_add(line);
        // SAFETY: `line + 64 <= len`, and the source is readable (caller); unaligned loads are
        // allowed.
        let partitions = [0, 1, 2, 3]
            .map(|n: usize| unsafe { _mm_loadu_si128(from.wrapping_add(n * VECTOR).cast()) });
        let to = to.wrapping_add(line);
        for (n, partition) in partitions.into_iter().enumerate() {
            // SAFETY: `line + 64 <= len`, the destination is writable and 16-byte aligned (caller).
            unsafe { _mm_stream_si128(to.wrapping_add(n * VECTOR).cast(), partition) };
        }
    }
}

/// Whether [`copy_lines`] leaves nothing in the cache, so that its lines need no flush.
pub(crate) const PAST_THE_CACHE: bool = cfg!(target_arch = "x86_64");

/// Without non-temporal stores: an ordinary copy, which must be flushed.
///
/// # Safety
/// As on x86-64.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) unsafe fn copy_lines(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: both ranges are mapped and do not overlap (caller).
    unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_cut_at_line_boundaries_and_loses_nothing() {
        for off in 0..130 {
            for len in 0..1500 {
                let (head, body, tail) = cut(off, len);
                assert_eq!(head + body + tail, len);
                if len >= STREAM_FROM {
                    assert!(head < 64 && tail < 64 && body % 64 == 0);
                    assert_eq!((off + head as u64) % 64, 0);
                } else {
                    assert_eq!((head, body), (len, 0));
                }
            }
        }
    }
}
