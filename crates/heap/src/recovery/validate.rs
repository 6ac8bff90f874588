//! Decides which newest records are accepted after a crash.
//!
//! The newest record of a ring may have reached the medium before its fence, and so without its
//! fresh ranges: it is accepted only if their checksums match. A record that is linked to others is
//! accepted only if all of them are there. A record whose fence is known to have completed, by the
//! hint, or since a shard of its transaction has continued, must be accepted: if it cannot be, the
//! medium was damaged. So it was, and the fence may have completed, if the missing bytes are among
//! those that the medium reported as lost.

#![allow(unsafe_code, reason = "published bytes are read to compare their checksum")]

use super::lost_logs::refuse_lost_newest;
use super::scan::{FoundRecord, ShardLog};
use crate::checksum::crc32c;
use crate::error::OpenError;
use crate::fault_points::FaultPoint;
use crate::layout::Geometry;
use pmem::Region;

/// Removes the newest record of each log in which it is not accepted.
pub(crate) fn newest(
    region: &Region,
    geometry: &Geometry,
    logs: &mut [ShardLog],
) -> Result<(), OpenError> {
    check_links(logs)?;
    let accepted = accepted(region, logs);
    let fenced = fenced(logs);
    for ((log, accepted), is_fenced) in logs.iter_mut().zip(accepted).zip(fenced) {
        if accepted {
            continue;
        }
        let newest = log.seq - 1;
        if is_fenced && FaultPoint::ReportFenced.is_enabled() {
            return Err(log.damaged(newest, newest));
        }
        refuse_lost_newest(region, log)?;
        log.drop_newest(geometry);
    }
    Ok(())
}

/// Returns for each log whether the fence of its newest record is known to have completed.
pub(crate) fn fenced(logs: &[ShardLog]) -> Vec<bool> {
    let is_fenced = |(shard, log): (usize, &ShardLog)| {
        let newest = log.records.last().map(|newest| newest.header.seq);
        newest.is_some_and(|newest| log.fenced.is_some_and(|fenced| fenced >= newest))
            || has_gone_on(logs, shard)
    };
    logs.iter().enumerate().map(is_fenced).collect()
}

/// Returns for each log whether its newest record is accepted.
pub(crate) fn accepted(region: &Region, logs: &[ShardLog]) -> Vec<bool> {
    let is_newest_whole = |log: &ShardLog| {
        log.records.last().is_some_and(|newest| is_whole(region, newest))
            || !FaultPoint::VerifyFresh.is_enabled()
    };
    let whole: Vec<bool> = logs.iter().map(is_newest_whole).collect();
    (0..logs.len()).map(|shard| is_accepted(logs, &whole, shard)).collect()
}

/// Checks that the records to which those lead that another one follows are there: they were fenced
/// together.
fn check_links(logs: &[ShardLog]) -> Result<(), OpenError> {
    for log in logs {
        let followed = log.records.len().saturating_sub(1);
        for link in log.records[..followed].iter().filter_map(|found| found.link) {
            let linked = logs.get(link.shard).filter(|_| FaultPoint::ReportFenced.is_enabled());
            if let Some(linked) = linked.filter(|linked| linked.seq <= link.seq) {
                return Err(linked.damaged(linked.seq, link.seq));
            }
        }
    }
    Ok(())
}

/// Where the links of a newest record lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Links {
    /// To itself, over newest records only, or nowhere: all are there.
    Closed,
    /// To a shard that has continued, or of which the tail has moved: the fence of all linked
    /// records has completed.
    GoneOn,
    /// To a record that is not there.
    Broken,
}

/// Follows the links of a shard's newest record, and shows the shard of each newest record on the
/// way.
fn follow(logs: &[ShardLog], shard: usize, mut show: impl FnMut(usize)) -> Links {
    let Some(newest) = logs[shard].records.last() else { return Links::Closed };
    let (mut at, mut found) = (shard, newest);
    for _ in 0..logs.len() {
        show(at);
        let Some(link) = found.link else { return Links::Closed };
        if link.shard == shard {
            let is_closed = link.seq == newest.header.seq;
            return if is_closed { Links::Closed } else { Links::Broken };
        }
        let Some(next) = logs.get(link.shard) else { return Links::Broken };
        match next.records.last() {
            Some(last) if last.header.seq == link.seq => (at, found) = (link.shard, last),
            _ if next.seq > link.seq => return Links::GoneOn,
            _ => return Links::Broken,
        }
    }
    Links::Broken
}

/// Returns true if a shard that took part in the transaction of this one's newest record has
/// continued.
fn has_gone_on(logs: &[ShardLog], shard: usize) -> bool {
    follow(logs, shard, |_| {}) == Links::GoneOn
}

/// Returns true if all records of the transaction of a shard's newest one are there, and whole.
fn is_accepted(logs: &[ShardLog], whole: &[bool], shard: usize) -> bool {
    let mut are_whole = true;
    let links = follow(logs, shard, |shard| are_whole &= whole[shard]);
    if !FaultPoint::CheckLinks.is_enabled() {
        return logs[shard].records.is_empty() || whole[shard];
    }
    are_whole && links != Links::Broken
}

/// Returns true if all bytes that a record publishes are intact.
fn is_whole(region: &Region, found: &FoundRecord) -> bool {
    let body = found.has_whole_body(region);
    body && found.fresh.iter().filter(|range| range.verified).all(|range| {
        // SAFETY: the pool is being opened: nobody writes.
        let bytes = unsafe { region.bytes(range.at, range.len as usize) };
        bytes.len() == range.len as usize && crc32c(bytes) == range.crc
    })
}
