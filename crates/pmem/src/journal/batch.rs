//! A batch: the words that threads flushed and fenced since the previous batch, written at once.
//!
//! One header and one checksum serve all fences that came together, so that a fence costs no more
//! than a copy of its words. The checksum begins with the pool's identifier: bytes that a client
//! stored in a value and that look like a batch are not one. Nor do they cause any further reads: a
//! header has its own check, over the journal's number, which is random.
//!
//! ```text
//! 0   magic "PJBATCH\0"                       8
//! 8   crc32c u32 of the uuid and 12..length   4
//! 12  length u32, without the padding         4
//! 16  incarnation                             8
//! 24  sequence number                         8
//! 32  synced: all batches before this one     8
//!     were synced when this was written
//! 40  check u64: crc64 of the journal's       8
//!     number and 12..40
//! 48  unit u64: bytes of a word, 8; 0 where    8
//!     ranges are of lines of 64 bytes
//! 56  zero                                    8
//! 64  ranges: first word << 16 | words        8
//!             their bytes                     8 each
//! ..  padding up to a line, or to a block: see `writer.rs`
//! ```

use super::layout::array;
use super::superblock::JournalId;
use crate::fault_points::FaultPoint;
use crate::lines::LINE;
use crc_fast::{CrcAlgorithm, Digest};

pub(crate) const MAGIC: [u8; 8] = *b"PJBATCH\0";
/// Bytes of the header.
pub(crate) const HEADER: usize = 64;
/// Bytes before those of a range's words.
pub(crate) const RANGE_HEAD: usize = 8;
/// Bytes of a word.
pub(crate) const WORD: u64 = 8;
const CHECK: usize = 40;
const UNIT: usize = CHECK + size_of::<u64>();
const RESERVED: usize = UNIT + size_of::<u64>();
/// The unit in formats 1 to 4, whose ranges are of lines.
const LINES: u64 = 0;
/// Maximum number of words in one range.
const MOST_WORDS: u64 = u16::MAX as u64;
/// Maximum number of words in a region.
const MOST_WORD: u64 = 1 << 48;

/// The content of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub(crate) incarnation: u64,
    pub(crate) sequence: u64,
    pub(crate) synced: u64,
    /// Bytes of header and ranges.
    pub(crate) len: usize,
}

/// How to tell the headers of a journal's batches from other bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderRules {
    /// The journal's number, with which the check of a header begins.
    pub(crate) number: u64,
    /// Sequence number of the first batch whose header has a check. In formats 1 to 3 it is zero.
    pub(crate) checked_from: u64,
    /// Maximum number of bytes of a batch.
    pub(crate) longest: u64,
}

impl BatchHeader {
    /// Returns the header in these bytes; the checksum tells whether the rest of the batch is
    /// whole.
    pub(crate) fn parse(raw: &[u8; HEADER], rules: &HeaderRules) -> Option<BatchHeader> {
        let u64_at = |at: usize| u64::from_le_bytes(array(raw, at));
        let header = BatchHeader {
            len: u32::from_le_bytes(array(raw, 12)) as usize,
            incarnation: u64_at(16),
            sequence: u64_at(24),
            synced: u64_at(32),
        };
        let may_be = raw[..8] == MAGIC
            && raw[RESERVED..].iter().all(|byte| *byte == 0)
            && matches!(u64_at(UNIT), LINES | WORD)
            && (HEADER..=rules.longest as usize).contains(&header.len);
        if !may_be {
            return None;
        }
        let is_checked = header.sequence >= rules.checked_from;
        let check = if is_checked { check_of(rules.number, raw) } else { 0 };
        (u64_at(CHECK) == check).then_some(header)
    }

    /// Returns the minimum number of bytes that the batch takes in the ring.
    pub(crate) fn space(&self) -> u64 {
        (self.len as u64).next_multiple_of(LINE)
    }
}

/// Words of the region: the number of the first one, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordRange {
    pub(crate) first: u64,
    pub(crate) words: u64,
}

impl WordRange {
    /// Returns the offset of the first byte, and the number of bytes.
    pub(crate) fn bytes(&self) -> (u64, usize) {
        (self.first * WORD, (self.words * WORD) as usize)
    }

