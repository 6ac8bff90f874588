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

/// Returns true if a shard that took part in the transaction of this one's newest record has
/// continued: the fence of all its records has completed.
fn has_gone_on(logs: &[ShardLog], shard: usize) -> bool {
    let mut newest = logs[shard].records.last();
    for _ in 0..logs.len() {
        let Some(link) = newest.and_then(|found| found.link) else { return false };
        let Some(next) = logs.get(link.shard).filter(|_| link.shard != shard) else { return false };
        newest = next.records.last().filter(|last| last.header.seq == link.seq);
        if newest.is_none() {
            return next.seq > link.seq;
        }
    }
    false
}

fn is_accepted(logs: &[ShardLog], whole: &[bool], shard: usize) -> bool {
    let Some(newest) = logs[shard].records.last() else { return true };
    let (mut at, mut found) = (shard, newest);
    for _ in 0..logs.len() {
        if !whole[at] {
            return false;
        }
        let Some(link) = found.link.filter(|_| FaultPoint::CheckLinks.is_enabled()) else {
            return true;
        };
        if link.shard == shard {
            return link.seq == newest.header.seq;
        }
        let Some(next) = logs.get(link.shard) else { return false };
        match next.records.last() {
            Some(last) if last.header.seq == link.seq => (at, found) = (link.shard, last),
            // This shard has continued, or its tail has moved: the fence of all linked records has
            // completed.
            _ => return next.seq > link.seq,
        }
    }
    false
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
