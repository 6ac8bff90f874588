//! The format of a record in a shard's redo log.
//!
//! A record begins on a line of the ring and takes whole lines. All fields are little endian.
//!
//! ```text
//! 0   crc32c u32   of bytes 4.. of the record (bytes after its last word are not part of it)
//! 4   epoch u32
//! 8   sequence number (48 bits) | length of the record in words, header included << 48
//! 16  LSN (56 bits) | kind << 56
//! 24  link, if it is one of several: shard << 48 | sequence number
//! ..  entries
//! ```
//!
//! An entry is one or two words; the high four bits of the first are its type. A *change* names a
//! word by `offset / 8` in the low 45 bits: `SET` (the value follows), or one bit set or cleared
//! (bit number in bits 48 to 53). All are idempotent. A *fresh range* is bytes that the transaction
//! publishes: `FRESH` has their offset in the low 48 bits, and bit 59 if they had a fence of their
//! own; `PUBLISH` is a block that begins with the range, with `offset / 8` and, in bits 48 to 59,
//! the block's number in its span: its bit is set too. Length u32 | crc32c u32 follow.
//!
//! An overwriting SET takes one line: a block is published, a slot set, a bit cleared.
//!
//! A record too long for a part is *long*: its entries are in spans that are flushed with it, and
//! its body lists them: the total of words, then for each span its offset, and length u32 | crc32c
//! u32.

#![allow(unsafe_code, reason = "words are looked at as bytes")]

use crate::checksum::{crc32c, crc32c_append};
use crate::layout::SPAN;
use crate::layout::size_class::{BITMAP_AT, TABLE};

/// Words of a record's header.
pub(crate) const HEADER_WORDS: usize = 3;
/// Sequence numbers have 48 bits.
pub(crate) const SEQ_MASK: u64 = (1 << 48) - 1;

const LSN_MASK: u64 = (1 << 56) - 1;
const WORD_MASK: u64 = (1 << 45) - 1;
const BYTE_MASK: u64 = (1 << 48) - 1;
const OP_SHIFT: u32 = 60;
const OP_SET: u64 = 1;
const OP_BIT_SET: u64 = 2;
const OP_BIT_CLEAR: u64 = 3;
const OP_FRESH: u64 = 4;
const OP_PUBLISH: u64 = 5;
/// Position of the number of a bit, or of a block.
const NUMBER_SHIFT: u32 = 48;
/// A fresh range whose bytes had a fence of their own before the record was written.
const UNVERIFIED: u64 = 1 << 59;

/// A block's number has 12 bits.
const _: () = assert!(TABLE[0].count <= 1 << 12);

/// The kind of a record, by its bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RecordKind {
    /// One of the records of a transaction over several shards: its first word after the header is
    /// its link.
    pub(crate) linked: bool,
    /// Its fresh ranges and entries are in spans.
    pub(crate) long: bool,
}

impl RecordKind {
    const RECORD: u8 = 1;
    const LINKED: u8 = 2;
    const LONG: u8 = 4;

    fn raw(self) -> u8 {
        Self::RECORD | (u8::from(self.linked) * Self::LINKED) | (u8::from(self.long) * Self::LONG)
    }

    fn from_raw(raw: u8) -> Option<RecordKind> {
        let known = raw & !(Self::LINKED | Self::LONG) == Self::RECORD;
        known.then_some(RecordKind { linked: raw & Self::LINKED != 0, long: raw & Self::LONG != 0 })
    }

    /// Returns the number of words of the header, including the link.
    pub(crate) fn header_words(self) -> usize {
        HEADER_WORDS + usize::from(self.linked)
    }
}

/// The next record of a transaction over several shards: its shard, and its sequence number there.
/// The links of all its records form a circle.
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
    pub(crate) kind: RecordKind,
    /// Log sequence number; all records of one transaction have the same one.
    pub(crate) lsn: u64,
    pub(crate) words: usize,
}

impl RecordHeader {
    /// Writes the header over the first words of `record`, whose body is complete, and the checksum
    /// of the whole record.
    pub(crate) fn write_checksummed(&self, record: &mut [u64]) {
        debug_assert_eq!(record.len(), self.words);
        let [first, second, third, ..] = record else { return };
        *first = u64::from(self.epoch) << 32;
        *second = self.seq & SEQ_MASK | (self.words as u64) << 48;
        *third = self.lsn & LSN_MASK | u64::from(self.kind.raw()) << 56;
        record[0] |= u64::from(checksum(record));
    }

    /// Reads a header; `None` if it cannot be one. Does not verify the checksum.
    pub(crate) fn parse(words: &[u64; HEADER_WORDS], part_words: usize) -> Option<RecordHeader> {
        let header = RecordHeader {
            epoch: (words[0] >> 32) as u32,
            seq: words[1] & SEQ_MASK,
            kind: RecordKind::from_raw((words[2] >> 56) as u8)?,
            lsn: words[2] & LSN_MASK,
            words: (words[1] >> 48) as usize,
        };
        (header.kind.header_words()..=part_words).contains(&header.words).then_some(header)
    }