    /// Returns true if a word is one of these.
    pub(crate) fn contains(&self, word: u64) -> bool {
        (self.first..self.first + self.words).contains(&word)
    }

    /// Cuts off as many words as fit into `len` bytes of a batch.
    pub(crate) fn cut(&mut self, len: usize) -> Option<WordRange> {
        let space = len.saturating_sub(RANGE_HEAD) as u64 / WORD;
        let words = self.words.min(space).min(MOST_WORDS);
        let cut = WordRange { first: self.first, words };
        self.first += words;
        self.words -= words;
        (words > 0).then_some(cut)
    }
}

/// A batch under construction.
#[derive(Debug)]
pub(crate) struct BatchBuffer {
    bytes: Vec<u8>,
}

impl Default for BatchBuffer {
    fn default() -> BatchBuffer {
        BatchBuffer { bytes: vec![0; HEADER] }
    }
}

impl BatchBuffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER
    }

    /// Returns the number of bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a range; `copy` appends its bytes.
    #[inline]
    pub(crate) fn push(&mut self, range: WordRange, copy: impl FnOnce(&mut Vec<u8>)) {
        debug_assert!((1..=MOST_WORDS).contains(&range.words) && range.first < MOST_WORD);
        self.bytes.extend_from_slice(&(range.first << 16 | range.words).to_le_bytes());
        let from = self.bytes.len();
        copy(&mut self.bytes);
        debug_assert_eq!(self.bytes.len() - from, range.bytes().1);
    }

    /// Completes the batch with its header, its checksum, and padding of this length. Returns all
    /// of its bytes.
    pub(crate) fn finish(
        &mut self,
        id: &JournalId,
        sequences: BatchHeader,
        padding: usize,
    ) -> &[u8] {
        let len = self.bytes.len();
        let mut put =
            |at: usize, bytes: &[u8]| self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(12, &(len as u32).to_le_bytes());
        put(16, &sequences.incarnation.to_le_bytes());
        put(24, &sequences.sequence.to_le_bytes());
        put(32, &sequences.synced.to_le_bytes());
        let check = check_of(id.journal, &self.bytes);
        self.bytes[CHECK..UNIT].copy_from_slice(&check.to_le_bytes());
        self.bytes[UNIT..RESERVED].copy_from_slice(&WORD.to_le_bytes());
        let crc = checksum_of(&id.pool, &self.bytes);
        self.bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        self.bytes.resize(len + padding, 0);
        &self.bytes
    }

    /// Empties the buffer, for the next batch.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(HEADER, 0);
    }
}

/// Returns true if the bytes of a batch, header and ranges, match the checksum in the header.
pub(crate) fn has_checksum(pool: &[u8; 16], batch: &[u8]) -> bool {
    let found = u32::from_le_bytes(array(batch, 8));
    found == checksum_of(pool, batch) || !FaultPoint::VerifyBatch.is_enabled()
}

fn check_of(number: u64, header: &[u8]) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(&number.to_le_bytes());
    digest.update(&header[12..CHECK]);
    digest.finalize()
}

fn checksum_of(pool: &[u8; 16], batch: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(pool);
    digest.update(&batch[12..]);
    digest.finalize() as u32
}

/// A range and its bytes.
pub(crate) type RangeBytes<'b> = (WordRange, &'b [u8]);

/// Returns the ranges of a batch with their bytes; `None` if they do not fill it exactly.
pub(crate) fn ranges(batch: &[u8]) -> Option<Vec<RangeBytes<'_>>> {
    let mut rest = batch.get(HEADER..)?;
    let words_of_unit = match u64::from_le_bytes(array(batch, UNIT)) {
        LINES => LINE / WORD,
        _ => 1,
    };
    let mut ranges = Vec::new();
    while !rest.is_empty() {
        let (head, after) = rest.split_first_chunk::<RANGE_HEAD>()?;
        let word = u64::from_le_bytes(*head);
        let (first, units) = (word >> 16, word & MOST_WORDS);
        let range = WordRange { first: first * words_of_unit, words: units * words_of_unit };
        if range.words == 0 {
            return None;
        }
        let (bytes, after) = after.split_at_checked(range.bytes().1)?;
        ranges.push((range, bytes));
        rest = after;
    }
    Some(ranges)
}

