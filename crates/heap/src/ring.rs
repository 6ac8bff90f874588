//! A shard's redo log: a ring of parts in the pool, and where writing stands in it.
//!
//! A record does not cross a part's end. There is no padding: a reader that finds no record behind the last one
//! looks at the next part's begin, where only a record with the expected sequence number counts.
//!
//! Before a part is written again its records are *retired*: every line with a word that they changed is flushed and
//! fenced, and the tail moves behind them. These lines are remembered in DRAM; the records are not read again. This happens one part ahead, inside a commit, so that the commit's own
//! fence makes the new tail durable before the freed part is written.

#![allow(unsafe_code, reason = "the tail is stored in the pool")]

use crate::layout::{Geometry, LINE, SPAN};
use crate::record::{self, HEADER_WORDS, RecordHeader, SEQ_MASK};
use crate::step::{self, Step};
use pmem::Region;

/// A place in a ring, in lines from its begin.
pub(crate) type LineIndex = u64;

/// How many lines a part remembers to have seen, so that hot ones are listed once.
const SEEN: usize = 256;

/// The records that one part holds and that are not retired.
#[derive(Debug)]
struct Part {
    /// Line of the ring and sequence number of the first record; none when the part is free.
    first: Option<(LineIndex, u64)>,
    /// Offsets in the pool of the lines that the records changed. One may stand here several times.
    lines: Vec<u64>,
    seen: Box<[u64; SEEN]>,
}

impl Part {
    fn new() -> Part {
        Part { first: None, lines: Vec::new(), seen: Box::new([0; SEEN]) }
    }

    fn changes(&mut self, line: u64) {
        let slot = (line >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        if std::mem::replace(&mut self.seen[slot as usize], line) != line {
            self.lines.push(line);
        }
    }

    fn clear(&mut self) {
        self.first = None;
        self.lines.clear();
        self.seen.fill(0);
    }
}

#[derive(Debug)]
pub(crate) struct Ring {
    base: u64,
    tail_at: u64,
    part_lines: u64,
    parts: Vec<Part>,
    /// The part being written, and the line behind its last record.
    part: usize,
    at: LineIndex,
    /// The next record's sequence number.
    pub(crate) seq: u64,
    /// Spans with the bodies of long records, by part.
    long: Vec<(usize, u32)>,
    next_long: Vec<u32>,
    /// Spans whose records were retired by the commit in progress: free after its fence.
    pub(crate) released: Vec<u32>,
}

/// The tail word: line of the ring in the high 16 bits, sequence number of the record there in the low 48.
pub(crate) fn tail_word(line: LineIndex, seq: u64) -> u64 {
    line << 48 | seq & SEQ_MASK
}

pub(crate) fn split_tail(word: u64) -> (LineIndex, u64) {
    (word >> 48, word & SEQ_MASK)
}

impl Ring {
    /// A ring without records, to be written from `line` on with sequence number `seq`.
    pub(crate) fn new(geometry: &Geometry, shard: usize, line: LineIndex, seq: u64) -> Ring {
        let part_lines = geometry.ring_part as u64 / LINE;
        let lines = part_lines * geometry.ring_parts as u64;
        let at = if line >= lines { 0 } else { line };
        Ring {
            base: geometry.ring_at(shard),
            tail_at: geometry.shard_area(shard).tail(),
            part_lines,
            parts: (0..geometry.ring_parts).map(|_| Part::new()).collect(),
            part: (at / part_lines) as usize,
            at,
            seq,
            long: Vec::new(),
            next_long: Vec::new(),
            released: Vec::new(),
        }
    }

    /// The longest record, in words.
    pub(crate) fn part_words(&self) -> usize {
        self.part_lines as usize * 8
    }

    /// Finds room for a record of `lines` lines and takes it: the offset in the pool. May retire a part, whose
    /// tail is then flushed but not fenced: the caller fences on this thread before the next call.
    pub(crate) fn place(&mut self, region: &Region, lines: u64) -> u64 {
        debug_assert!(lines <= self.part_lines);
        if self.at + lines > (self.part as u64 + 1) * self.part_lines {
            self.part = self.after(self.part);
            self.at = self.part as u64 * self.part_lines;
            assert!(self.parts[self.part].first.is_none() || !Step::RetireAhead.done());
            self.parts[self.part].clear();
            if Step::RetireAhead.done() {
                self.retire(region, self.after(self.part));
            }
        }
        let at = self.at;
        self.parts[self.part].first.get_or_insert((at, self.seq));
        self.at = at + lines;
        self.seq += 1;
        let part = self.part;
        self.long.extend(self.next_long.drain(..).map(|span| (part, span)));
        self.base + at * LINE
    }