    /// Returns the number of lines that the record takes in the ring.
    pub(crate) fn lines(&self) -> usize {
        self.words.div_ceil(8)
    }
}

/// Returns the checksum of a record, which covers everything but its own four bytes.
pub(crate) fn checksum(record: &[u64]) -> u32 {
    crc32c(&bytes_of(record)[4..])
}

/// Returns the CRC-32C of words in little-endian order, continued from `crc`.
pub(crate) fn checksum_words(crc: u32, words: &[u64]) -> u32 {
    crc32c_append(crc, bytes_of(words))
}

/// Returns the words as bytes, as they are in the pool.
pub(crate) fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: the bytes of the words, of which every one is initialised; any byte is a `u8`.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Pools are little endian, and words are copied as they are in memory.
const _: () = assert!(cfg!(target_endian = "little"));

/// Bytes that a transaction publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FreshRange {
    pub(crate) at: u64,
    pub(crate) len: u32,
    pub(crate) crc: u32,
    /// Whether recovery verifies the checksum: not for bytes that had a fence of their own.
    pub(crate) verified: bool,
}

impl FreshRange {
    /// Appends the range to a record's body.
    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u64>) {
        let mark = if self.verified { 0 } else { UNVERIFIED };
        out.extend_from_slice(&[self.at | mark | OP_FRESH << OP_SHIFT, self.length_and_crc()]);
    }

    /// Like [`FreshRange::encode`], for a range that is block number `index` of its span; the block
    /// becomes allocated.
    #[inline]
    pub(crate) fn encode_published(&self, index: u16, out: &mut Vec<u64>) {
        let number = u64::from(index) << NUMBER_SHIFT;
        out.extend_from_slice(&[
            self.at >> 3 | number | OP_PUBLISH << OP_SHIFT,
            self.length_and_crc(),
        ]);
    }

    fn length_and_crc(&self) -> u64 {
        u64::from(self.len) | u64::from(self.crc) << 32
    }

    fn decode(first: u64, length_and_crc: u64) -> Option<FreshRange> {
        let (at, verified) = match first >> OP_SHIFT {
            OP_FRESH => (first & BYTE_MASK, first & UNVERIFIED == 0),
            OP_PUBLISH => ((first & WORD_MASK) << 3, true),
            _ => return None,
        };
        Some(FreshRange {
            at,
            len: length_and_crc as u32,
            crc: (length_and_crc >> 32) as u32,
            verified,
        })
    }
}

/// The change of one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Set(u64),
    SetBit(u32),
    ClearBit(u32),
}

/// One entry: the word at `at` and its change.
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
        let of_bit = |bit: u32, op: u64| at | u64::from(bit) << NUMBER_SHIFT | op << OP_SHIFT;
        match self.change {
            Change::Set(value) => out.extend_from_slice(&[at | OP_SET << OP_SHIFT, value]),
            Change::SetBit(bit) => out.push(of_bit(bit, OP_BIT_SET)),
            Change::ClearBit(bit) => out.push(of_bit(bit, OP_BIT_CLEAR)),
        }
    }

    #[inline(always)]
    fn decode(first: u64, second: u64) -> Option<Entry> {
        let at = (first & WORD_MASK) << 3;
        let number = first >> NUMBER_SHIFT & 0xfff;
        let bit = (number % 64) as u32;
        Some(match first >> OP_SHIFT {
            OP_SET => Entry { at, change: Change::Set(second) },
            OP_BIT_SET => Entry { at, change: Change::SetBit(bit) },
            OP_BIT_CLEAR => Entry { at, change: Change::ClearBit(bit) },
            OP_PUBLISH => {
                let word = (at & !(SPAN - 1)) + BITMAP_AT + number / 64 * 8;
                Entry { at: word, change: Change::SetBit(bit) }
            }
            _ => return None,
        })
    }

    /// Returns the word's new value.
    #[inline]
    pub(crate) fn applied_to(&self, old: u64) -> u64 {
        Word::from(*self).applied_to(old)
    }
}

/// A change in a form that is applied without branches, whatever its kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    pub(crate) at: u64,
    keep: u64,
    bits: u64,
}

impl Word {
    /// Returns true if a bit of a bitmap changes.
    pub(crate) fn is_bit(&self) -> bool {
        self.keep != 0
    }

    /// Returns the word's new value.
    #[inline(always)]
    pub(crate) fn applied_to(&self, old: u64) -> u64 {
        old & self.keep | self.bits
    }
}

impl From<Entry> for Word {
    #[inline(always)]
    fn from(Entry { at, change }: Entry) -> Word {
        let (keep, bits) = match change {
            Change::Set(value) => (0, value),
            Change::SetBit(bit) => (!0, 1 << bit),
            Change::ClearBit(bit) => (!(1 << bit), 0),
        };
        Word { at, keep, bits }
    }
}

/// Returns the changes of words in a record's body, in order; stops at the first word that does not
/// begin an entry.
#[inline]
pub(crate) fn entries(body: &[u64]) -> impl Iterator<Item = Entry> + '_ {
    split(body).filter_map(|(first, second)| Entry::decode(first, second))
}

