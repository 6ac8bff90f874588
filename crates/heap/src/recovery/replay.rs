//! Brings a pool to the state that its logs describe, after a crash or a clean close.
//!
//! The work is bounded by the rings; nothing is scanned that grows with the number of keys. A crash
//! at any point is harmless: accepted records are made durable before the first store, the stores
//! are idempotent, and the tails move only when the words are durable.

#![allow(unsafe_code, reason = "words are stored in the pool")]

use super::lost_logs::refuse_lost_logs;
use super::scan::{self, FoundRecord, ShardLog};
use super::validate;
use crate::error::OpenError;
use crate::fault_points::{self, FaultPoint};
use crate::layout::header;
use crate::layout::{Geometry, HEADER_A, HEADER_B, LINE, ZONES_WORD};
use crate::log::record::{Entry, entries, fenced_word};
use crate::log::ring::tail_word;
use pmem::Region;
use std::collections::BTreeMap;

/// What recovery found, and what it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The pool had been closed cleanly.
    pub clean: bool,
    /// The number of accepted records.
    pub records: u64,
    /// The number of words that were stored again.
    pub words: u64,
    /// The number of this incarnation of the pool.
    pub epoch: u32,
    /// The result of reading the pool's journal, if it needed one.
    pub journal: Option<pmem::JournalRecovery>,
}

/// The state from which the rings continue: for each shard the line and the sequence number of its
/// next record.
pub(crate) struct Recovered {
    pub(crate) ends: Vec<(u64, u64)>,
    pub(crate) report: Recovery,
    /// A log sequence number above every one that was used.
    pub(crate) lsn: u64,
}

/// Recovers every shard. The caller then begins the next epoch.
pub(crate) fn all(
    region: &Region,
    geometry: &Geometry,
    epoch: u32,
    lsn: u64,
) -> Result<Recovered, OpenError> {
    let mut logs = (0..geometry.shards)
        .map(|shard| scan::shard(region, geometry, shard, epoch))
        .collect::<Result<Vec<ShardLog>, _>>()?;
    validate::newest(region, geometry, &mut logs)?;
    refuse_lost_logs(region, geometry, &logs)?;
    flush_accepted(region, &logs);
    if region.failed() {
        return Err(OpenError::Failed);
    }
    let mut recovered = Recovered { ends: Vec::new(), report: Recovery::default(), lsn };
    for log in &logs {
        recovered.report.words += store_words(region, changes(log));
        recovered.report.records += log.records.len() as u64;
        recovered.lsn = log
            .records
            .iter()
            .fold(recovered.lsn, |lsn, found| lsn.max(found.header.lsn.saturating_add(1)));
        recovered.ends.push((log.end, log.seq));
        keep_hint(region, geometry, epoch, log);
    }
    fault_points::fence(region, FaultPoint::FenceRecovered);
    if region.failed() {
        return Err(OpenError::Failed);
    }
    for (shard, log) in logs.iter().enumerate() {
        let tail = geometry.shard_area(shard).tail();
        let word = tail_word(log.end, log.seq);
        if region.load(tail) != word {
            // SAFETY: the pool is being opened: nobody else reads or writes it.
            unsafe { region.store(tail, word) };
        }
        make_durable(region, tail, 8, FaultPoint::FlushRecoveredTail);
    }
    if region.failed() { Err(OpenError::Failed) } else { Ok(recovered) }
}

/// After a process crash, what is accepted may be in the caches only. A later power cut must not
/// take a record whose words are already stored, nor a zone that this incarnation will use, nor the
/// newer header while the older one is overwritten.
fn flush_accepted(region: &Region, logs: &[ShardLog]) {
    make_durable(region, ZONES_WORD, 8, FaultPoint::FlushAcceptedZones);
    for header in [HEADER_A, HEADER_B] {
        make_durable(region, header, header::BYTES, FaultPoint::FlushAcceptedHeader);
    }
    for newest in logs.iter().filter_map(|log| log.records.last()) {
        make_durable(region, newest.at, newest.header.words * 8, FaultPoint::FlushAccepted);
        for range in &newest.fresh {
            make_durable(region, range.at, range.len as usize, FaultPoint::FlushAcceptedFresh);
        }
        for &(at, len, _) in newest.long.iter().flat_map(|long| &long.pieces) {
            make_durable(region, at, len as usize, FaultPoint::FlushAcceptedLong);
        }
    }
    fault_points::fence(region, FaultPoint::FenceAccepted);
}

