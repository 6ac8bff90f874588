//! Reading a shard's log after a crash: which records are believed.
//!
//! From the tail on, records count while epoch, sequence number and checksum hold. The newest one may have reached
//! the medium before its fence: it is believed only if its fresh ranges match, or, for a part of a transaction over
//! several shards, if its commit slot or marker says so. The fence of every earlier one has completed.

#![allow(unsafe_code, reason = "published bytes are read to compare their checksum")]

use crate::error::OpenError;
use crate::layout::{COMMIT_SLOTS, Geometry, LINE, SLOTS_AT};
use crate::record::{self, FreshRange, Kind, RecordHeader, SEQ_MASK};
use crate::ring::{LineIndex, LongBody, read_header, read_words, split_tail};
use crate::step::{self, Step};
use pmem::Region;
use std::collections::HashSet;

/// A record in the log.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) at: u64,
    pub(crate) header: RecordHeader,
    /// Fresh ranges and entries, wherever they lie.
    pub(crate) fresh: Vec<FreshRange>,
    pub(crate) entries: Vec<u64>,
    /// The body's pieces of a long record.
    pub(crate) long: Option<LongBody>,
}

/// The believed part of a shard's log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) records: Vec<Found>,
    /// Line behind the last believed record, and the next sequence number.
    pub(crate) end: LineIndex,
    pub(crate) seq: u64,
}

/// Ids of the transactions over several shards that the commit slots call committed.
pub(crate) fn committed(region: &Region, epoch: u32) -> HashSet<u64> {
    (0..COMMIT_SLOTS as u64)
        .filter_map(|slot| {
            let words: [u64; 3] =
                std::array::from_fn(|i| region.load(SLOTS_AT + slot * LINE + 8 * i as u64));
            (words == crate::commit_many::slot_words(epoch, words[1], words[2])).then_some(words[1])
        })
        .collect()
}

/// Reads the log of one shard.
pub(crate) fn shard(
    region: &Region,
    geometry: &Geometry,
    shard: usize,
    epoch: u32,
    committed: &HashSet<u64>,
) -> Result<Log, OpenError> {
    let reader = Reader { region, geometry, shard, epoch };
    let (tail, seq) = split_tail(region.load(geometry.shard_area(shard).tail()));
    let mut log = reader.read(tail % reader.lines(), seq);
    reader.check_end(&log)?;
    reader.judge_newest(&mut log, committed, tail % reader.lines())?;
    Ok(log)
}

struct Reader<'a> {
    region: &'a Region,
    geometry: &'a Geometry,
    shard: usize,
    epoch: u32,
}

