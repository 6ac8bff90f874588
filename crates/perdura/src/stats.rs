//! Statistics of a store, and its present state: one struct for metrics and logs.
//!
//! Everything is counted anyway, by the thread that does the work or under a lock that it holds:
//! reading the counts costs only the reader.

use std::time::Duration;

use keyspace::Db;

use crate::{Perdura, Usage};

/// Counts of a store since it was opened, and its present state. Counts only rise, unless their
/// text says otherwise.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use perdura::prelude::*;
/// use perdura::{DomainRequest, Options, Perdura};
///
/// let options = Options::new(dir.path().join("pool")).domain(DomainRequest::Journal);
/// let store = Perdura::open(options)?;
/// for n in 0..10 {
///     store.set(format!("k{n}"), "value")?;
/// }
/// let statistics = store.statistics();
/// assert_eq!((statistics.keys, statistics.commits), (10, 10));
/// let journal = statistics.journal.expect("a store on a disk has one");
/// assert!(journal.sync_times.count() >= 10);
/// println!("99 % of the syncs took up to {:?}", journal.sync_times.quantile(0.99));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Keys of all databases now, expired ones that are not deleted yet included.
    pub keys: u64,
    /// Those that have a TTL.
    pub keys_with_ttl: u64,
    /// Bytes in use now, and limits.
    pub usage: Usage,
    /// Transactions that changed something and were committed, including those of the background
    /// thread; 0 in a volatile store.
    pub commits: u64,
    /// The operations on the medium. See [`MediumStatistics`] for whose they are.
    pub medium: MediumStatistics,
    /// Reads that found their key,
    pub hits: u64,
    /// ... and that did not.
    pub misses: u64,
    /// Keys that were deleted because they had expired.
    pub expired_keys: u64,
    /// The longest CPU time during which background work held a lock.
    pub longest_lock_hold: Duration,
    /// Pages whose contents the medium lost.
    pub media_errors: u64,
    /// Keys that were found to be damaged: they are answered with
    /// [`Error::Damaged`](crate::Error::Damaged) until they are deleted or set again.
    pub damaged_keys: u64,
    /// Whether a durable step has failed: no more writes are taken until the store is opened again.
    pub is_read_only: bool,
    /// The journal, if the store has one.
    pub journal: Option<JournalStatistics>,
}

/// The medium's operations by the threads that called any store of the process, and by those of the
/// stores themselves: a thread counts for itself, whichever store it works on. A volatile store
/// makes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MediumStatistics {
    /// Fences: one for each commit, and those of opening, growing and background work.
    pub fences: u64,
    /// Cache lines of 64 bytes that were flushed.
    pub lines: u64,
    /// Bytes that were written past the cache.
    pub streamed_bytes: u64,
}

impl MediumStatistics {
    /// Returns the bytes that were written: those of whole lines, and those past the cache.
    pub fn bytes(&self) -> u64 {
        self.lines * 64 + self.streamed_bytes
    }
}

/// Counts of a store's journal since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalStatistics {
    /// Batches that were written; each has the lines of all commits since the previous one.
    pub batches: u64,
    /// Bytes that were written to it,
    pub bytes_written: u64,
    /// ... and from it to the pool's file.
    pub bytes_applied: u64,
    /// Bytes that are in it now and not yet in the pool's file,
    pub bytes_unapplied: u64,
    /// ... and the bytes that it has space for.
    pub capacity: u64,
    /// Bytes of lines that are not synced now: a power loss would take them.
    pub bytes_unsynced: u64,
    /// The age of the oldest write that is not synced; zero if all are. Under
    /// [`Durability::Interval`](crate::Durability::Interval) calls wait before it exceeds the
    /// interval by a second.
    pub unsynced_age: Duration,
    /// How often a writer waited because the journal was full.
    pub full_waits: u64,
    /// The total time of all syncs of batches,
    pub sync_time: Duration,
    /// ... and the distribution of their times.
    pub sync_times: SyncTimes,
}

/// The distribution of sync times, by powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncTimes([u64; pmem::SYNC_TIMES]);

impl SyncTimes {
    /// Returns how many syncs there were.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns each bound, and the number of syncs that took up to it and longer than the previous
    /// one: 1 microsecond, 2, 4 and so on. The last bound, of 8.4 seconds, includes all longer
    /// ones.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.0.iter().enumerate().map(|(n, count)| (bound(n), *count))
    }

    /// Returns a time that this share of the syncs (0.99 for 99 %) did not exceed: the bound of its
    /// bucket, which may be up to twice as long. `None` if there were none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.buckets().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        reached.map(|(bound, _)| bound)
    }
}

fn bound(bucket: usize) -> Duration {
    Duration::from_micros(1 << bucket)
}

impl Perdura {
    /// Returns counts since the store was opened, and its present state. It takes no lock of the
    /// store, and blocks nobody; it reads some words for each shard and database, so call it once a
    /// second rather than after each operation.
    pub fn statistics(&self) -> Statistics {
        let (keyspace, heap) = (&self.keyspace, self.keyspace.heap());
        let counts = Db::all().map(|db| keyspace.count(db));
        let (keys, keys_with_ttl) =
            counts.fold((0, 0), |sum, (keys, with_ttl)| (sum.0 + keys, sum.1 + with_ttl));
        let stats = keyspace.stats();
        let medium = pmem::total_counters();
        Statistics {
            keys,
            keys_with_ttl,
            usage: self.usage(),
            commits: heap.lsn() - self.first_lsn,
            medium: MediumStatistics {
                fences: medium.fences,
                lines: medium.lines,
                streamed_bytes: medium.streamed,
            },
            hits: stats.hits,
            misses: stats.misses,
            expired_keys: stats.expired,
            longest_lock_hold: Duration::from_nanos(keyspace.longest_lock_hold_ns()),
            media_errors: heap.region().media_errors(),
            damaged_keys: keyspace.damaged_keys(),
            is_read_only: heap.is_poisoned() || self.journal_failure().is_some(),
            journal: self.journal_statistics(),
        }
    }

    fn journal_statistics(&self) -> Option<JournalStatistics> {
        let region = self.region();
        let counts = region.journal_counts()?;
        // The synced position is read first: it never passes the appended one.
        let synced = region.synced();
        Some(JournalStatistics {
            batches: counts.batches,
            bytes_written: counts.bytes_written,
            bytes_applied: counts.bytes_applied,
            bytes_unapplied: counts.used,
            capacity: counts.capacity,
            bytes_unsynced: region.appended() - synced,
            unsynced_age: Duration::from_nanos(counts.unsynced_ns),
            full_waits: counts.full_waits,
            sync_time: Duration::from_nanos(counts.batch_sync_ns),
            sync_times: SyncTimes(counts.batch_sync_times),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_bound_of_its_bucket() {
        let mut times = SyncTimes([0; pmem::SYNC_TIMES]);
        assert_eq!((times.count(), times.quantile(0.5)), (0, None));
        (times.0[3], times.0[10], times.0[23]) = (98, 1, 1);
        let check = |share, microseconds| {
            assert_eq!(times.quantile(share), Some(Duration::from_micros(microseconds)), "{share}");
        };
        check(0.0, 8);
        check(0.5, 8);
        check(0.98, 8);
        check(0.99, 1024);
        check(1.0, 8_388_608);
        assert_eq!(times.count(), 100);
    }
}
