//! A length and the CRC-32C of as many bytes in one word, so that both change at once.
//!
//! The word also has a checksum of itself. The bytes of a long value are verified only
//! periodically, but its lengths whenever they are read: a lost word must not be taken for an empty
//! value.
//!
//! ```text
//!  63                      32 31           17 16            0
//! +--------------------------+---------------+---------------+
//! | CRC-32C of the bytes     | check         | length        |
//! +--------------------------+---------------+---------------+
//! ```

/// Length and checksum of published bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checksum {
    pub(crate) len: u32,
    pub(crate) crc: u32,
}

const LEN_BITS: u32 = 17;
const LEN: u64 = (1 << LEN_BITS) - 1;
const CHECK: u64 = 0xffff_ffff & !LEN;

const _: () = assert!(heap::MAX_BLOCK as u64 <= LEN);

impl Checksum {
    pub(crate) fn of(bytes: &[u8]) -> Checksum {
        Checksum::default().and(bytes)
    }

    /// Extends the checksum by the bytes that follow.
    pub(crate) fn and(self, bytes: &[u8]) -> Checksum {
        Checksum {
            len: self.len.wrapping_add(bytes.len() as u32),
            crc: heap::crc32c_append(self.crc, bytes),
        }
    }

    /// Reads a word; returns `None` if it is damaged.
    pub(crate) fn from_word(word: u64) -> Option<Checksum> {
        let checksum = Checksum { len: (word & LEN) as u32, crc: (word >> 32) as u32 };
        (checksum.word() == word).then_some(checksum)
    }

    pub(crate) fn word(self) -> u64 {
        let word = u64::from(self.crc) << 32 | u64::from(self.len) & LEN;
        word | check(word)
    }
}

/// Returns the word's own checksum; that of 0 is not 0, since a lost word reads as zeros.
fn check(word: u64) -> u64 {
    u64::from(heap::crc32c_words(&[word]) ^ 0xa55a_a55a) & CHECK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_two_flipped_bits_are_noticed() {
        for (len, crc) in [(0, 0), (1, 77), (65_536, u32::MAX)] {
            let word = Checksum { len, crc }.word();
            assert_eq!(Checksum::from_word(word), Some(Checksum { len, crc }));
            for (a, b) in (0..64).flat_map(|a| (0..=a).map(move |b| (a, b))) {
                let flipped = word ^ 1 << a ^ if a == b { 0 } else { 1 << b };
                assert_eq!(Checksum::from_word(flipped), None, "{len} {crc:#x}: bits {a} and {b}");
            }
        }
    }

    #[test]
    fn lost_words_are_no_checksums() {
        assert_eq!(Checksum::from_word(0), None);
        assert_eq!(Checksum::from_word(u64::MAX), None);
    }
}
