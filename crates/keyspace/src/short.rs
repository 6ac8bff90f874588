//! The header of a short entry: one word.
//!
//! Most keys are short and so are most values, so their entries are made of as few bytes as
//! possible: one word says what the value is and how long key and value are, and has one checksum
//! of both. There is an expiry word only if the key has, or had, an expiry time. All other entries
//! have the longer header that `layout` describes.
//!
//! ```text
//!  0   bits 0 to 3    7
//!      bit 4          RAW, of a string
//!      bits 5 to 7    zero
//!      bits 8 to 20   length of the string; all ones of an integer
//!      bits 21 to 30  key length
//!      bit 31         there is an expiry word
//!      bits 32 to 63  crc32c of the key, followed by the string
//!  8   expiry time, if bit 31 is set (logged)
//!  .   key
//!  .   bytes of the string; or cell of the integer, at the next multiple of 8
//! ```
//!
//! The checksum begins with the key's length, so that a wrong length is noticed where key and
//! string together are as long as before. A checksum that is wrong does not say whether the key is
//! damaged: whoever needs the name asks whether the entry's slot fits its hash (`verify`).

use crate::layout::{LEN, LEN_AT, RAW, SHORT_INT, TAG_SHORT, VALUE_INLINE, tag};

/// The maximum length, in bytes, of the key of a short entry.
pub const KEY_SHORT: usize = 1023;
/// Bytes of the header without an expiry word.
pub(crate) const LEAST: usize = 8;
const EXPIRY_WORD: usize = 8;

const KEY_LEN_AT: u32 = 21;
const KEY_LEN: u64 = (1 << 10) - 1;
const HAS_EXPIRY_WORD: u64 = 1 << 31;
const _: () = assert!(VALUE_INLINE as u64 <= LEN && KEY_SHORT as u64 <= KEY_LEN);
const _: () = assert!((LEN << LEN_AT) & (KEY_LEN << KEY_LEN_AT) == 0);
const _: () = assert!((LEN << LEN_AT | KEY_LEN << KEY_LEN_AT) & HAS_EXPIRY_WORD == 0);
// A key of 16 bytes and a value of 32 take a block of 56 bytes.
const _: () = assert!(LEAST + 16 + 32 == 56);

/// The start value of a key's checksum, combined with the key's length. The checksum of a blob
/// starts with 0, so the block of an entry is never taken for that of a blob.
const SEED: u32 = 0xa55a_0000;

/// The layout of a short entry, as its first word has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short {
    pub(crate) key_len: usize,
    pub(crate) has_expiry_word: bool,
}

impl Short {
    /// Decodes the first word of an entry, also of one that is marked as damaged. Returns `None` if
    /// the entry is not short.
    #[inline]
    pub(crate) fn decode(word: u64) -> Option<Short> {
        (tag(word) == TAG_SHORT).then_some(Short {
            key_len: (word >> KEY_LEN_AT & KEY_LEN) as usize,
            has_expiry_word: word & HAS_EXPIRY_WORD != 0,
        })
    }

    /// Returns the offset of the key.
    #[inline]
    pub(crate) fn key_at(self) -> usize {
        if self.has_expiry_word { LEAST + EXPIRY_WORD } else { LEAST }
    }

    /// Returns the word of a string of `len` bytes. The checksum is that of key and string.
    #[inline]
    pub(crate) fn string(self, raw: bool, len: usize, checksum: u32) -> u64 {
        let raw = if raw { RAW } else { 0 };
        self.word(checksum) | raw | (len as u64) << LEN_AT
    }

    /// Returns the word of an integer. The checksum is that of the key.
    #[inline]
    pub(crate) fn int(self, checksum: u32) -> u64 {
        self.word(checksum) | SHORT_INT << LEN_AT
    }

    #[inline]
    fn word(self, checksum: u32) -> u64 {
        debug_assert!(self.key_len <= KEY_SHORT, "a longer key would change the other fields");
        let timed = if self.has_expiry_word { HAS_EXPIRY_WORD } else { 0 };
        let key_len = (self.key_len as u64) << KEY_LEN_AT;
        TAG_SHORT | key_len | timed | u64::from(checksum) << 32
    }
}

/// Returns the checksum of a key, which that of a string after it continues.
#[inline]
pub(crate) fn key_checksum(key: &[u8]) -> u32 {
    heap::crc32c_append(SEED | key.len() as u32, key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Kind, is_marked, marked};

    #[test]
    fn words_read_back_as_written_and_when_they_are_marked() {
        for key_len in [0, 1, KEY_SHORT] {
            for has_expiry_word in [false, true] {
                let short = Short { key_len, has_expiry_word };
                let (len, crc) = (VALUE_INLINE, u32::MAX);
                for (word, kind) in [
                    (short.string(true, len, crc), Kind::Inline { raw: true, len, crc }),
                    (short.string(false, 0, 0), Kind::Inline { raw: false, len: 0, crc: 0 }),
                    (short.int(7), Kind::Int),
                ] {
                    assert_eq!(Kind::decode(word), Some(kind));
                    assert_eq!(Short::decode(word), Some(short));
                    assert!(!is_marked(word));
                    assert_eq!(Kind::decode(marked(word)), None);
                    assert_eq!(Short::decode(marked(word)), Some(short));
                }
            }
        }
    }

    #[test]
    fn words_of_other_entries_are_not_short() {
        for word in [0, Kind::Int.encode(), Kind::Blob.encode(), marked(0), 5, 6] {
            assert_eq!(Short::decode(word), None, "{word:#x}");
        }
    }

    #[test]
    fn the_checksum_of_a_key_depends_on_where_it_ends() {
        let whole = |key: &[u8], value: &[u8]| heap::crc32c_append(key_checksum(key), value);
        assert_ne!(whole(b"ab", b"c"), whole(b"a", b"bc"));
        assert_ne!(whole(b"", b"abc"), heap::crc32c(b"abc"));
        assert_ne!(whole(b"", b""), 0);
    }
}
