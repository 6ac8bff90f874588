//! Computes the CRC-32C of two joined pieces from the checksums of both.
//!
//! A value has a checksum of its own in its entry, and is a part of the fresh range that publishes
//! it. Reading 4 KiB again for the second checksum takes 89 ns; combining two checksums takes a
//! few.
//!
//! The checksum of two pieces is the first one's, carried over as many zero bytes as the second
//! has, plus the second one's. Carrying a checksum over zeros means multiplying it by a power of x
//! modulo the polynomial: one carry-less multiplication for each bit of the length. The CRC-32C
//! instruction reduces the product and also multiplies it by x^33, for which the constants
//! compensate.

#![allow(unsafe_code, reason = "the processor's instructions are called where they were found")]

/// Returns the CRC-32C of two joined pieces: the first has the CRC-32C `crc`, the second is `bytes`
/// and has the CRC-32C `checksum`.
#[inline]
pub fn crc32c_combine(crc: u32, bytes: &[u8], checksum: u32) -> u32 {
    debug_assert_eq!(checksum, super::crc::crc32c(bytes), "the checksum of other bytes");
    if available() {
        // SAFETY: the processor has the instructions.
        return unsafe { carried(crc, bytes.len()) } ^ checksum;
    }
    super::crc::crc32c_append(crc, bytes)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn available() -> bool {
    std::arch::is_x86_feature_detected!("sse4.2")
        && std::arch::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(not(target_arch = "x86_64"))]
fn available() -> bool {
    false
}

/// # Safety
/// None: never called.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn carried(crc: u32, _zeros: usize) -> u32 {
    crc
}

/// Returns the checksum carried over this many zero bytes.
///
/// # Safety
/// The processor has SSE4.2 and PCLMULQDQ.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2,pclmulqdq")]
unsafe fn carried(crc: u32, zeros: usize) -> u32 {
    use std::arch::x86_64::{
        _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64,
    };
    let (words, bytes) = (zeros / 8, zeros % 8);
    let mut crc = (0..bytes).fold(crc, |crc, _| _mm_crc32_u8(crc, 0));
    for (k, &power) in POWERS.iter().enumerate() {
        if words >> k & 1 != 0 {
            let (a, b) = (_mm_cvtsi64_si128(i64::from(crc)), _mm_cvtsi64_si128(power as i64));
            let product = _mm_cvtsi128_si64(_mm_clmulepi64_si128::<0>(a, b));
            crc = _mm_crc32_u64(0, product as u64) as u32;
        }
    }
    crc
}

/// The polynomial, with the lowest coefficient in the highest bit.
#[cfg(target_arch = "x86_64")]
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// x^(64 * 2^k - 33) modulo the polynomial; enough for lengths of 32 bits.
#[cfg(target_arch = "x86_64")]
const POWERS: [u64; 29] = {
    // x^0 is the highest bit.
    let (mut power, mut step, mut x) = (1 << 31, 1 << 31, 0);
    while x < 64 {
        if x < 64 - 33 {
            power = multiply_by_x(power);
        }
        step = multiply_by_x(step);
        x += 1;
    }
    let (mut powers, mut k) = ([0; 29], 0);
    while k < powers.len() {
        powers[k] = power as u64;
        power = multiply(power, step);
        step = multiply(step, step);
        k += 1;
    }
    powers
};

#[cfg(target_arch = "x86_64")]
const fn multiply_by_x(a: u32) -> u32 {
    a >> 1 ^ if a & 1 != 0 { POLYNOMIAL } else { 0 }
}

#[cfg(target_arch = "x86_64")]
const fn multiply(a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, 1 << 31);
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = multiply_by_x(b);
        bit >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_two_pieces_is_that_of_all_bytes() {
        let bytes: Vec<u8> =
            (0..200_000u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        let lens = (0..600).chain([1000, 1024, 4095, 4096, 4097, 65_535, 65_536, 199_000]);
        for len in lens {
            for first in [0, 1, 24, 64, 1000] {
                let (head, body) = bytes[..first + len].split_at(first);
                let joined = crc32c_combine(crc32c::crc32c(head), body, crc32c::crc32c(body));
                assert_eq!(joined, crc32c::crc32c(&bytes[..first + len]), "{first} and {len}");
            }
        }
    }
}
