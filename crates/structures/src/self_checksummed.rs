//! Words of 48 bits with a checksum of their own.
//!
//! A word that the log changes has no checksum next to it. If it has 16 bits to spare, they hold a
//! checksum of the others: a flipped bit is noticed when the word is read.

/// The largest number that fits.
pub const MAX: u64 = (1 << 48) - 1;

/// Returns the word of a number of up to 48 bits, with its checksum on top.
#[inline]
pub fn encode(number: u64) -> u64 {
    let number = number & MAX;
    number | checksum(number) << 48
}

/// Returns the number in a self-checksummed word; `None` if the word is damaged.
#[inline]
pub fn decode(word: u64) -> Option<u64> {
    let number = word & MAX;
    (checksum(number) == word >> 48).then_some(number)
}

/// Returns the checksum; that of 0 is not 0, since a lost word reads as zeros.
#[inline]
fn checksum(number: u64) -> u64 {
    u64::from(heap::crc32c_six_bytes(number) & 0xffff) ^ 0xa55a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_noticed() {
        for number in [0, 1, 77, 1 << 40, MAX] {
            let word = encode(number);
            assert_eq!(decode(word), Some(number));
            assert!((0..64).all(|bit| decode(word ^ 1 << bit).is_none()), "{number:#x}");
        }
        assert_eq!(decode(0), None);
        assert_eq!(decode(u64::MAX), None);
    }
}
