//! Retires the logs of a pool at rest, so that its next opening has nothing to store again.
//!
//! After a crash an opening stores the words of the newest records once more. There are few of
//! them, but they are all over the pool: on a disk, reading their pages takes most of a restart. At
//! rest the words are made durable in place, once, and nothing is left to do. Commits pay nothing
//! for that: it is a retirement as before a part of the log is written again
//! ([`crate::log::ring`]), only earlier, and with fences of its own.

use pmem::Domain;

use super::commit;
use super::heap::Heap;
use super::shard_waits::ANY_TURN;
use crate::fault_points::{self, FaultPoint};

/// The number of looks in a row, with no commit in between, after which a pool is at rest.
const LOOKS: u32 = 3;

/// Notices when a pool is at rest, and retires its logs then.
#[derive(Debug, Default)]
pub struct RestingLogs {
    /// The log sequence number at the last look,
    lsn: u64,
    /// ... and how many looks found that one.
    looks: u32,
}

impl RestingLogs {
    /// Looks at a pool. Called a few times a second by a background thread.
    pub fn look(&mut self, heap: &Heap) {
        if heap.lsn() != self.lsn {
            *self = RestingLogs { lsn: heap.lsn(), looks: 0 };
        }
        if self.looks < LOOKS {
            let may_end = self.looks + 1 < LOOKS || heap.retire_logs_until(self.lsn);
            self.looks += u32::from(may_end);
        }
    }
}

impl Heap {
    /// Makes every word that the logs changed durable in place, so that recovery finds no record.
    /// Does nothing where each fence waits for a disk. Returns false if that was not possible
    /// everywhere: a shard is locked, the pool takes no writes now, or something was committed
    /// meanwhile.
    pub fn retire_logs(&self) -> bool {
        self.retire_logs_until(self.lsn())
    }

    /// Like [`Heap::retire_logs`], as long as `lsn` is that of the newest commit: a commit ends the
    /// rest, and would wait for the locks.
    fn retire_logs_until(&self, lsn: u64) -> bool {
        // With `msync` a shard would be locked over two syncs of the disk.
        if self.volatile || self.region.domain() == Domain::Msync {
            return true;
        }
        let mut all = true;
        for shard in 0..self.shards() {
            if self.lsn() != lsn {
                return false;
            }
            all &= self.retire_log(shard);
        }
        all
    }

    fn retire_log(&self, shard: usize) -> bool {
        if self.region.is_nearly_full() {
            return false;
        }
        let Some(mut state) = self.try_lock_state(shard, ANY_TURN) else { return false };
        // The last holder of the lock may have left a commit half done.
        if self.check_open().is_err() {
            return false;
        }
        if !state.ring.has_records() {
            return true;
        }
        commit::or_poison(self, || {
            state.ring.retire_all(&self.region);
            // The next commit may be another thread's, whose fences do not make the tail durable.
            fault_points::fence(&self.region, FaultPoint::FenceRested);
        });
        if self.region.failed() {
            self.poison();
            return false;
        }
        let state = &mut *state;
        for span in state.ring.released.drain(..) {
            state.alloc.give_span(span);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CreateOptions, Geometry};
    use pmem::{DomainRequest, MapOptions, Region};

    #[test]
    fn a_commit_ends_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let domain = DomainRequest::Clwb;
        let options = MapOptions { domain, emulate: true, ..MapOptions::new(16 << 20) };
        let region = Region::open(folder.path().join("pool"), &options).expect("a region");
        let geometry = Geometry { shards: 2, ring_parts: 3, ring_part: 4096, zone_spans: 64 };
        let options = CreateOptions { geometry, ..CreateOptions::default() };
        let heap = Heap::create(region, &options).expect("a pool");
        let put = |shard| {
            let mut shard = heap.lock(shard);
            shard.set(shard.root(0), 1);
            shard.commit().expect("a commit");
        };
        let has_records = |shard| heap.lock(shard).state.ring.has_records();
        put(0);
        let lsn = heap.lsn();
        put(1);
        assert!(!heap.retire_logs_until(lsn));
        assert_eq!([0, 1].map(has_records), [true, true]);
        assert!(heap.retire_logs_until(heap.lsn()));
        assert_eq!([0, 1].map(has_records), [false, false]);
    }
}
