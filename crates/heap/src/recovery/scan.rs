//! Reads a shard's log after a crash.
//!
//! From the tail on, records count as long as epoch, sequence number and checksum are right.
//! `validate` decides whether the newest one is accepted; the fence of every earlier one has
//! completed, so that one of which the body is damaged shows that the medium was.

use crate::error::OpenError;
use crate::fault_points::FaultPoint;
use crate::layout::{Geometry, LINE};
use crate::log::record::{self, FreshRange, HEADER_WORDS, Link, RecordHeader, SEQ_MASK};
use crate::log::ring::{LineIndex, LongBody, read_header, read_words, split_tail};
use pmem::Region;

/// A shard whose sequence numbers get this far could soon not tell old records from new.
const LAST_SEQ: u64 = SEQ_MASK - (1 << 32);

/// A record in the log.
#[derive(Debug)]
pub(crate) struct FoundRecord {
    pub(crate) at: u64,
    pub(crate) header: RecordHeader,
    /// The next record of its transaction, if the transaction has several.
    pub(crate) link: Option<Link>,
    /// The entries, wherever they are stored, and the fresh ranges among them.
    pub(crate) fresh: Vec<FreshRange>,
    pub(crate) entries: Vec<u64>,
    /// The pieces of the body, for a long record.
    pub(crate) long: Option<LongBody>,
}

impl FoundRecord {
    /// Returns true if the body is intact, wherever it is.
    pub(crate) fn has_whole_body(&self, region: &Region) -> bool {
        self.long
            .as_ref()
            .is_none_or(|long| long.is_whole(region) || !FaultPoint::VerifyLong.is_enabled())
    }
}

/// A shard's log.
#[derive(Debug)]
pub(crate) struct ShardLog {
    pub(crate) shard: usize,
    /// The line where the log begins.
    pub(crate) tail: LineIndex,
    pub(crate) records: Vec<FoundRecord>,
    /// The line after the last record, and the next sequence number.
    pub(crate) end: LineIndex,
    pub(crate) seq: u64,
    /// The newest sequence number of this epoch whose fence is known to have completed.
    pub(crate) fenced: Option<u64>,
}

impl ShardLog {
    /// Returns the error for a damaged record when `found` shows that it was fenced.
    pub(crate) fn damaged(&self, expected: u64, found: u64) -> OpenError {
        OpenError::DamagedLog { shard: self.shard, expected, found }
    }

    /// Removes the newest record.
    pub(crate) fn drop_newest(&mut self, geometry: &Geometry) {
        let Some(dropped) = self.records.pop() else { return };
        let line = |at: u64| (at - geometry.ring_at(self.shard)) / LINE;
        self.seq = dropped.header.seq;
        self.end = self.records.last().map_or(self.tail, |last| {
            (line(last.at) + last.header.lines() as u64) % (geometry.ring_bytes() / LINE)
        });
    }
}

/// Reads the log of one shard.
pub(crate) fn shard(
    region: &Region,
    geometry: &Geometry,
    shard: usize,
    epoch: u32,
) -> Result<ShardLog, OpenError> {
    let reader = Reader { region, geometry, shard, epoch };
    let (line, seq) = split_tail(region.load(geometry.shard_area(shard).tail()));
    if line > reader.lines() {
        return Err(OpenError::DamagedTail { shard, lines: reader.lines(), found: line });
    }
    if seq > LAST_SEQ {
        return Err(OpenError::Exhausted);
    }
    let log = reader.read();
    reader.check_end(&log)?;
    Ok(log)
}

/// The sound part of a damaged log.
pub(crate) struct Rescued {
    /// The log, with the records whose words must be stored.
    pub(crate) log: ShardLog,
    /// Why opening would refuse it.
    pub(crate) error: Option<OpenError>,
    /// Whether a record is sound from which on none can be lost, unless the medium said so: the
    /// newest that is known to have been fenced, or one after it. Without a hint nothing says that.
    pub(crate) has_newest: bool,
}

/// Reads the sound part of a shard's log. `in_place` says that every word that a record changed was
/// stored, except for those of the newest record, as when only the process ended.
pub(crate) fn rescue(
    region: &Region,
    geometry: &Geometry,
    shard: usize,
    epoch: u32,
    in_place: bool,
) -> Rescued {
    let reader = Reader { region, geometry, shard, epoch };
    let (line, seq) = split_tail(region.load(geometry.shard_area(shard).tail()));
    let mut log = reader.read();
    let error = if line > reader.lines() {
        Some(OpenError::DamagedTail { shard, lines: reader.lines(), found: line })
    } else {
        reader.check_end(&log).err()
    };
    if error.is_none() {
        return Rescued { log, error, has_newest: true };
    }
    let mut all: Vec<FoundRecord> =
        (0..reader.lines()).filter_map(|line| reader.any(line)).collect();
    all.sort_unstable_by_key(|found| found.header.seq);
    all.dedup_by_key(|found| found.header.seq);
    let newest = all.last().map(|newest| newest.header.seq);
    let hint = region.load(geometry.shard_area(shard).fenced());
    log.fenced = record::fenced_seq(hint, epoch, newest.unwrap_or(seq));
    let has_newest = newest.is_some_and(|newest| log.fenced.is_some_and(|fenced| newest >= fenced));
    // A tail to which no record leads may be damaged itself, unless the hint confirms it. Words of
    // retired records are durable in place, and may have been changed by a record that is lost.
    let is_confirmed =
        log.fenced.is_some_and(|fenced| seq <= fenced + 1) && FaultPoint::SkipRetired.is_enabled();
    let is_tail = is_confirmed || all.iter().any(|found| found.header.seq >= seq);
    if line <= reader.lines() && is_tail {
        all.retain(|found| found.header.seq >= seq);
    }
    // The log ends where it ended, whatever needs no storing: the records of other shards say so.
    if let Some(newest) = all.last() {
        let line = (newest.at - geometry.ring_at(shard)) / LINE;
        log.end = (line + newest.header.lines() as u64) % reader.lines();
        log.seq = (newest.header.seq + 1) & SEQ_MASK;
    }
    log.seq = log.seq.max(log.fenced.map_or(0, |fenced| fenced + 1));
    if in_place {
        drop_stored(&mut all, log.fenced);
    }
    log.records = all;
    Rescued { log, error, has_newest }
}

