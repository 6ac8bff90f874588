//! The times of syncs, for monitoring the disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of buckets of sync times: up to 2^n microseconds for the n-th; the last has all
/// longer ones.
pub const SYNC_TIMES: usize = 24;

/// Counts of syncs by their times.
#[derive(Debug, Default)]
pub(crate) struct SyncTimes {
    nanos: AtomicU64,
    counts: [AtomicU64; SYNC_TIMES],
}

impl SyncTimes {
    pub(crate) fn count(&self, time: Duration) {
        self.nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
        self.counts[class(time)].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the total nanoseconds, and how many took up to 2^n microseconds and longer than
    /// 2^(n-1).
    pub(crate) fn read(&self) -> (u64, [u64; SYNC_TIMES]) {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        (self.nanos.load(Ordering::Relaxed), counts)
    }
}

fn class(time: Duration) -> usize {
    let microseconds = time.as_nanos().div_ceil(1000).max(1) as u64;
    (microseconds.next_power_of_two().ilog2() as usize).min(SYNC_TIMES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_by_its_upper_bound() {
        let times = SyncTimes::default();
        for (nanos, at) in [(0, 0), (1_000, 0), (1_001, 1), (2_000, 1), (65_000, 7), (u64::MAX, 23)]
        {
            assert_eq!(class(Duration::from_nanos(nanos)), at, "{nanos}");
        }
        times.count(Duration::from_micros(3));
        times.count(Duration::from_micros(4));
        let (nanos, counts) = times.read();
        assert_eq!((nanos, counts[2], counts.iter().sum::<u64>()), (7_000, 2, 2));
    }
}
