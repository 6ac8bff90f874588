//! A shard's redo log: a ring of parts in the pool, and how far it has been written.
//!
//! A record does not cross a part's end. There is no padding: a reader that finds no record after
//! the last one looks at the start of the next part, where only a record with the expected sequence
//! number counts.
//!
//! Before a part is overwritten, its records are *retired*: every word that they changed is flushed
//! and fenced, and the tail moves past them. The units of these flushes, lines or words, are
//! remembered in DRAM; the records are not read again.
//!
//! Records are retired by *sections*: a section is the records of a part, up to a limit, and is
//! retired as soon as a second section has begun after it. Waiting until the ring is full would
//! save few flushes, since most units are changed by few records, and would leave more work to
//! recovery. As it is, recovery reads at most two sections of each ring and one record of a third.
//!
//! Retiring happens inside commits and uses their fences. The commit that begins a section flushes
//! the units of the one before the last; its fence completes that. The shard's next commit stores
//! the tail and flushes it; its fence makes the tail durable, and only then may the space that the
//! tail left be written. If that very commit enters the part that the tail leaves, as when each
//! record takes a part of its own, it fences first.

#![allow(unsafe_code, reason = "the tail is stored in the pool")]

use super::record::{self, HEADER_WORDS, RecordHeader, SEQ_MASK};
use crate::fault_points::{self, FaultPoint};
use crate::layout::{Geometry, LINE, SPAN};
use pmem::Region;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// A place in a ring, in lines from its start.
pub(crate) type LineIndex = u64;

/// How many units are remembered as listed, so that a hot one is listed only once.
const LISTED: usize = 256;

/// Bytes of records that fill a section: the limits for one shard, and the total that the shards
/// share. Small enough for a short recovery, large enough that the fence that completes a
/// retirement is one of many.
const SECTION: RangeInclusive<usize> = 2 << 10..=8 << 10;
const SECTIONS: usize = 32 << 10;
/// In a ring of small parts, which tests use, sections are smaller still, so that a part has
/// several.
const SMALL_SECTION: usize = 128;

fn section_words(geometry: &Geometry) -> usize {
    let share = (SECTIONS / geometry.shards).clamp(*SECTION.start(), *SECTION.end());
    share.min((geometry.ring_part / 4).max(SMALL_SECTION)) / 8
}

/// Records that are retired together. They are in one part.
#[derive(Debug)]
struct Section {
    part: usize,
    /// Line of the ring and sequence number of the first record.
    first: (LineIndex, u64),
    /// Words of its records, including the bodies of long ones.
    words: usize,
    /// Offsets in the pool of the units of a flush that the records changed. One may be listed
    /// several times.
    changed: Vec<u64>,
    /// Spans with the bodies of long records.
    long: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) shard: usize,
    base: u64,
    tail_at: u64,
    fenced_at: u64,
    part_lines: u64,
    parts: usize,
    /// A section is full from this many words on.
    section_words: usize,
    /// The sections that the tail has not passed, oldest first.
    sections: VecDeque<Section>,
    /// The number of oldest sections that the last placed commit flushed; they are fenced before
    /// the next one is placed.
    flushed: usize,
    /// The part being written, and the line after its last record.
    part: usize,
    at: LineIndex,
    /// Units that the newest section has listed, each in a slot that follows from its offset.
    listed: Box<[u64; LISTED]>,
    /// An empty list of units for the next section; a reused one is still in the CPU cache.
    spare: Vec<u64>,
    /// The next record's sequence number.
    pub(crate) seq: u64,
    /// Spans with the body of the next record.
    next_long: Vec<u32>,
    /// Spans whose records the commit in progress retires: free after its fence.
    pub(crate) released: Vec<u32>,
}

/// Returns the tail word: line of the ring in the high 16 bits, sequence number of the record there
/// in the low 48.
pub(crate) fn tail_word(line: LineIndex, seq: u64) -> u64 {
    line << 48 | seq & SEQ_MASK
}