const _: () = {
    assert!(CHECK == 32 + size_of::<u64>() && RESERVED < HEADER);
    assert!(RANGE_HEAD == size_of::<u64>() && WORD as usize == size_of::<u64>());
    // No region has more words than a range can address.
    assert!(MOST_WORD <= 1 << (64 - 16));
};

#[cfg(test)]
pub(crate) mod tests {
    use super::super::layout::BLOCK;
    use super::*;
    use proptest::prelude::*;

    pub(crate) const POOL: [u8; 16] = [7; 16];
    pub(crate) const ID: JournalId = JournalId { pool: POOL, journal: 3 };
    pub(crate) const RULES: HeaderRules =
        HeaderRules { number: ID.journal, checked_from: 0, longest: 1 << 20 };

    pub(crate) fn header(incarnation: u64, sequence: u64, synced: u64) -> BatchHeader {
        BatchHeader { incarnation, sequence, synced, len: 0 }
    }

    /// Returns a finished batch with these words, each filled with one byte.
    pub(crate) fn batch(sequences: BatchHeader, words: &[(u64, u64, u8)]) -> Vec<u8> {
        with_id(&ID, sequences, words)
    }

    /// Returns such a batch for some journal.
    pub(crate) fn with_id(
        id: &JournalId,
        sequences: BatchHeader,
        words: &[(u64, u64, u8)],
    ) -> Vec<u8> {
        let mut buffer = BatchBuffer::default();
        for &(first, words, fill) in words {
            let range = WordRange { first, words };
            buffer.push(range, |out| out.resize(out.len() + range.bytes().1, fill));
        }
        let padding = buffer.len().next_multiple_of(BLOCK as usize) - buffer.len();
        buffer.finish(id, sequences, padding).to_vec()
    }

    fn parse(bytes: &[u8]) -> Option<(BatchHeader, Vec<RangeBytes<'_>>)> {
        let header = BatchHeader::parse(bytes.first_chunk()?, &RULES)?;
        let whole = bytes.get(..header.len)?;
        has_checksum(&POOL, whole).then_some(())?;
        Some((header, ranges(whole)?))
    }

    #[test]
    fn a_batch_reads_back_as_it_was_written() {
        let bytes = batch(header(3, 9, 8), &[(1, 1, 5), (70_000, 3, 6)]);
        assert_eq!(bytes.len(), BLOCK as usize);
        let (found, ranges) = parse(&bytes).unwrap();
        assert_eq!((found.incarnation, found.sequence, found.synced), (3, 9, 8));
        assert_eq!(found.space(), 128);
        assert_eq!(ranges.len(), 2);
        assert_eq!(ranges[1], (WordRange { first: 70_000, words: 3 }, &[6; 24][..]));
    }

    #[test]
    fn ranges_of_older_formats_are_of_lines() {
        let mut bytes = batch(header(3, 9, 8), &[(2, 8, 5), (70_000, 16, 6)]);
        bytes[UNIT..RESERVED].fill(0);
        for (at, lines) in [(HEADER, 1), (HEADER + RANGE_HEAD + 64, 2)] {
            bytes[at..at + 2].copy_from_slice(&u16::to_le_bytes(lines));
        }
        let len = BatchHeader::parse(bytes.first_chunk().unwrap(), &RULES).unwrap().len;
        let expected = [
            (WordRange { first: 16, words: 8 }, &[5; 64][..]),
            (WordRange { first: 560_000, words: 16 }, &[6; 128][..]),
        ];
        assert_eq!(ranges(&bytes[..len]).unwrap(), expected);
        // A batch with any other unit is none.
        bytes[UNIT] = 16;
        assert_eq!(BatchHeader::parse(bytes.first_chunk().unwrap(), &RULES), None);
    }

