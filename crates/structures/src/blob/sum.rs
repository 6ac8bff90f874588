//! A length and the CRC-32C of as many bytes, in one word: both change at once.

/// Length and checksum of published bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) len: u32,
    pub(crate) crc: u32,
}

impl Sum {
    pub(crate) fn of(bytes: &[u8]) -> Sum {
        Sum::default().and(bytes)
    }

    /// With further bytes behind.
    pub(crate) fn and(self, bytes: &[u8]) -> Sum {
        Sum {
            len: self.len.wrapping_add(bytes.len() as u32),
            crc: heap::crc32c_append(self.crc, bytes),
        }
    }

    pub(crate) const fn from_word(word: u64) -> Sum {
        Sum { len: word as u32, crc: (word >> 32) as u32 }
    }

    pub(crate) const fn word(self) -> u64 {
        self.len as u64 | (self.crc as u64) << 32
    }
}
