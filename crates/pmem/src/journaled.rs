//! The domain `journal`: a region whose stores stay in memory, and whose flushed words are appended
//! to a journal at every fence.
//!
//! A fence passes its words to the journal and returns. They are durable when the journal is synced
//! up to the position that [`Region::appended`] returned after the fence. Before a journal is
//! begun, and after its use has ended, a fence writes its words to the file and syncs it: so a pool
//! is created, and its header written, in its file itself.

#![allow(unsafe_code, reason = "words are copied out of the working memory, and stored into it")]

use crate::error::GrowError;
use crate::guess;
use crate::journal::{
    self, AllocateError, ChargedClient, CopyWords, Journal, JournalCounts, JournalError,
    JournalFile, JournalId, JournalReading, JournalRecovery, Kept, PROGRESS_BYTES, WordRange,
};
use crate::mapping::PAGE;
use crate::region::Region;
use crate::scheduler::lock;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// When it is durable.
    Always,
    /// When the kernel has it; it is synced once a second. If a sync is so late that an unsynced
    /// write is two seconds old, acknowledgements wait for it.
    #[default]
    EverySecond,
    /// When the kernel has it.
    No,
}

impl SyncPolicy {
    /// Returns the interval at which [`JournalThread`](crate::JournalThread) syncs under the
    /// policy. If replies wait for syncs, the thread does it for words that nobody waits for.
    pub fn sync_every(self) -> Option<Duration> {
        match self {
            SyncPolicy::Always | SyncPolicy::EverySecond => Some(Duration::from_secs(1)),
            SyncPolicy::No => None,
        }
    }
}

/// Maximum age of an unsynced write under [`SyncPolicy::EverySecond`] before acknowledgements wait
/// for its sync.
const LATE: Duration = Duration::from_secs(2);

