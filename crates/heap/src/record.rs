//! The form of a record in a shard's redo log.
//!
//! A record begins on a line of the ring and takes whole lines. All fields are little endian.
//!
//! ```text
//! 0   crc32c u32   of bytes 4.. of the record (bytes after `words` words are not part of it)
//! 4   epoch u32
//! 8   sequence number (48 bits) | kind << 56
//! 16  LSN
//! 24  words u16    length of the record in words, header included
//! 26  fresh u16    how many fresh ranges
//! 28  zero u32
//! 32  link, if it is one of several: shard << 48 | sequence number
//! ..  entries
//! ..  fresh ranges, two words each: offset | UNVERIFIED << 63, then length u32 | crc32c u32
//! ```
//!
//! An entry names a word by `offset / 8` in its low 45 bits and says what becomes of it: `SET` (the value follows
//! as a word of its own), or one bit set or cleared (bit number in bits 48 to 53). All are idempotent.
//!
//! A record too long for a part is *long*: its entries and ranges lie in spans that are flushed with it, and its
//! body names them: fresh count u32 | words u32, then for each span offset, and length u32 | crc32c u32.

#![allow(unsafe_code, reason = "words are looked at as bytes")]

/// Words of a record's header.
pub(crate) const HEADER_WORDS: usize = 4;
/// A fresh range whose bytes had a fence of their own before the record was written.
pub(crate) const UNVERIFIED: u64 = 1 << 63;
/// Sequence numbers have 48 bits.
pub(crate) const SEQ_MASK: u64 = (1 << 48) - 1;

const WORD_MASK: u64 = (1 << 45) - 1;
const OP_SHIFT: u32 = 60;
const BIT_SHIFT: u32 = 48;
const OP_SET: u64 = 1;
const OP_BIT_SET: u64 = 2;
const OP_BIT_CLEAR: u64 = 3;

/// What a record is: the bits of its kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    /// One of the records of a transaction over several shards: its first word behind the header is its link.
    pub(crate) linked: bool,
    /// Its ranges and entries lie in spans.
    pub(crate) long: bool,
}

impl Kind {
    const RECORD: u8 = 1;
    const LINKED: u8 = 2;
    const LONG: u8 = 4;

    fn raw(self) -> u8 {
        Self::RECORD | (u8::from(self.linked) * Self::LINKED) | (u8::from(self.long) * Self::LONG)
    }

    fn from_raw(raw: u8) -> Option<Kind> {
        let known = raw & !(Self::LINKED | Self::LONG) == Self::RECORD;
        known.then_some(Kind { linked: raw & Self::LINKED != 0, long: raw & Self::LONG != 0 })
    }

    /// Words of the header, the link included.
    pub(crate) fn header_words(self) -> usize {
        HEADER_WORDS + usize::from(self.linked)
    }
}

/// The next record of a transaction over several shards: its shard, and its sequence number there. The links of
/// all its records are a circle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) shard: usize,
    pub(crate) seq: u64,
}

impl Link {
    pub(crate) fn encode(self) -> u64 {
        (self.shard as u64) << 48 | self.seq & SEQ_MASK
    }

    pub(crate) fn decode(word: u64) -> Link {
        Link { shard: (word >> 48) as usize, seq: word & SEQ_MASK }
    }
}

/// The fields of a record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) epoch: u32,
    pub(crate) seq: u64,
    pub(crate) kind: Kind,
    /// Log sequence number; the records of one transaction have the same.
    pub(crate) lsn: u64,
    pub(crate) words: usize,
    pub(crate) fresh: usize,
}

impl RecordHeader {
    /// Writes the header over the first words of `record`, whose body is complete, with the checksum of all.
    pub(crate) fn seal(&self, record: &mut [u64]) {
        debug_assert_eq!(record.len(), self.words);
        record[0] = u64::from(self.epoch) << 32;
        record[1] = self.seq & SEQ_MASK | u64::from(self.kind.raw()) << 56;
        record[2] = self.lsn;
        record[3] = self.words as u64 | (self.fresh as u64) << 16;
        record[0] |= u64::from(checksum(record));
    }

    /// Reads a header; none when it cannot be one. The checksum is not looked at.
    pub(crate) fn parse(words: &[u64; HEADER_WORDS], part_words: usize) -> Option<RecordHeader> {
        let header = RecordHeader {
            epoch: (words[0] >> 32) as u32,
            seq: words[1] & SEQ_MASK,
            kind: Kind::from_raw((words[1] >> 56) as u8)?,
            lsn: words[2],
            words: (words[3] & 0xffff) as usize,
            fresh: (words[3] >> 16 & 0xffff) as usize,
        };
        let least = header.kind.header_words() + 2 * header.fresh;
        let fits = header.words >= least && header.words <= part_words;
        (fits && words[1] >> 48 & 0xff == 0 && words[3] >> 32 == 0).then_some(header)
    }

    /// Lines that the record takes in the ring.
    pub(crate) fn lines(&self) -> usize {
        self.words.div_ceil(8)
    }
}

