//! The state that appending, the writer and checkpoints share: the files, how far each has come,
//! the failure.
//!
//! Four locks, taken in this order: the checkpoint's, the writer's, the superblock's, the buffer's.
//! A thread that appends takes only the buffer's, while it copies its words. The writer's is held
//! during a write and a sync of the journal, so that a thread that waits for it finds its own words
//! written by the previous one: one thread writes for all. The checkpoint's is held for a group of
//! pages; no writer waits for it unless the ring is full.
//!
//! Two more locks are held during one system call each. The kernel reports a page that it could not
//! write only once, to the next sync: so the syncs of a file run one after the other, and each sees
//! the failure of the previous one.

use super::background::Attention;
use super::batch::BatchBuffer;
use super::checkpoint::Checkpointer;
use super::dirty_pages::DirtyPages;
use super::error::JournalError;
use super::limit::OpenSuperblock;
use super::pace::Pace;
use super::place::JournalPlace;
use super::storage::Storage;
use super::unsynced::UnsyncedWrites;
use super::writer::Writer;
use crate::clock::{Clock, MachineClock};
use crate::scheduler::lock;
use std::fmt::Display;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The journal of a region.
pub(crate) struct Journal {
    pub(super) place: JournalPlace,
    /// The size in bytes up to which the ring grows.
    pub(super) capacity: u64,
    pub(super) pool: Arc<dyn Storage>,
    pub(super) buffer: Mutex<Buffer>,
    pub(super) writer: Mutex<Option<Writer>>,
    pub(super) superblock: Mutex<Option<OpenSuperblock>>,
    pub(super) checkpointer: Mutex<Option<Checkpointer>>,
    pub(super) progress: Progress,
    /// Wakes the threads that do the background work.
    pub(super) attention: Arc<Attention>,
    pub(super) clock: Arc<dyn Clock>,
    syncing_file: Mutex<()>,
    syncing_pool: Mutex<()>,
    /// Nothing is applied: the journal keeps what it has.
    pub(super) held: AtomicBool,
    failure: OnceLock<String>,
}

/// Words that were fenced and have not been written.
#[derive(Default)]
pub(super) struct Buffer {
    pub(super) batch: BatchBuffer,
    /// Position after the last word.
    pub(super) end: u64,
    /// Maximum length of the batch; 0 while no journal is in use: then a fence writes to the pool's
    /// file.
    pub(super) longest: u64,
    /// Position in the ring after the previous batches, where this one may begin.
    pub(super) ring_at: u64,
    /// Pages that the pool's file lacks.
    pub(super) dirty: DirtyPages,
}

/// How far each step has come. Positions of words count the bytes appended since the journal was
/// opened; positions in the ring count its bytes since it was created.
#[derive(Default)]
pub(super) struct Progress {
    /// Position after the words that were appended,
    pub(super) appended: AtomicU64,
    /// ... written to the journal's file,
    pub(super) written: AtomicU64,
    /// ... and synced.
    pub(super) synced: AtomicU64,
    /// Position in the ring after everything that was written,
    pub(super) head: AtomicU64,
    /// ... and the start of what is not in the pool's file.
    pub(super) tail: AtomicU64,
    /// All batches before this sequence number are synced.
    pub(super) synced_sequence: AtomicU64,
    /// Position before which all batches must end: the superblock's limit.
    pub(super) limit: AtomicU64,
    /// The limit was put no further ahead than at rest.
    pub(super) rests: AtomicBool,
    /// Bytes of the ring; 0 before a journal is in use.
    pub(super) capacity: AtomicU64,
    /// The number of bytes up to which the ring may grow.
    pub(super) most_capacity: AtomicU64,
    /// The length of the ring that should become longer; 0 if none should,
    pub(super) wants_growth: AtomicU64,
    /// ... and not before this time, in nanoseconds of the clock.
    pub(super) growth_after: AtomicU64,
    /// Its content would be elsewhere in a longer ring, and must be applied first.
    pub(super) growth_lacks_place: AtomicBool,
    /// When the oldest unsynced write was made, in nanoseconds of the clock plus 1; 0 if there is
    /// none.
    oldest_unsynced: AtomicU64,
    /// All of the ring has been written at least once.
    pub(super) is_written: AtomicBool,
    /// The journal's file is persistent memory.
    pub(super) is_mapped: AtomicBool,
    /// How fast writers may fill the ring.
    pub(super) pace: Pace,
    counts: [AtomicU64; Count::COUNTS],
    sync_times: [AtomicU64; SYNC_TIMES],
}

impl Progress {
    /// Publishes when the oldest unsynced write was made.
    pub(super) fn note_unsynced(&self, writes: &UnsyncedWrites) {
        let oldest = writes.oldest().map_or(0, |time| time.as_nanos() as u64 + 1);
        self.oldest_unsynced.store(oldest, Ordering::Release);
    }