    #[test]
    fn a_buffer_is_used_again() {
        let mut buffer = BatchBuffer::default();
        for _ in 0..2 {
            assert!(buffer.is_empty());
            buffer.push(WordRange { first: 4, words: 1 }, |out| out.extend([1; 8]));
            let bytes = buffer.finish(&ID, header(1, 2, 1), 5).to_vec();
            assert_eq!(bytes, batch(header(1, 2, 1), &[(4, 1, 1)])[..bytes.len()]);
            assert_eq!(bytes[bytes.len() - 6..], [1, 0, 0, 0, 0, 0]);
            buffer.clear();
        }
    }

    #[test]
    fn a_range_is_cut_into_what_batches_have_space_for() {
        let mut range = WordRange { first: 10, words: 100_000 };
        assert_eq!(range.cut(RANGE_HEAD + 7), None);
        assert_eq!(range.cut(RANGE_HEAD + 17), Some(WordRange { first: 10, words: 2 }));
        assert_eq!(range.cut(usize::MAX), Some(WordRange { first: 12, words: MOST_WORDS }));
        assert_eq!(range.cut(usize::MAX).unwrap().words, 100_000 - 2 - MOST_WORDS);
        assert_eq!(range.cut(usize::MAX), None);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let whole = batch(header(1, 2, 1), &[(4, 1, 1)]);
        let len = parse(&whole).unwrap().0.len;
        for bit in 0..8 * len {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&bytes).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn a_batch_of_another_pool_has_another_checksum() {
        let whole = batch(header(1, 2, 1), &[(4, 1, 1)]);
        let len = parse(&whole).unwrap().0.len;
        assert!(!has_checksum(&[8; 16], &whole[..len]));
    }

    #[test]
    fn a_header_of_another_journal_is_none_and_one_of_an_older_format_has_no_check() {
        let whole = batch(header(1, 2, 1), &[(4, 1, 1)]);
        let is_header = |bytes: &[u8], number, checked_from| {
            let rules = HeaderRules { number, checked_from, ..RULES };
            BatchHeader::parse(bytes.first_chunk().unwrap(), &rules).is_some()
        };
        let number = ID.journal;
        let found = [number, number + 1].map(|number| is_header(&whole, number, 2));
        assert_eq!(found, [true, false]);
        let mut older = whole.clone();
        older[CHECK..UNIT].fill(0);
        assert_eq!([2, 3].map(|from| is_header(&older, number, from)), [false, true]);
        assert_eq!([2, 3].map(|from| is_header(&whole, number, from)), [true, false]);
    }

    proptest! {
        /// A batch with a right checksum and senseless content is refused, and nothing panics.
        #[test]
        fn random_ranges_are_taken_whole_or_not_at_all(
            body in prop::collection::vec(any::<u8>(), 0..400),
            len in 0..2000usize,
        ) {
            let mut bytes = vec![0; HEADER];
            bytes.extend_from_slice(&body);
            if let Some(found) = ranges(&bytes) {
                let taken: usize = found.iter().map(|(_, bytes)| RANGE_HEAD + bytes.len()).sum();
                prop_assert_eq!(taken, body.len());
            }
            bytes[..8].copy_from_slice(&MAGIC);
            bytes[12..16].copy_from_slice(&(len as u32).to_le_bytes());
            prop_assert!(parse(&bytes).is_none());
        }
    }

    #[test]
    fn as_many_words_are_cut_off_as_there_is_space_for() {
        const WORDS: u64 = 65536;
        for (words, space, cut) in [
            (1, 15, 0),
            (1, 16, 1),
            (2, 16, 1),
            (2, 23, 1),
            (2, 24, 2),
            (9, 0, 0),
            (WORDS - 2, usize::MAX, WORDS - 2),
            (WORDS - 1, usize::MAX, WORDS - 1),
            (WORDS, usize::MAX, WORDS - 1),
            (WORDS + 1, usize::MAX, WORDS - 1),
        ] {
            let mut rest = WordRange { first: 7, words };
            let found = rest.cut(space);
            assert_eq!(found, (cut > 0).then_some(WordRange { first: 7, words: cut }), "{words}");
            assert_eq!(rest, WordRange { first: 7 + cut, words: words - cut }, "{words}");
        }
    }
}
