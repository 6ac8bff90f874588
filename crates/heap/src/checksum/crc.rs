//! CRC-32C.
//!
//! Entries and records are a few dozen bytes each. A checksum crate is made for long input: it
//! chooses an implementation in every call. The CPU's own instruction takes eight bytes at a time,
//! each step waiting three cycles for the one before. From [`LONG`] bytes on, `crc-fast` is faster,
//! since it also multiplies polynomials in wide registers: 4 KiB take 89 ns with it on a Zen 4, 184
//! ns in three interleaved checksums, 420 ns in one.

#![allow(unsafe_code, reason = "the processor's instruction is called where it was found")]

use crc_fast::{CrcAlgorithm, Digest};

/// Length in bytes from which the crate is faster.
const LONG: usize = 256;

/// Returns the CRC-32C of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// Returns the CRC-32C of two joined pieces: the first has the CRC-32C `crc`, the second is
/// `bytes`.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    if bytes.len() < LONG && available() {
        // SAFETY: the processor has the instruction.
        return !unsafe { short(!crc, bytes) };
    }
    long(crc, bytes)
}

/// Returns the CRC-32C of words as they are stored, little endian.
#[inline]
pub fn crc32c_words(words: &[u64]) -> u32 {
    if available() {
        // SAFETY: the processor has the instruction.
        return !unsafe { of_words(words) };
    }
    words.iter().fold(0, |crc, word| long(crc, &word.to_le_bytes()))
}

/// Returns the CRC-32C of the lower six bytes of a word, little endian.
#[inline]
pub fn crc32c_six_bytes(word: u64) -> u32 {
    if available() {
        // SAFETY: the processor has the instruction.
        return !unsafe { of_six_bytes(word) };
    }
    long(0, &word.to_le_bytes()[..6])
}

fn long(crc: u32, bytes: &[u8]) -> u32 {
    let mut checksum = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    checksum.update(bytes);
    checksum.finalize() as u32
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn available() -> bool {
    std::arch::is_x86_feature_detected!("sse4.2")
}

/// # Safety
/// The processor has SSE4.2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
unsafe fn short(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let checksum = |checksum, word: &[u8; 8]| _mm_crc32_u64(checksum, u64::from_le_bytes(*word));
    // Four words at a time: a loop over single words costs more for its control than for the
    // checksum.
    let (blocks, rest) = bytes.as_chunks::<32>();
    let of_blocks = blocks.iter().fold(u64::from(crc), |crc, block| {
        let (words, _) = block.as_chunks::<8>();
        words.iter().fold(crc, checksum)
    });
    let (words, mut rest) = rest.as_chunks::<8>();
    let mut crc = words.iter().fold(of_blocks, checksum) as u32;
    if let Some((half, tail)) = rest.split_first_chunk() {
        crc = _mm_crc32_u32(crc, u32::from_le_bytes(*half));
        rest = tail;
    }
    rest.iter().fold(crc, |crc, &byte| _mm_crc32_u8(crc, byte))
}

/// # Safety
/// The processor has SSE4.2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
unsafe fn of_words(words: &[u64]) -> u32 {
    use std::arch::x86_64::_mm_crc32_u64;
    words.iter().fold(u64::from(!0u32), |crc, &word| _mm_crc32_u64(crc, word)) as u32
}

/// # Safety
/// The processor has SSE4.2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
unsafe fn of_six_bytes(word: u64) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u16, _mm_crc32_u32};
    _mm_crc32_u16(_mm_crc32_u32(!0, word as u32), (word >> 32) as u16)
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn available() -> bool {
    std::arch::is_aarch64_feature_detected!("crc")
}

/// # Safety
/// The processor has the CRC extension.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "crc")]
unsafe fn short(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::aarch64::{__crc32cb, __crc32cd, __crc32cw};
    let (words, mut rest) = bytes.as_chunks::<8>();
    let checksum = |checksum, word: &[u8; 8]| __crc32cd(checksum, u64::from_le_bytes(*word));
    let mut crc = words.iter().fold(crc, checksum);
    if let Some((half, tail)) = rest.split_first_chunk() {
        crc = __crc32cw(crc, u32::from_le_bytes(*half));
        rest = tail;
    }
    rest.iter().fold(crc, |crc, &byte| __crc32cb(crc, byte))
}

/// # Safety
/// The processor has the CRC extension.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "crc")]
unsafe fn of_words(words: &[u64]) -> u32 {
    use std::arch::aarch64::__crc32cd;
    words.iter().fold(!0, |crc, &word| __crc32cd(crc, word))
}

/// # Safety
/// The processor has the CRC extension.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "crc")]
unsafe fn of_six_bytes(word: u64) -> u32 {
    use std::arch::aarch64::{__crc32ch, __crc32cw};
    __crc32ch(__crc32cw(!0, word as u32), (word >> 32) as u16)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn available() -> bool {
    false
}

/// # Safety
/// None: never called.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn short(crc: u32, bytes: &[u8]) -> u32 {
    !long(!crc, bytes)
}

/// # Safety
/// None: never called.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn of_words(_words: &[u64]) -> u32 {
    0
}

/// # Safety
/// None: never called.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn of_six_bytes(_word: u64) -> u32 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment_has_the_checksum_that_another_crate_gives() {
        let bytes: Vec<u8> =
            (0..70_000u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        let longer = [511, 512, 767, 768, 1023, 1024, 4095, 4096, 4097, 4136, 16_320, 65_536];
        for len in (0..LONG + 300).chain(longer) {
            for at in 0..16 {
                let part = &bytes[at..at + len];
                assert_eq!(crc32c(part), crc32c::crc32c(part), "{len} bytes at {at}");
                assert_eq!(crc32c_append(7, part), crc32c::crc32c_append(7, part));
            }
        }
    }

    #[test]
    fn a_checksum_goes_on_where_another_ended() {
        let bytes = b"a transaction stages compact entries";
        for cut in 0..bytes.len() {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(crc32c_append(crc32c(first), second), crc32c(bytes));
        }
    }

    #[test]
    fn words_have_the_checksum_of_their_bytes() {
        let words: [u64; 9] = std::array::from_fn(|n| 0x9e37_79b9_7f4a_7c15 << n ^ n as u64);
        for count in 0..words.len() {
            let bytes: Vec<u8> =
                words[..count].iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(crc32c_words(&words[..count]), crc32c(&bytes));
            let first = words[count].to_le_bytes();
            assert_eq!(crc32c_six_bytes(words[count]), crc32c(&first[..6]));
        }
    }

    #[test]
    fn the_checksum_is_the_one_that_others_know() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