pub(crate) fn split_tail(word: u64) -> (LineIndex, u64) {
    (word >> 48, word & SEQ_MASK)
}

impl Ring {
    /// Creates a ring without records, to be written from `line` on with sequence number `seq`.
    pub(crate) fn new(geometry: &Geometry, shard: usize, line: LineIndex, seq: u64) -> Ring {
        let part_lines = geometry.ring_part as u64 / LINE;
        let lines = part_lines * geometry.ring_parts as u64;
        let at = if line >= lines { 0 } else { line };
        Ring {
            shard,
            base: geometry.ring_at(shard),
            tail_at: geometry.shard_area(shard).tail(),
            fenced_at: geometry.shard_area(shard).fenced(),
            part_lines,
            parts: geometry.ring_parts,
            section_words: section_words(geometry),
            sections: VecDeque::new(),
            flushed: 0,
            part: (at / part_lines) as usize,
            at,
            listed: Box::new([0; LISTED]),
            spare: Vec::new(),
            seq,
            next_long: Vec::new(),
            released: Vec::new(),
        }
    }

    /// Returns the maximum length of a record, in words.
    pub(crate) fn part_words(&self) -> usize {
        self.part_lines as usize * 8
    }

    /// Takes space for a record of `lines` lines and returns its offset in the pool. `words` is the
    /// number of words of the record, wherever they are. May flush lines and the tail: the caller
    /// fences on this thread before the next call.
    pub(crate) fn place(&mut self, region: &Region, lines: u64, words: usize) -> u64 {
        debug_assert!(lines <= self.part_lines);
        let left = if self.flushed > 0 { self.move_tail(region) } else { None };
        if self.at + lines > (self.part as u64 + 1) * self.part_lines {
            self.part = (self.part + 1) % self.parts;
            self.at = self.part as u64 * self.part_lines;
            let is_free = self.sections.iter().all(|section| section.part != self.part);
            assert!(is_free || !FaultPoint::RetireAhead.is_enabled());
            if left == Some(self.part) {
                fault_points::fence(region, FaultPoint::FenceTail);
            }
            self.begin_section(region);
        } else if self.sections.back().is_none_or(|newest| newest.words >= self.section_words) {
            self.begin_section(region);
        }
        if let Some(newest) = self.sections.back_mut() {
            newest.words += words;
            newest.long.append(&mut self.next_long);
        }
        let at = self.at;
        self.at = at + lines;
        self.seq += 1;
        self.base + at * LINE
    }

    /// Begins to retire all sections but the newest, and starts a new one.
    #[cold]
    fn begin_section(&mut self, region: &Region) {
        if FaultPoint::RetireAhead.is_enabled() {
            self.flush_oldest(region, self.sections.len().saturating_sub(1));
        }
        if !FaultPoint::FenceRetired.is_enabled() {
            self.move_tail(region);
        }
        self.listed.fill(0);
        self.sections.push_back(Section {
            part: self.part,
            first: (self.at, self.seq),
            words: 0,
            changed: std::mem::take(&mut self.spare),
            long: Vec::new(),
        });
    }

    /// Records that the last placed record changes the words at these offsets.
    #[inline]
    pub(crate) fn changes(&mut self, region: &Region, words: impl Iterator<Item = u64>) {
        let Some(Section { changed, .. }) = self.sections.back_mut() else { return };
        let unit = region.flush_unit();
        for at in words.map(|at| at & !(unit - 1)) {
            let slot = (at >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
            if std::mem::replace(&mut self.listed[slot as usize], at) != at {
                changed.push(at);
            }
        }
    }

    /// Keeps a span with the body of the next record until that record is retired.
    pub(crate) fn hold_next(&mut self, span: u32) {
        if FaultPoint::HoldLong.is_enabled() {
            self.next_long.push(span);
        } else {
            self.released.push(span);
        }
    }

    /// Returns true if the ring keeps spans with bodies of records.
    pub(crate) fn holds_long(&self) -> bool {
        self.sections.iter().any(|section| !section.long.is_empty())
    }

    /// Returns true if there are records that recovery would read.
    pub(crate) fn has_records(&self) -> bool {
        !self.sections.is_empty()
    }

    /// Reclaims the spans of a record that will not be placed.
    pub(crate) fn take_next_long(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.next_long)
    }