impl Region {
    /// Returns the position after all words that any thread has fenced so far: whatever a reader
    /// saw is durable when the journal is synced up to there. 0 without a journal.
    #[inline]
    pub fn appended(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.appended())
    }

    /// Returns the position up to which words are durable.
    pub fn synced(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.synced())
    }

    /// Returns when all words up to `position` are durable. Threads that wait at the same time
    /// share one write and one sync.
    pub fn sync_up_to(&self, position: u64) -> Result<(), JournalError> {
        self.with_the_journal(|journal| journal.sync_up_to(position))
    }

    /// Makes everything fenced so far durable, while other threads may write. Called periodically,
    /// for words that nobody waits for.
    pub fn sync_in_background(&self) -> Result<(), JournalError> {
        self.with_the_journal(Journal::sync_in_background)
    }

    /// Returns when the kernel has all words up to `position`: they survive the end of the process.
    pub fn write_up_to(&self, position: u64) -> Result<(), JournalError> {
        self.with_the_journal(|journal| journal.write_up_to(position))
    }

    /// Returns when the kernel has all words up to `position`, and no unsynced write is as old as
    /// `age`: waits for a late sync.
    pub fn write_within(&self, position: u64, age: Duration) -> Result<(), JournalError> {
        self.with_the_journal(|journal| journal.write_within(position, age))
    }

    /// Returns when everything fenced up to `position` may be acknowledged.
    pub fn acknowledge(&self, position: u64, policy: SyncPolicy) -> Result<(), JournalError> {
        match policy {
            SyncPolicy::Always => self.sync_up_to(position),
            SyncPolicy::EverySecond => self.write_within(position, LATE),
            SyncPolicy::No => self.write_up_to(position),
        }
    }

    /// Continues a checkpoint by one group of pages, which are written to the file, or begins one;
    /// returns false if the file has everything that was written to the journal, or the journal is
    /// held ([`Region::hold_journal`]).
    pub fn checkpoint_step(&self) -> Result<bool, JournalError> {
        let mut more = false;
        self.with_journal_and_words(|journal, copy| {
            more = journal.checkpoint_step(copy)?;
            Ok(())
        })?;
        Ok(more)
    }

    /// Writes everything fenced into the file: durably, the file alone then has it.
    pub fn checkpoint(&self) -> Result<(), JournalError> {
        self.with_journal_and_words(Journal::checkpoint)
    }

    /// Returns what the journal has done so far; `None` without a journal.
    pub fn journal_counts(&self) -> Option<JournalCounts> {
        self.journal.as_ref().map(|journal| journal.counts())
    }

    /// Returns how long a client that has just fenced this many bytes should wait before it goes
    /// on, so that the journal does not become full. If nobody waits, a fence may have to. The wait
    /// is over when the journal [is half full](Region::is_half_full) no more.
    pub fn charge(&self, bytes: u64, client: &mut ChargedClient) -> Duration {
        self.journal.as_ref().map_or(Duration::ZERO, |journal| journal.charge(bytes, client))
    }

    /// Returns true while more than half of the journal is in use: those that have written wait.
    pub fn is_half_full(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.is_half_full())
    }

    /// Returns true while no write should begin, since it might have to wait for the journal's
    /// space in a fence. That ends by itself, as the background applies; or the journal fails.
    #[inline]
    pub fn is_nearly_full(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.is_nearly_full())
    }

    /// As [`Region::is_nearly_full`], for writes that take this many bytes in all: at most half of
    /// the journal is left for them.
    pub fn lacks_space_for(&self, bytes: u64) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.lacks_space_for(bytes))
    }

    /// Returns true while an acknowledgement under [`SyncPolicy::EverySecond`] has to wait for a
    /// sync that is late.
    pub fn is_sync_late(&self) -> bool {
        let journal = self.journal.as_ref();
        journal.is_some_and(|journal| journal.unsynced_age() >= LATE && journal.failure().is_none())
    }

    /// Returns why the journal failed, if it did.
    pub fn journal_failure(&self) -> Option<&str> {
        self.journal.as_ref().and_then(|journal| journal.failure())
    }

    /// Returns a random number for a new journal. A simulation's number is given.
    pub fn new_journal_number(&self, simulated: u64) -> Result<u64, JournalError> {
        let Some(journal) = &self.journal else { return Ok(simulated) };
        journal.new_number(simulated)
    }

    /// Returns how much of the acknowledged data the files still have after the journal failed.
    pub fn kept_by_journal(&self) -> Option<Kept> {
        self.journal.as_ref().and_then(|journal| journal.kept())
    }

    /// Returns the place of the file of the journal in use, and whether it has its full length.
    pub fn journal_file(&self) -> Option<JournalFile> {
        self.journal.as_ref().and_then(|journal| journal.file())
    }

    /// Holds the journal, or ends that: while it is held, nothing is applied, and its use does not
    /// end ([`JournalError::Held`]). When this returns, nothing is being applied. A fence fails if
    /// the journal has no space for its words: nobody should be writing.
    pub fn hold_journal(&self, yes: bool) {
        if let Some(journal) = &self.journal {
            journal.hold(yes);
        }
    }

    /// Returns true while the journal is held.
    pub fn journal_is_held(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.is_held())
    }

    /// Begins an empty journal with a new number. Fences go to the file until
    /// [`Region::start_journal`], which must be called when the file names the journal. From here
    /// on the line at `progress_at` belongs to the journal, which records its progress there. The
    /// next fence makes that durable.
    pub fn begin_journal(&self, id: JournalId, progress_at: u64) -> Result<(), JournalError> {
        self.with_the_journal(|journal| journal.begin(id, progress_at))
    }

    /// Makes fences go to the journal that was begun.
    pub fn start_journal(&self) {
        if let Some(journal) = &self.journal {
            journal.start();
        }
    }

    /// Stores the batches of the journal that the file names into the working memory. From here on
    /// fences go to the journal. Nobody else uses the region meanwhile. The line at `progress_at`
    /// is that of [`Region::begin_journal`].
    pub fn recover_journal(
        &self,
        id: JournalId,
        progress_at: u64,
    ) -> Result<JournalRecovery, JournalError> {
        let mut recovery = JournalRecovery::default();
        self.with_the_journal(|journal| {
            let said = self.progress_line(progress_at);
            let store = |range: WordRange, bytes: &[u8]| self.store_words(range, bytes);
            recovery = journal.recover(id, progress_at, &said, &store)?;
            Ok(())
        })?;
        Ok(recovery)
    }

    /// Stores the batches of the journal that a file names into a private copy of the file, up to
    /// the end or the first damage. Only this memory is changed. Nobody else uses the region
    /// meanwhile.
    pub fn read_journal(
        &self,
        id: JournalId,
        progress_at: u64,
    ) -> Result<JournalReading, JournalError> {
        let path = self.journal_to_read.as_deref().filter(|_| self.is_private());
        let missing = || JournalError::Missing { path: PathBuf::new() };
        let line = self.progress_line(progress_at);
        let store = |range: WordRange, bytes: &[u8]| self.store_words(range, bytes);
        journal::read(path.ok_or_else(missing)?, id, &line, &store)
    }

    /// Returns the file's record of its journal's progress; zeros if the file is too short for one.
    fn progress_line(&self, at: u64) -> [u8; PROGRESS_BYTES] {
        let mut line = [0; PROGRESS_BYTES];
        if at + PROGRESS_BYTES as u64 <= self.len() {
            for (n, word) in line.chunks_exact_mut(8).enumerate() {
                word.copy_from_slice(&self.load(at + 8 * n as u64).to_le_bytes());
            }
        }
        line
    }

    /// Refuses a private copy of a file that names no journal although its journal holds writes.
    pub fn refuse_unnamed_journal(&self, id: JournalId) -> Result<(), JournalError> {
        let path = self.journal_to_read.as_deref();
        path.map_or(Ok(()), |path| journal::refuse_unnamed(path, id))
    }

    /// Writes everything into the file and ends the use of the journal: fences go to the file
    /// again.
    pub fn end_journal(&self) -> Result<(), JournalError> {
        self.with_journal_and_words(Journal::end)
    }

    /// Runs an operation of the journal, if there is one. If it fails, every fence fails from here
    /// on.
    pub(crate) fn with_the_journal(
        &self,
        work: impl FnOnce(&Journal) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let done = work(journal);
        if journal.failure().is_some() {
            self.fail();
        }
        done
    }

    /// Runs an operation of the journal that copies words of the working memory.
    pub(crate) fn with_journal_and_words(
        &self,
        work: impl FnOnce(&Journal, CopyWords<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let copy = |range: WordRange, out: &mut Vec<u8>| {
            self.copy_words(range, out);
            !self.watch.has_quarantined()
        };
        self.with_the_journal(|journal| work(journal, &copy))
    }

    /// The fence: appends the calling thread's words.
    pub(crate) fn append_flushed(&self) {
        let appended = self.with_journal_and_words(|journal, copy| {
            journal::take(self.id, |ranges| journal.append(ranges, copy))
        });
        if appended.is_err() {
            self.fail();
        }
    }

    /// Copies words to the end of a vector: those that a thread has flushed, or all of a page.
    /// Another thread may be storing words or bytes into them that it has not flushed: each word is
    /// copied whole, as of some moment.
    fn copy_words(&self, range: WordRange, out: &mut Vec<u8>) {
        let (off, len) = range.bytes();
        out.reserve(len);
        let to = out.spare_capacity_mut().as_mut_ptr();
        let from = self.mapping.base().wrapping_add(off as usize);
        // SAFETY: words of lines before the end of some that were flushed, which were inside the
        // region; the vector has space for their bytes, which nobody else has.
        unsafe { guess::copy_words(to.cast(), from.cast(), range.words as usize) };
        // SAFETY: these bytes were just written.
        unsafe { out.set_len(out.len() + len) };
    }

    /// Stores words of the journal; returns false if they are not inside the region.
    fn store_words(&self, range: WordRange, bytes: &[u8]) -> bool {
        let (off, _) = range.bytes();
        let inside = off.checked_add(bytes.len() as u64).is_some_and(|end| end <= self.len());
        if inside {
            // SAFETY: the region is being opened: nobody else uses it.
            unsafe { self.write(off, bytes) };
        }
        inside
    }

    /// Extends the file and the working memory by the bytes `[old, new)`.
    pub(crate) fn extend_journaled(
        &self,
        journal: &Journal,
        old: u64,
        new: u64,
    ) -> Result<(), GrowError> {
        if old >= new {
            // An earlier process allocated this: the length must be made durable.
            return self.allocate_journaled(journal, new, new);
        }
        self.allocate_journaled(journal, old, new)?;
        self.map_zeros(old, new)
    }

    /// Makes a new region this long. With a journal, only some parts get space in the file
    /// ([`Region::back`] gives others theirs), and the next fence makes that durable; all of it
    /// gets space if the file does not report where it has none.
    pub fn begin_sparse(&self, len: u64, parts: &[Range<u64>]) -> Result<(), GrowError> {
        let Some(journal) = &self.journal else { return self.grow(len) };
        self.grow_by(len, |old| {
            journal.allocate_parts(parts, len).map_err(|source| refused(len, source))?;
            let first = parts.first().map_or(0, |part| part.end);
            if self.file.is_some() && self.hole_in(first, len).is_none() {
                self.allocate_journaled(journal, 0, len)?;
            }
            self.map_zeros(old, len)
        })
    }

    /// Reserves space in the file, durably, for bytes of a region with a journal, whatever they
    /// are.
    pub fn reserve_space(&self, from: u64, to: u64) -> Result<(), GrowError> {
        let Some(journal) = self.journal.as_ref().filter(|_| self.file.is_some()) else {
            return Ok(());
        };
        let _one_at_a_time = lock(&self.growing).unwrap_or_else(PoisonError::into_inner);
        self.allocate_journaled(journal, from, to)
    }

    /// Maps zeros over the bytes `[old, new)` that the region gets.
    fn map_zeros(&self, old: u64, new: u64) -> Result<(), GrowError> {
        if old < new && self.file.is_some() && old.is_multiple_of(PAGE) {
            let end = new.next_multiple_of(PAGE);
            // SAFETY: bytes after the region's length, which grows only after this: nobody has an
            // address there.
            let put = unsafe { self.mapping.put_zeros(old, end) };
            put.map_err(|errno| GrowError::Io { wanted: new, step: "map", source: errno.into() })?;
        }
        Ok(())
    }

    /// Reserves space in the file for `[from, to)`, durably.
    pub(crate) fn allocate_journaled(
        &self,
        journal: &Journal,
        from: u64,
        to: u64,
    ) -> Result<(), GrowError> {
        journal.allocate(from, to).map_err(|error| match error {
            AllocateError::Refused(source) => refused(to, source),
            AllocateError::Failed(error) => {
                self.fail();
                GrowError::Io { wanted: to, step: "sync", source: io::Error::other(error) }
            }
        })
    }

    /// Makes everything that was flushed and fenced durable in the file itself.
    pub(crate) fn sync_journaled(&self, journal: &Journal) -> io::Result<()> {
        self.checkpoint().map_err(io::Error::other)?;
        let synced = journal.allocate(self.len(), self.len());
        match synced {
            Ok(()) => Ok(()),
            Err(AllocateError::Refused(error)) => Err(error),
            Err(AllocateError::Failed(error)) => {
                self.fail();
                Err(io::Error::other(error))
            }
        }
    }
}

/// Returns why a file got no space.
fn refused(wanted: u64, source: io::Error) -> GrowError {
    match source.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => GrowError::NoSpace { wanted },
        _ => GrowError::Io { wanted, step: "allocate", source },
    }
}