/// Removes the records whose words are in place: those up to the hint, which is stored after them;
/// without a hint, those before the last gap, of which at most the newest was not stored.
fn drop_stored(all: &mut Vec<FoundRecord>, fenced: Option<u64>) {
    if let Some(fenced) = fenced.filter(|_| FaultPoint::SkipStored.is_enabled()) {
        return all.retain(|found| found.header.seq > fenced);
    }
    let is_gap = |pair: &[FoundRecord]| pair[0].header.seq + 1 != pair[1].header.seq;
    let gap = all.windows(2).rposition(is_gap).map_or(0, |gap| gap + 1);
    all.drain(..gap);
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

    /// Returns all records from the tail on.
    fn read(&self) -> ShardLog {
        let area = self.geometry.shard_area(self.shard);
        let (tail, mut seq) = split_tail(self.region.load(area.tail()));
        let tail = tail % self.lines();
        let mut line = tail;
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
        let fenced = record::fenced_seq(self.region.load(area.fenced()), self.epoch, seq);
        ShardLog { shard: self.shard, tail, records, end: line, seq, fenced }
    }

    /// Returns the record that begins on `line`, if it is valid and has the expected epoch and
    /// sequence number.
    fn record(&self, line: LineIndex, seq: u64) -> Option<FoundRecord> {
        let part_words = self.geometry.ring_part / 8;
        let at = self.place(line);
        let header = read_header(self.region, at, part_words)?;
        let space = self.part_lines() - line % self.part_lines();
        let expected = (header.epoch == self.epoch || !FaultPoint::CheckEpoch.is_enabled())
            && (header.seq == seq || !FaultPoint::CheckSequence.is_enabled());
        if !expected || header.lines() as u64 > space {
            return None;
        }
        let mut words = Vec::new();
        read_words(self.region, at, header.words, &mut words);
        if record::checksum(&words) != words[0] as u32 && FaultPoint::VerifyRecord.is_enabled() {
            return None;
        }
        let link = header.kind.linked.then(|| Link::decode(words[HEADER_WORDS]));
        words.drain(..header.kind.header_words());
        let long = if header.kind.long { Some(LongBody::parse(&words)?) } else { None };
        let entries = long.as_ref().map_or(words, |long| long.read(self.region));
        let fresh = record::fresh_ranges(&entries).collect();
        Some(FoundRecord { at, header, link, fresh, entries, long })
    }

    /// Checks that the log may end where no record follows. A later record, or the fenced number,
    /// may show that one is missing. If there is no record at all, the record before the tail,
    /// which is the last to be overwritten, shows that the tail is right.
    fn check_end(&self, log: &ShardLog) -> Result<(), OpenError> {
        self.check_bodies(log)?;
        let fenced =
            log.fenced.filter(|&fenced| FaultPoint::ReportFenced.is_enabled() && fenced >= log.seq);
        if let Some(fenced) = fenced {
            return Err(log.damaged(log.seq, fenced));
        }
        let reports = FaultPoint::ReportLater.is_enabled();
        if let Some(found) = self.whole(|seq| reports && seq > log.seq).next() {
            return Err(log.damaged(log.seq, found));
        }
        let reports = FaultPoint::ReportTail.is_enabled() && log.records.is_empty();
        match self.whole(|_| reports).max() {
            Some(newest) if newest + 1 != log.seq => Err(log.damaged(newest + 1, log.seq)),
            _ => Ok(()),
        }
    }

    /// Checks the bodies of long records that another one follows: they were fenced, and their
    /// spans have been held since.
    fn check_bodies(&self, log: &ShardLog) -> Result<(), OpenError> {
        let followed = log.records.len().saturating_sub(1);
        let is_damaged = |found: &&FoundRecord| !found.has_whole_body(self.region);
        match log.records[..followed].iter().find(is_damaged) {
            Some(FoundRecord { header, .. }) if FaultPoint::ReportLater.is_enabled() => {
                Err(log.damaged(header.seq, header.seq + 1))
            }
            _ => Ok(()),
        }
    }

    /// Returns the record of this epoch that begins on `line`, if there is one and its body is
    /// intact: that of a retired record may have been overwritten.
    fn any(&self, line: LineIndex) -> Option<FoundRecord> {
        let header = read_header(self.region, self.place(line), self.geometry.ring_part / 8)?;
        let is_own = header.epoch == self.epoch;
        let found = is_own.then(|| self.record(line, header.seq)).flatten();
        found.filter(|found| found.has_whole_body(self.region))
    }

    /// Returns the sequence numbers of the valid records of this epoch that `wanted` accepts,
    /// wherever they are in the ring. The bodies of long ones do not matter.
    fn whole(&self, wanted: impl Fn(u64) -> bool) -> impl Iterator<Item = u64> {
        (0..self.lines()).filter_map(move |line| {
            let header = read_header(self.region, self.place(line), self.geometry.ring_part / 8)?;
            (header.epoch == self.epoch && wanted(header.seq)).then_some(())?;
            self.record(line, header.seq).map(|found| found.header.seq)
        })
    }
}
