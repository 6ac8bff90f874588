//! Refuses a pool whose logs may have ended in bytes that the medium lost, or whose newest record
//! may have been complete without a loss: an acknowledged write could be among them.

use super::scan::ShardLog;
use crate::error::OpenError;
use crate::layout::{Geometry, LINE};
use pmem::Region;

/// Refuses a pool whose logs may have ended in lost bytes. Must be called before recovery writes
/// anything.
pub(crate) fn refuse_lost_logs(
    region: &Region,
    geometry: &Geometry,
    logs: &[ShardLog],
) -> Result<(), OpenError> {
    if !region.has_unresolved_losses() {
        return Ok(());
    }
    logs.iter().try_for_each(|log| refuse_lost_log(region, geometry, log))
}

/// Like [`refuse_lost_logs`], for one log.
pub(crate) fn refuse_lost_log(
    region: &Region,
    geometry: &Geometry,
    log: &ShardLog,
) -> Result<(), OpenError> {
    let tail = geometry.shard_area(log.shard).tail();
    let base = geometry.ring_at(log.shard);
    let part = geometry.ring_part as u64;
    let end = base + log.end * LINE;
    let start_of_part = end - (end - base) % part;
    let next = base + (start_of_part + part - base) % geometry.ring_bytes();
    let needed = [(tail, tail + 8), (end, start_of_part + part), (next, next + part)];
    refuse_lost(region, log, &needed)
}

/// Refuses a log whose newest record is not accepted if the medium lost some of its body, or of the
/// bytes that it publishes.
pub(crate) fn refuse_lost_newest(region: &Region, log: &ShardLog) -> Result<(), OpenError> {
    let Some(newest) = log.records.last() else { return Ok(()) };
    let fresh = newest.fresh.iter().map(|range| (range.at, range.len));
    let pieces = newest.long.iter().flat_map(|long| &long.pieces).map(|&(at, len, _)| (at, len));
    let needed = fresh.chain(pieces).map(|(at, len)| (at, at.saturating_add(u64::from(len))));
    refuse_lost(region, log, &needed.collect::<Vec<_>>())
}

fn refuse_lost(region: &Region, log: &ShardLog, needed: &[(u64, u64)]) -> Result<(), OpenError> {
    let (_, lost) = region.lost();
    for lost in &lost {
        let meets = |&(from, to): &(u64, u64)| lost.at < to && lost.at + lost.len > from;
        if needed.iter().any(meets) {
            return Err(OpenError::LostLog { shard: log.shard, at: lost.at });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmem::{DomainRequest, MapOptions};

    /// Returns a region whose page at `at` was lost.
    fn losing(at: u64, folder: &std::path::Path) -> Region {
        let path = folder.join("pool");
        let mut options = MapOptions::new(1 << 20);
        options.domain = DomainRequest::Process;
        let region = Region::open(&path, &options).expect("a region");
        region.grow(1 << 20).expect("free memory");
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the file");
        file.set_len(at).expect("a shorter file");
        region.load(at);
        file.set_len(1 << 20).expect("as long as before");
        region
    }

    #[test]
    fn a_log_that_may_have_gone_on_in_lost_bytes_is_refused() {
        let geometry = Geometry { shards: 1, ring_parts: 4, ring_part: 4096, zone_spans: 8 };
        let ring = geometry.ring_at(0);
        let log = |end: u64| ShardLog {
            shard: 0,
            tail: 0,
            records: Vec::new(),
            end,
            seq: 1,
            fenced: None,
        };
        let check = |lost: u64, end: u64, refused: bool| {
            let folder = tempfile::tempdir().expect("a folder");
            let region = losing(lost, folder.path());
            let answer = refuse_lost_logs(&region, &geometry, &[log(end)]);
            assert_eq!(answer.is_err(), refused, "lost {lost:#x}, end {end}: {answer:?}");
        };
        // The log ends in part 1; its continuation would be there, or at the start of part 2.
        check(ring + 4096, 70, true);
        check(ring + 2 * 4096, 70, true);
        check(ring + 3 * 4096, 70, false);
        check(ring, 70, false);
        // A log in the last part continues in the first.
        check(ring, 200, true);
        check(ring + 4096, 200, false);
        check(geometry.shard_area(0).tail(), 0, true);
        check(geometry.zones_at(), 0, false);
    }
}