    /// Notes that the record placed last changes the word at `at`.
    #[inline]
    pub(crate) fn changes(&mut self, at: u64) {
        self.parts[self.part].changes(at & !(LINE - 1));
    }

    /// Keeps a span with the body of the record placed next until that record is retired.
    pub(crate) fn hold_next(&mut self, span: u32) {
        if Step::HoldLong.done() {
            self.next_long.push(span);
        } else {
            self.released.push(span);
        }
    }

    /// Takes back the spans of a record that is not going to be placed.
    pub(crate) fn take_next_long(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.next_long)
    }

    /// Retires every record. The tail is flushed, not fenced.
    pub(crate) fn retire_all(&mut self, region: &Region) {
        for i in 1..=self.parts.len() {
            self.retire(region, (self.part + i) % self.parts.len());
        }
    }

    fn after(&self, part: usize) -> usize {
        (part + 1) % self.parts.len()
    }

    fn retire(&mut self, region: &Region, part: usize) {
        if self.parts[part].first.is_none() {
            return;
        }
        if Step::FlushRetired.done() {
            region.flush_lines(&self.parts[part].lines);
        }
        self.parts[part].clear();
        step::fence(region, Step::FenceRetired);
        let tail = self.tail();
        // SAFETY: the tail belongs to this shard, whose lock the caller holds.
        unsafe { region.store(self.tail_at, tail) };
        step::flush(region, self.tail_at, 8, Step::FlushTail);
        let released = &mut self.released;
        self.long.retain(|&(of, span)| {
            of != part || {
                released.push(span);
                false
            }
        });
    }

    /// The tail word for the records that are held.
    pub(crate) fn tail(&self) -> u64 {
        let oldest_first = (1..=self.parts.len()).map(|i| (self.part + i) % self.parts.len());
        oldest_first
            .filter_map(|part| self.parts[part].first)
            .map(|(line, seq)| tail_word(line, seq))
            .next()
            .unwrap_or_else(|| tail_word(self.at, self.seq))
    }
}

/// The header of the record at `at`, if there can be one.
pub(crate) fn read_header(region: &Region, at: u64, part_words: usize) -> Option<RecordHeader> {
    let mut words = [0; HEADER_WORDS];
    for (i, word) in words.iter_mut().enumerate() {
        *word = region.load(at + i as u64 * 8);
    }
    RecordHeader::parse(&words, part_words)
}

/// All words of the record at `at`.
pub(crate) fn read_words(region: &Region, at: u64, words: usize, out: &mut Vec<u64>) {
    out.clear();
    out.extend((0..words as u64).map(|i| region.load(at + i * 8)));
}

/// What a long record's body says: where its entries lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LongBody {
    pub(crate) words: usize,
    /// Offset, length in bytes and checksum of each piece.
    pub(crate) pieces: Vec<(u64, u32, u32)>,
}

impl LongBody {
    pub(crate) fn encode(&self, out: &mut Vec<u64>) {
        out.push(self.words as u64);
        for &(at, len, crc) in &self.pieces {
            out.extend([at, u64::from(len) | u64::from(crc) << 32]);
        }
    }

    pub(crate) fn parse(body: &[u64]) -> Option<LongBody> {
        let (&words, pieces) = body.split_first()?;
        let pieces: Vec<_> = pieces
            .chunks_exact(2)
            .map(|piece| (piece[0], piece[1] as u32, (piece[1] >> 32) as u32))
            .collect();
        let sound = pieces.iter().all(|piece| u64::from(piece.1) <= SPAN);
        sound.then_some(LongBody { words: words as usize, pieces })
    }

    /// The entries.
    pub(crate) fn read(&self, region: &Region) -> Vec<u64> {
        let words = self.pieces.iter().flat_map(|&(at, len, _)| {
            (0..u64::from(len) / 8).map(move |i| region.load(at + i * 8))
        });
        words.take(self.words).collect()
    }

    /// Whether each piece has its checksum.
    pub(crate) fn is_whole(&self, region: &Region) -> bool {
        let mut words = Vec::new();
        self.pieces.iter().all(|&(at, len, crc)| {
            read_words(region, at, len as usize / 8, &mut words);
            record::checksum_words(0, &words) == crc
        })
    }
}