/// The checksum of a record: all of it but its own four bytes.
pub(crate) fn checksum(record: &[u64]) -> u32 {
    crate::crc32c(&bytes_of(record)[4..])
}

/// CRC-32C of words in little-endian order, continued from `crc`.
pub(crate) fn checksum_words(crc: u32, words: &[u64]) -> u32 {
    crate::crc32c_append(crc, bytes_of(words))
}

/// The words as they lie in the pool.
pub(crate) fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: the bytes of the words, of which every one is initialised; any byte is a `u8`.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Pools are little endian, and words are copied as they lie in memory.
const _: () = assert!(cfg!(target_endian = "little"));

/// Bytes that a transaction publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FreshRange {
    pub(crate) at: u64,
    pub(crate) len: u32,
    pub(crate) crc: u32,
    /// Whether recovery compares the checksum: not for bytes that had a fence of their own.
    pub(crate) verified: bool,
}

impl FreshRange {
    pub(crate) fn encode(&self) -> [u64; 2] {
        let mark = if self.verified { 0 } else { UNVERIFIED };
        [self.at | mark, u64::from(self.len) | u64::from(self.crc) << 32]
    }

    pub(crate) fn decode(words: [u64; 2]) -> FreshRange {
        FreshRange {
            at: words[0] & !UNVERIFIED,
            len: words[1] as u32,
            crc: (words[1] >> 32) as u32,
            verified: words[0] & UNVERIFIED == 0,
        }
    }
}

/// What becomes of one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Set(u64),
    SetBit(u32),
    ClearBit(u32),
}

/// One entry: the word at `at` changes so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    pub(crate) change: Change,
}

impl Entry {
    /// Appends the entry to a record's body.
    #[inline(always)]
    pub(crate) fn encode(&self, out: &mut Vec<u64>) {
        let at = self.at >> 3;
        match self.change {
            Change::Set(value) => out.extend_from_slice(&[at | OP_SET << OP_SHIFT, value]),
            Change::SetBit(bit) => {
                out.push(at | u64::from(bit) << BIT_SHIFT | OP_BIT_SET << OP_SHIFT);
            }
            Change::ClearBit(bit) => {
                out.push(at | u64::from(bit) << BIT_SHIFT | OP_BIT_CLEAR << OP_SHIFT);
            }
        }
    }

    /// The word's new value.
    #[inline]
    pub(crate) fn applied_to(&self, old: u64) -> u64 {
        match self.change {
            Change::Set(value) => value,
            Change::SetBit(bit) => old | 1 << bit,
            Change::ClearBit(bit) => old & !(1 << bit),
        }
    }
}

/// Goes through encoded entries; ends at the first word that is not one.
#[inline]
pub(crate) fn entries(words: &[u64]) -> impl Iterator<Item = Entry> + '_ {
    let mut rest = words;
    std::iter::from_fn(move || {
        let (&first, tail) = rest.split_first()?;
        let at = (first & WORD_MASK) << 3;
        let bit = (first >> BIT_SHIFT & 63) as u32;
        let change = match first >> OP_SHIFT {
            OP_SET => {
                let (&value, tail) = tail.split_first()?;
                rest = tail;
                return Some(Entry { at, change: Change::Set(value) });
            }
            OP_BIT_SET => Change::SetBit(bit),
            OP_BIT_CLEAR => Change::ClearBit(bit),
            _ => return None,
        };
        rest = tail;
        Some(Entry { at, change })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Kind = Kind { linked: false, long: false };
    const LINKED: Kind = Kind { linked: true, long: false };

    #[test]
    fn entries_read_back_as_they_were_written() {
        let all = [
            Entry { at: 4096, change: Change::Set(u64::MAX) },
            Entry { at: (1 << 47) + 8, change: Change::SetBit(63) },
            Entry { at: 8, change: Change::ClearBit(0) },
        ];
        let mut words = Vec::new();
        all.iter().for_each(|e| e.encode(&mut words));
        assert_eq!(entries(&words).collect::<Vec<_>>(), all);
    }

    #[test]
    fn a_sealed_header_parses_and_its_checksum_holds() {
        let header = RecordHeader { epoch: 3, seq: 99, kind: LINKED, lsn: 5, words: 7, fresh: 1 };
        let mut record = vec![0, 0, 0, 0, 11, 12, 13];
        header.seal(&mut record);
        let first = [record[0], record[1], record[2], record[3]];
        assert_eq!(RecordHeader::parse(&first, 64), Some(header));
        assert_eq!(checksum(&record), record[0] as u32);
        record[6] ^= 1 << 40;
        assert_ne!(checksum(&record), record[0] as u32);
    }

    #[test]
    fn a_header_longer_than_a_part_or_shorter_than_its_ranges_is_none() {
        let header = RecordHeader { epoch: 3, seq: 9, kind: ALONE, lsn: 5, words: 9, fresh: 3 };
        let mut record = vec![0; 9];
        header.seal(&mut record);
        let first = [record[0], record[1], record[2], record[3]];
        assert_eq!(RecordHeader::parse(&first, 64), None);
        assert_eq!(RecordHeader::parse(&first, 8), None);
    }
}