    /// Retires every record. The tail is flushed, not fenced. Durable before it is the hint that
    /// the newest record was fenced: it shows a salvage that the tail is right, should that record
    /// be lost.
    pub(crate) fn retire_all(&mut self, region: &Region) {
        if self.sections.is_empty() {
            return;
        }
        self.flush_oldest(region, self.sections.len());
        fault_points::flush(region, self.fenced_at, 8, FaultPoint::FlushFenced);
        fault_points::fence(region, FaultPoint::FenceRetired);
        self.move_tail(region);
    }

    /// Flushes what the oldest `count` sections changed; after a fence of this thread the
    /// tail may pass them.
    fn flush_oldest(&mut self, region: &Region, count: usize) {
        for section in self.sections.iter_mut().take(count) {
            if FaultPoint::FlushRetired.is_enabled() {
                region.flush_units(&section.changed);
            }
            section.changed.clear();
            self.spare = std::mem::take(&mut section.changed);
        }
        self.flushed = count;
    }

    /// Moves the tail past the sections that were flushed and have been fenced since. The tail is
    /// flushed, not fenced. Returns the part of the newest of these sections.
    #[cold]
    fn move_tail(&mut self, region: &Region) -> Option<usize> {
        let mut left = None;
        for mut section in self.sections.drain(..self.flushed) {
            left = Some(section.part);
            self.released.append(&mut section.long);
        }
        self.flushed = 0;
        if region.failed() {
            // The words may be lost: the log is still needed. The heap takes no further commit.
            return left;
        }
        let tail = self.tail();
        // SAFETY: the tail belongs to this shard, whose lock the caller holds.
        unsafe { region.store(self.tail_at, tail) };
        fault_points::flush(region, self.tail_at, 8, FaultPoint::FlushTail);
        left
    }

    /// Returns the tail word for the records that have not been retired.
    pub(crate) fn tail(&self) -> u64 {
        let (line, seq) = self.sections.front().map_or((self.at, self.seq), |oldest| oldest.first);
        tail_word(line, seq)
    }
}

/// Returns the header of the record at `at`, if it can be one.
pub(crate) fn read_header(region: &Region, at: u64, part_words: usize) -> Option<RecordHeader> {
    let mut words = [0; HEADER_WORDS];
    for (i, word) in words.iter_mut().enumerate() {
        *word = region.load(at + i as u64 * 8);
    }
    RecordHeader::parse(&words, part_words)
}

/// Reads all words of the record at `at`.
pub(crate) fn read_words(region: &Region, at: u64, words: usize, out: &mut Vec<u64>) {
    out.clear();
    out.extend((0..words as u64).map(|i| region.load(at + i * 8)));
}

/// The body of a long record: where its entries are.
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

    /// Reads the entries.
    pub(crate) fn read(&self, region: &Region) -> Vec<u64> {
        let words = self.pieces.iter().flat_map(|&(at, len, _)| {
            (0..u64::from(len) / 8).map(move |i| region.load(at + i * 8))
        });
        words.take(self.words).collect()
    }

    /// Returns true if the checksum of every piece matches.
    pub(crate) fn is_whole(&self, region: &Region) -> bool {
        let mut words = Vec::new();
        self.pieces.iter().all(|&(at, len, crc)| {
            read_words(region, at, len as usize / 8, &mut words);
            record::checksum_words(0, &words) == crc
        })
    }
}