impl Reader<'_> {
    fn lines(&self) -> u64 {
        self.geometry.ring_bytes() / LINE
    }

    fn part_lines(&self) -> u64 {
        self.geometry.ring_part as u64 / LINE
    }

    fn place(&self, line: LineIndex) -> u64 {
        self.geometry.ring_at(self.shard) + line * LINE
    }

    /// All records from `line` on whose sequence numbers follow `seq`.
    fn read(&self, mut line: LineIndex, mut seq: u64) -> Log {
        let mut records = Vec::new();
        let mut left = self.lines();
        loop {
            let next_part = (line / self.part_lines() + 1) * self.part_lines() % self.lines();
            let here = self.record(line, seq).map(|found| (line, found));
            let Some((at, found)) =
                here.or_else(|| Some((next_part, self.record(next_part, seq)?)))
            else {
                break;
            };
            let taken = found.header.lines() as u64;
            if taken > left {
                break;
            }
            left -= taken;
            line = (at + taken) % self.lines();
            seq = (seq + 1) & SEQ_MASK;
            records.push(found);
        }
        Log { records, end: line, seq }
    }

    /// The record that begins on `line`, if it is whole and has the expected epoch and sequence number.
    fn record(&self, line: LineIndex, seq: u64) -> Option<Found> {
        let part_words = self.geometry.ring_part / 8;
        let at = self.place(line);
        let header = read_header(self.region, at, part_words)?;
        let room = self.part_lines() - line % self.part_lines();
        let expected = (header.epoch == self.epoch || !step::done(Step::CheckEpoch))
            && (header.seq == seq || !step::done(Step::CheckSequence));
        if !expected || header.lines() as u64 > room {
            return None;
        }
        let mut words = Vec::new();
        read_words(self.region, at, header.words, &mut words);
        if record::checksum(&words) != words[0] as u32 && step::done(Step::VerifyRecord) {
            return None;
        }
        words.drain(..record::HEADER_WORDS);
        if header.kind.is_long() {
            let long = LongBody::parse(&words)?;
            let (fresh, entries) = long.read(self.region);
            return Some(Found { at, header, fresh: ranges(&fresh), entries, long: Some(long) });
        }
        let entries = words.split_off(2 * header.fresh);
        Some(Found { at, header, fresh: ranges(&words), entries, long: None })
    }

    /// The log ends where no record follows. A later record, or the fenced number, may show that one should.
    fn check_end(&self, log: &Log) -> Result<(), OpenError> {
        if let Some(fenced) = self.fenced().filter(|&fenced| fenced >= log.seq) {
            return Err(self.damaged(log.seq, fenced));
        }
        let later = (0..self.lines()).find_map(|line| {
            let header = read_header(self.region, self.place(line), self.geometry.ring_part / 8)?;
            (header.epoch == self.epoch && header.seq > log.seq).then_some(())?;
            self.record(line, header.seq).map(|found| found.header.seq)
        });
        later.map_or(Ok(()), |found| Err(self.damaged(log.seq, found)))
    }

    /// The newest sequence number of this epoch whose fence is known to have completed.
    fn fenced(&self) -> Option<u64> {
        let word = self.region.load(self.geometry.shard_area(self.shard).fenced());
        (word >> 48 == u64::from(self.epoch) & 0xffff).then_some(word & SEQ_MASK)
    }

    fn damaged(&self, expected: u64, found: u64) -> OpenError {
        OpenError::DamagedLog { shard: self.shard, expected, found }
    }

    /// Takes the newest record off when it is not believed. One whose fence had completed must be whole.
    fn judge_newest(
        &self,
        log: &mut Log,
        committed: &HashSet<u64>,
        tail: LineIndex,
    ) -> Result<(), OpenError> {
        let Some(newest) = log.records.last() else { return Ok(()) };
        let seq = newest.header.seq;
        let believed = match newest.header.kind {
            Kind::Decided => true,
            kind if kind.is_part() => {
                committed.contains(&newest.header.id) || !step::done(Step::CheckDecided)
            }
            _ => self.is_whole(newest) || !step::done(Step::VerifyFresh),
        };
        if believed {
            return Ok(());
        }
        if self.fenced().is_some_and(|fenced| fenced >= seq) {
            return Err(self.damaged(seq, seq));
        }
        log.records.pop();
        log.seq = seq;
        log.end = log.records.last().map_or(tail, |last| {
            let line = (last.at - self.geometry.ring_at(self.shard)) / LINE;
            (line + last.header.lines() as u64) % self.lines()
        });
        Ok(())
    }

    fn is_whole(&self, found: &Found) -> bool {
        let body = found.long.as_ref().is_none_or(|long| long.is_whole(self.region));
        body && found.fresh.iter().filter(|range| range.verified).all(|range| {
            // SAFETY: the pool is being opened: nobody writes.
            let bytes = unsafe { self.region.bytes(range.at, range.len as usize) };
            bytes.len() == range.len as usize && crc32c::crc32c(bytes) == range.crc
        })
    }
}

fn ranges(words: &[u64]) -> Vec<FreshRange> {
    words.chunks_exact(2).map(|pair| FreshRange::decode([pair[0], pair[1]])).collect()
}