/// Returns the fresh ranges in a record's body.
pub(crate) fn fresh_ranges(body: &[u64]) -> impl Iterator<Item = FreshRange> + '_ {
    split(body).filter_map(|(first, second)| FreshRange::decode(first, second))
}

/// Splits a body into its entries: two words each, the second 0 for an entry of one word.
#[inline]
fn split(body: &[u64]) -> impl Iterator<Item = (u64, u64)> + '_ {
    let mut rest = body;
    std::iter::from_fn(move || {
        let (&first, tail) = rest.split_first()?;
        let (second, tail) = match first >> OP_SHIFT {
            OP_BIT_SET | OP_BIT_CLEAR => (0, tail),
            OP_SET | OP_FRESH | OP_PUBLISH => {
                let (&second, tail) = tail.split_first()?;
                (second, tail)
            }
            _ => return None,
        };
        rest = tail;
        Some((first, second))
    })
}

/// Returns the hint that record `seq` was fenced: the low half of the epoch, a check over both
/// numbers, and the low half of `seq`. It is one word and so one store: a commit pays next to
/// nothing for it.
#[inline]
pub(crate) fn fenced_word(epoch: u32, seq: u64) -> u64 {
    let seq = seq & SEQ_MASK;
    // Each bit changes the high bits of the product.
    let check = (seq ^ u64::from(epoch) << 16).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    u64::from(epoch) << 48 | check << 32 | seq & 0xffff_ffff
}

/// Returns the sequence number of a hint, given `next`, the sequence number after the last record
/// that was read. `None` if the hint is of another epoch or damaged: then nothing follows from it.
pub(crate) fn fenced_seq(word: u64, epoch: u32, next: u64) -> Option<u64> {
    let near = next & !0xffff_ffff | word & 0xffff_ffff;
    let may_be = [near, near.wrapping_add(1 << 32), near.wrapping_sub(1 << 32)];
    may_be.into_iter().map(|seq| seq & SEQ_MASK).find(|&seq| fenced_word(epoch, seq) == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_counts_while_it_is_whole_and_of_its_epoch() {
        for seq in [0, 1, 77, 0xffff_ffff, 1 << 32, (5 << 32) + 3, SEQ_MASK - 9] {
            for epoch in [1, 2, 0xffff, 0x1_0000, u32::MAX] {
                let word = fenced_word(epoch, seq);
                for next in [seq, seq + 1, seq.saturating_sub(1), seq.saturating_sub(1000)] {
                    assert_eq!(fenced_seq(word, epoch, next), Some(seq), "{seq} {epoch} {next}");
                }
                assert_eq!(fenced_seq(word, epoch ^ 1, seq), None, "{seq} {epoch}");
                for bit in 0..64 {
                    let found = fenced_seq(word ^ 1 << bit, epoch, seq + 1);
                    assert_eq!(found, None, "bit {bit} of {seq} in epoch {epoch}");
                }
            }
        }
        assert_eq!(fenced_seq(0, 1, 1), None);
    }

    const LINKED: RecordKind = RecordKind { linked: true, long: false };

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
    fn fresh_ranges_read_back_and_a_published_block_sets_its_bit() {
        let anywhere = FreshRange { at: (1 << 47) + 5, len: 7, crc: u32::MAX, verified: false };
        let block = FreshRange { at: 9 * SPAN + 136, len: u32::MAX, crc: 1, verified: true };
        let entry = Entry { at: 16, change: Change::Set(1) };
        let mut words = Vec::new();
        anywhere.encode(&mut words);
        entry.encode(&mut words);
        block.encode_published(4095, &mut words);
        assert_eq!(fresh_ranges(&words).collect::<Vec<_>>(), [anywhere, block]);
        let bit = Entry { at: 9 * SPAN + BITMAP_AT + 63 * 8, change: Change::SetBit(63) };
        assert_eq!(entries(&words).collect::<Vec<_>>(), [entry, bit]);
    }

    #[test]
    fn a_checksummed_header_parses_and_its_checksum_holds() {
        let header = RecordHeader { epoch: 3, seq: 99, kind: LINKED, lsn: 5, words: 7 };
        let mut record = vec![0, 0, 0, 10, 11, 12, 13];
        header.write_checksummed(&mut record);
        let first = [record[0], record[1], record[2]];
        assert_eq!(RecordHeader::parse(&first, 64), Some(header));
        assert_eq!(checksum(&record), record[0] as u32);
        record[6] ^= 1 << 40;
        assert_ne!(checksum(&record), record[0] as u32);
    }

    #[test]
    fn a_header_longer_than_a_part_or_shorter_than_itself_is_none() {
        let check = |words, part, expect: bool| {
            let header = RecordHeader { epoch: 3, seq: 9, kind: LINKED, lsn: 5, words };
            let mut record = vec![0; words];
            header.write_checksummed(&mut record);
            let first = [record[0], record[1], record[2]];
            assert_eq!(RecordHeader::parse(&first, part).is_some(), expect);
        };
        check(9, 9, true);
        check(9, 8, false);
        check(4, 64, true);
        check(3, 64, false);
    }
}