    pub(super) fn count(&self, count: Count, by: u64) {
        self.counts[count as usize].fetch_add(by, Ordering::Relaxed);
    }

    pub(super) fn counted(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    fn count_sync(&self, time: Duration) {
        self.count(Count::BatchSyncs, 1);
        self.count(Count::BatchSyncNanos, time.as_nanos() as u64);
        self.sync_times[sync_time(time)].fetch_add(1, Ordering::Relaxed);
    }
}

/// What is counted.
#[derive(Clone, Copy)]
pub(super) enum Count {
    Batches,
    Syncs,
    Applied,
    FullWaits,
    FullWaitNanos,
    BytesWritten,
    BytesApplied,
    BatchSyncs,
    BatchSyncNanos,
    RecoveredBatches,
    RecoveredBytes,
    RecoveryNanos,
}

impl Count {
    const COUNTS: usize = Count::RecoveryNanos as usize + 1;
}

/// Number of buckets for the times of syncs: bucket n is for up to 2^n microseconds; the last also
/// has all longer times.
pub const SYNC_TIMES: usize = 24;

/// Returns the bucket of a time.
fn sync_time(time: Duration) -> usize {
    let microseconds = time.as_nanos().div_ceil(1000).max(1) as u64;
    (microseconds.next_power_of_two().ilog2() as usize).min(SYNC_TIMES - 1)
}

/// What a journal has done since the region was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalCounts {
    /// Batches that were written.
    pub batches: u64,
    /// Syncs of the journal's file.
    pub syncs: u64,
    /// Checkpoint passes: how many times all changed pages were written.
    pub applied: u64,
    /// How many times a writer found the ring full and waited,
    pub full_waits: u64,
    /// ... and the nanoseconds that writers waited for space in it.
    pub full_wait_ns: u64,
    /// Bytes written to the journal, including padding.
    pub bytes_written: u64,
    /// Bytes written to the pool's file.
    pub bytes_applied: u64,
    /// Syncs that made batches durable,
    pub batch_syncs: u64,
    /// ... the nanoseconds that they took,
    pub batch_sync_ns: u64,
    /// ... and how many took up to 2^n microseconds, and longer than 2^(n-1).
    pub batch_sync_times: [u64; SYNC_TIMES],
    /// Batches that the opening read,
    pub recovered_batches: u64,
    /// ... the bytes of their words,
    pub recovered_bytes: u64,
    /// ... and the nanoseconds that it took to read and store them.
    pub recovery_ns: u64,
    /// Bytes of the ring in use now, that is, not applied.
    pub used: u64,
    /// Bytes of the whole ring; 0 before a journal is in use.
    pub capacity: u64,
    /// Nanoseconds since the oldest unsynced write; 0 if there is none.
    pub unsynced_ns: u64,
    /// The journal's file is persistent memory, or counts as such: a fence makes it durable.
    pub is_mapped: bool,
}