/// Flushes the hint that the newest record was fenced, as whoever retires a whole log does. It
/// shows a salvage that the tail is right, if that record is lost before the next epoch has begun.
fn keep_hint(region: &Region, geometry: &Geometry, epoch: u32, log: &ShardLog) {
    let Some(newest) = log.records.last() else { return };
    let at = geometry.shard_area(log.shard).fenced();
    // SAFETY: the pool is being opened: nobody else reads or writes it.
    unsafe { region.store(at, fenced_word(epoch, newest.header.seq)) };
    make_durable(region, at, 8, FaultPoint::FlushRecoveredFenced);
}

/// Flushes what an earlier process stored. If a sync of that process failed, the kernel considers
/// these pages clean, and a flush alone would not write them.
fn make_durable(region: &Region, at: u64, len: usize, point: FaultPoint) {
    // SAFETY: the pool is being opened: nobody else reads or writes it.
    unsafe { region.make_dirty(at, len) };
    fault_points::flush(region, at, len, point);
}

/// Returns the changes of words that the log asks for, oldest first, each with the log sequence
/// number of its record.
pub(crate) fn changes(log: &ShardLog) -> impl Iterator<Item = (u64, Entry)> + '_ {
    let all = log.records.iter().flat_map(changes_of);
    all.zip(revoked(&log.records))
        .filter(|(_, is_revoked)| !is_revoked || !FaultPoint::SkipRevoked.is_enabled())
        .map(|(change, _)| change)
}

fn changes_of(found: &FoundRecord) -> impl Iterator<Item = (u64, Entry)> + '_ {
    entries(&found.entries).map(|entry| (found.header.lsn, entry))
}

/// Makes changes and flushes them; returns how many.
pub(crate) fn store_words(region: &Region, changes: impl Iterator<Item = (u64, Entry)>) -> u64 {
    let mut lines = Vec::new();
    for (_, entry) in changes {
        let word = entry.applied_to(region.load(entry.at));
        // SAFETY: the pool is being opened: nobody else reads or writes it.
        unsafe { region.store(entry.at, word) };
        lines.push(entry.at & !(LINE - 1));
    }
    let words = lines.len() as u64;
    lines.sort_unstable();
    lines.dedup();
    for line in lines {
        fault_points::flush(region, line, LINE as usize, FaultPoint::FlushRecovered);
    }
    words
}

/// Returns, for each entry of the records, oldest first, whether a later record published bytes
/// over its word, or has its body there: the block was freed and used again, and the entry concerns
/// its earlier use.
fn revoked(records: &[FoundRecord]) -> Vec<bool> {
    let mut published = Intervals::default();
    let mut newest_first = Vec::new();
    for found in records.iter().rev() {
        let of_record: Vec<bool> =
            entries(&found.entries).map(|entry| published.contains(entry.at)).collect();
        newest_first.extend(of_record.into_iter().rev());
        for range in &found.fresh {
            published.insert(range.at, range.at.saturating_add(u64::from(range.len)));
        }
        for &(at, len, _) in found.long.iter().flat_map(|long| &long.pieces) {
            if !FaultPoint::SkipUnderLong.is_enabled() {
                break;
            }
            published.insert(at, at.saturating_add(u64::from(len)));
        }
    }
    newest_first.reverse();
    newest_first
}

/// A set of offsets, as disjoint ranges.
#[derive(Default)]
struct Intervals {
    /// Begin to end.
    ranges: BTreeMap<u64, u64>,
}

impl Intervals {
    fn contains(&self, at: u64) -> bool {
        self.ranges.range(..=at).next_back().is_some_and(|(_, &end)| end > at)
    }

    fn insert(&mut self, mut from: u64, mut to: u64) {
        while let Some((&begin, &end)) = self.ranges.range(..=to).next_back() {
            if end < from {
                break;
            }
            self.ranges.remove(&begin);
            from = from.min(begin);
            to = to.max(end);
        }
        self.ranges.insert(from, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_or_overlap_become_one() {
        let mut set = Intervals::default();
        set.insert(10, 20);
        set.insert(30, 40);
        assert!(set.contains(10) && set.contains(19) && !set.contains(20) && !set.contains(29));
        set.insert(15, 30);
        assert_eq!(set.ranges.len(), 1);
        assert!(set.contains(25) && set.contains(39) && !set.contains(40));
        set.insert(0, 5);
        assert!(!set.contains(5) && set.contains(4));
    }
}
