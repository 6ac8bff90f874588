//! The space of the shards' logs in a pool's file.
//!
//! A new pool with a journal has space for one log, that of the first shard, which has words that
//! change although there are no blocks. Another gets its space, durably, with the shard's first
//! span or record. Nothing in the pool says which logs have it. The file reports holes, but what
//! was reserved and never written may count as one, and a full file system may refuse to reserve
//! again what it has reserved already, as XFS does. But a shard with blocks got its spans after its
//! log's space, so that nothing depends on the answer: what is refused is only the first span or
//! record of a shard without blocks that is not the first shard, never a delete.

use crate::layout::Geometry;
use pmem::{Domain, Region};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Which logs have their space.
#[derive(Debug)]
pub(crate) struct LogSpace {
    geometry: Geometry,
    /// The pool was created by this process: what the file reports says nothing yet.
    is_new: bool,
    /// The file has a hole where the logs are; asked once, since the kernel may have to go through
    /// all of the file for it.
    has_hole: OnceLock<bool>,
    logs: Box<[Log]>,
}

#[derive(Debug)]
struct Log {
    has_space: AtomicBool,
    /// The log had its space when the pool was opened, whatever the file reports.
    had_space: bool,
}

impl LogSpace {
    pub(crate) fn new(region: &Region, geometry: Geometry, is_new: bool) -> LogSpace {
        let has_journal = region.domain() == Domain::Journal;
        let log = |shard| Log {
            has_space: AtomicBool::new(!has_journal || is_new && shard == 0),
            had_space: shard == 0 || !is_new && region.load(geometry.shard_area(shard).used()) > 0,
        };
        let logs = (0..geometry.shards).map(log).collect();
        LogSpace { geometry, is_new, has_hole: OnceLock::new(), logs }
    }

    /// Reserves the space of a shard's log, unless it has it; returns false if the file system has
    /// none. The caller holds the shard's lock.
    #[inline]
    pub(crate) fn reserve(&self, region: &Region, shard: usize) -> bool {
        self.logs[shard].has_space.load(Relaxed) || self.reserve_now(region, shard)
    }

    #[cold]
    fn reserve_now(&self, region: &Region, shard: usize) -> bool {
        let log = &self.logs[shard];
        let from = self.geometry.ring_at(shard);
        let to = from + self.geometry.ring_bytes();
        let has_space = self.are_solid(region)
            || !self.is_new && region.hole_in(from, to).is_none()
            || region.reserve_space(from, to).is_ok()
            || log.had_space
            || needs_no_space(region);
        log.has_space.store(has_space, Relaxed);
        has_space
    }

    fn are_solid(&self, region: &Region) -> bool {
        let (from, to) = (self.geometry.ring_at(0), self.geometry.ring_at(self.logs.len()));
        let has_hole = || region.hole_in(from, to).is_some();
        !self.is_new && !*self.has_hole.get_or_init(has_hole)
    }
}

/// Returns true if nothing more is written to the pool's file: its journal failed. A commit says
/// so; it would be wrong to say that the pool is full.
pub(super) fn needs_no_space(region: &Region) -> bool {
    region.domain() == Domain::Journal && region.failed()
}