impl Journal {
    pub(crate) fn new(place: JournalPlace, capacity: u64, pool: Arc<dyn Storage>) -> Journal {
        Journal {
            place,
            capacity,
            pool,
            buffer: Mutex::default(),
            writer: Mutex::new(None),
            superblock: Mutex::new(None),
            checkpointer: Mutex::new(None),
            progress: Progress::default(),
            attention: Arc::default(),
            clock: Arc::new(MachineClock::default()),
            syncing_file: Mutex::default(),
            syncing_pool: Mutex::default(),
            held: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    /// Uses another clock.
    #[cfg(feature = "sim")]
    pub(crate) fn go_by(&mut self, clock: Arc<dyn Clock>) {
        self.clock = clock;
    }

    /// Returns a number for a new journal: see [`JournalPlace::new_number`].
    pub(crate) fn new_number(&self, simulated: u64) -> Result<u64, JournalError> {
        Ok(self.place.new_number(simulated)?)
    }

    /// Returns the counts.
    pub(crate) fn counts(&self) -> JournalCounts {
        let Progress { counts, sync_times, head, tail, capacity, is_mapped, .. } = &self.progress;
        let counted = |count: Count| counts[count as usize].load(Ordering::Relaxed);
        // The tail is read first, so that it never exceeds the head.
        let tail = tail.load(Ordering::Acquire);
        JournalCounts {
            batches: counted(Count::Batches),
            syncs: counted(Count::Syncs),
            applied: counted(Count::Applied),
            full_waits: counted(Count::FullWaits),
            full_wait_ns: counted(Count::FullWaitNanos),
            bytes_written: counted(Count::BytesWritten),
            bytes_applied: counted(Count::BytesApplied),
            batch_syncs: counted(Count::BatchSyncs),
            batch_sync_ns: counted(Count::BatchSyncNanos),
            batch_sync_times: sync_times.each_ref().map(|count| count.load(Ordering::Relaxed)),
            recovered_batches: counted(Count::RecoveredBatches),
            recovered_bytes: counted(Count::RecoveredBytes),
            recovery_ns: counted(Count::RecoveryNanos),
            used: head.load(Ordering::Acquire) - tail,
            capacity: capacity.load(Ordering::Relaxed),
            unsynced_ns: self.unsynced_age().as_nanos() as u64,
            is_mapped: is_mapped.load(Ordering::Relaxed),
        }
    }

    /// Returns the age of the oldest unsynced write; 0 if there is none.
    pub(crate) fn unsynced_age(&self) -> Duration {
        match self.progress.oldest_unsynced.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            after => self.clock.now().saturating_sub(Duration::from_nanos(after - 1)),
        }
    }

    /// Fails after an earlier failure.
    #[inline]
    pub(super) fn check(&self) -> Result<(), JournalError> {
        match self.failure.get() {
            None => Ok(()),
            Some(cause) => Err(JournalError::Failed(cause.clone())),
        }
    }

    /// Returns the cause of the first failure.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Records a permanent failure: nothing is written, synced or applied any more.
    #[cold]
    pub(super) fn fail(&self, step: &str, cause: impl Display) -> JournalError {
        let first = self.failure.get_or_init(|| format!("{step}: {cause}"));
        JournalError::Failed(first.clone())
    }

    /// Syncs the journal's file.
    pub(super) fn sync_file(&self, file: &dyn Storage) -> Result<(), JournalError> {
        self.progress.count(Count::Syncs, 1);
        self.sync(&self.syncing_file, file, "sync the journal")
    }

    /// Syncs batches that were written to the journal's file.
    pub(super) fn sync_batches(&self, file: &dyn Storage) -> Result<(), JournalError> {
        let begin = self.clock.now();
        self.sync_file(file)?;
        self.progress.count_sync(self.clock.now().saturating_sub(begin));
        Ok(())
    }

    /// Writes to the pool's file, which must still be synced.
    pub(super) fn write_to_pool(&self, bytes: &[u8], at: u64) -> Result<(), JournalError> {
        self.pool.write_at(bytes, at).map_err(|error| self.fail("write to the pool", error))
    }

    /// Writes runs of pages to the pool's file, which must still be synced.
    pub(super) fn write_runs_to_pool(&self, runs: &[(u64, &[u8])]) -> Result<(), JournalError> {
        self.pool.write_runs(runs).map_err(|error| self.fail("write to the pool", error))
    }

    /// Syncs the pool's file.
    pub(super) fn sync_pool(&self) -> Result<(), JournalError> {
        self.sync(&self.syncing_pool, &*self.pool, "sync the pool")
    }

    fn sync(
        &self,
        one_at_a_time: &Mutex<()>,
        file: &dyn Storage,
        step: &str,
    ) -> Result<(), JournalError> {
        let _one_at_a_time = locked(one_at_a_time);
        self.check()?;
        file.sync().map_err(|error| self.fail(step, error))
    }

    /// Makes the pool's file at least `len` bytes long, with space for some parts; its next sync
    /// makes that durable.
    pub(crate) fn allocate_parts(&self, parts: &[Range<u64>], len: u64) -> io::Result<()> {
        self.pool.allocate_parts(parts, len)
    }

    /// Gives the pool's file space for `[from, to)`, which may be empty, and syncs it.
    pub(crate) fn allocate(&self, from: u64, to: u64) -> Result<(), AllocateError> {
        self.check().map_err(AllocateError::Failed)?;
        if from < to {
            self.pool.allocate(from, to).map_err(AllocateError::Refused)?;
        }
        self.sync_pool().map_err(AllocateError::Failed)
    }
}

/// Why the pool's file could not get space.
pub(crate) enum AllocateError {
    /// The file is at least as long as before.
    Refused(io::Error),
    Failed(JournalError),
}

/// Locks a mutex, even if a thread panicked while holding it: a half-done operation has failed the
/// journal for good.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    lock(mutex).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_where_its_bound_is() {
        let check = |nanoseconds, expected| {
            assert_eq!(sync_time(Duration::from_nanos(nanoseconds)), expected, "{nanoseconds} ns");
        };
        check(0, 0);
        check(1000, 0);
        check(1001, 1);
        check(2000, 1);
        check(2001, 2);
        check(900_000, 10);
        check(1_024_000, 10);
        check(1_024_001, 11);
        check(3600 * 1_000_000_000, 23);
        check(u64::MAX, 23);
    }
}
