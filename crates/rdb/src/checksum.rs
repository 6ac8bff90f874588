//! The checksum at the end of a dump: Jones's CRC64, reflected, starting with zero.

use crc_fast::{CrcAlgorithm, Digest};

/// A checksum that is updated with the bytes read or written.
pub(crate) type Checksum = Digest;

/// Begins a checksum.
pub(crate) fn begin() -> Checksum {
    Digest::new(CrcAlgorithm::Crc64Redis)
}

/// Returns the checksum of these bytes.
pub(crate) fn of(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Redis, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_one_that_redis_uses() {
        assert_eq!(of(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    /// Long inputs are computed differently; this compares with Redis's `crc64.c`, bit by bit.
    #[test]
    fn all_lengths_have_the_checksum_that_is_computed_bit_by_bit() {
        let slow = |bytes: &[u8]| {
            bytes.iter().fold(0u64, |crc, byte| {
                (0..8).fold(crc ^ u64::from(*byte), |crc, _| match crc & 1 {
                    0 => crc >> 1,
                    _ => crc >> 1 ^ 0x95ac_9329_ac4b_c9b5,
                })
            })
        };
        let bytes: Vec<u8> =
            (0..3000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for len in (0..600).chain([1000, 1023, 1024, 1025, 2047, 2999, 3000]) {
            let expected = slow(&bytes[..len]);
            assert_eq!(of(&bytes[..len]), expected, "{len} bytes");
            let mut pieces = begin();
            bytes[..len].chunks(7 + len % 300).for_each(|piece| pieces.update(piece));
            assert_eq!(pieces.finalize(), expected, "{len} bytes in pieces");
        }
    }
}
