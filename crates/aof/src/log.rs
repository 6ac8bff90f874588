//! The log for appending: the state that all threads share, and their calls.
//!
//! There are two locks. The buffer's is held for copying bytes, also by threads that hold shards:
//! the order in which threads get it is the order of the log. The writer's is held by the thread
//! that writes out, during its I/O. A thread that needs something durable takes the writer's lock
//! and becomes the leader: it writes and syncs the whole buffer. Threads that queued after it then
//! find their bytes durable, or lead the next group.
//!
//! Offsets count appended bytes since the log was opened. `written` and `durable` only grow.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Failure, LoadError, OpenError, RewriteError};
use crate::everysec::Ticker;
use crate::growth::Growth;
use crate::lock::lock;
use crate::manifest::Manifest;
use crate::options::{Fsync, Options};
use crate::rewrite::Rewrite;
use crate::shared::Shared;
use crate::sync_times::SYNC_TIMES;
use crate::writer::Writer;

/// A log of commands in files.
pub struct Aof {
    pub(crate) shared: Arc<Shared>,
    ticker: Ticker,
}

/// Figures for INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes of all files.
    pub current_size: u64,
    /// Bytes after the last rewrite, or of the base at the start.
    pub base_size: u64,
    /// Bytes that are not yet written out.
    pub buffered: usize,
    /// Whether a sync runs in the background.
    pub syncing: bool,
    /// Syncs since the log was opened,
    pub syncs: u64,
    /// ... their total time in nanoseconds,
    pub sync_ns: u64,
    /// ... and the numbers of those that took up to 2^n microseconds, and longer than 2^(n-1).
    pub sync_times: [u64; SYNC_TIMES],
    /// Whether a rewrite is running.
    pub rewriting: bool,
    /// Rewrites that came to their end.
    pub rewrites: u64,
    /// Whether the last one succeeded.
    pub last_rewrite_ok: bool,
    /// Failed rewrites since the last good one.
    pub failed_rewrites: u64,
}

impl Aof {
    pub(crate) fn open(
        options: Options,
        manifest: Manifest,
        size: u64,
        base_len: u64,
    ) -> Result<Aof, OpenError> {
        let writer = Writer::open(&options, manifest, size)?;
        let shared = Arc::new(Shared::new(options, writer, base_len));
        let ticker = Ticker::start(Arc::clone(&shared));
        Ok(Aof { shared, ticker })
    }

    /// Returns a log that is switched off, without reading the existing one: that stays as it is
    /// until a finished rewrite ([`Aof::begin_again`]) replaces it.
    pub fn open_off(options: Options) -> Result<Aof, LoadError> {
        let manifest = options.read_manifest()?;
        let shared = Arc::new(Shared::new(options, Writer::off(manifest), 0));
        lock(&shared.buffer).mute(true);
        let ticker = Ticker::start(Arc::clone(&shared));
        Ok(Aof { shared, ticker })
    }

    /// Notes that a command which had begun before there was a log was committed without being
    /// appended. Until a later rewrite has ended, the log is not complete.
    pub fn note_skipped(&self) {
        self.shared.skipped.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns how often that was noted.
    pub fn skipped(&self) -> u64 {
        self.shared.skipped.load(Ordering::Acquire)
    }

    /// Notes that the log contains the commands that were skipped up to this count.
    pub fn cover_skipped(&self, skipped: u64) {
        self.shared.covered.store(skipped, Ordering::Release);
    }

    /// Returns true if a commit is missing in the log.
    pub fn has_skipped(&self) -> bool {
        self.skipped() != self.shared.covered.load(Ordering::Acquire)
    }

    /// Appends encoded commands, the first of which needs database `first` selected and the last of
    /// which leaves `last` selected; SELECT is added where needed. Returns the offset at which they
    /// end. To be called while the changed data is locked.
    pub fn append(&self, first: u32, last: u32, commands: &[u8]) -> u64 {
        lock(&self.shared.buffer).append(first, last, commands)
    }

    /// Returns the offset of the last byte appended.
    pub fn end(&self) -> u64 {
        lock(&self.shared.buffer).end()
    }

    /// Returns the offset up to which a power loss takes nothing.
    pub fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// Returns the offset up to which the end of the process takes nothing.
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Acquire)
    }

    /// Makes the log as safe as the policy demands before replies may leave that saw it up to
    /// `offset`.
    pub fn sync_up_to(&self, offset: u64) -> Result<(), Failure> {
        match self.fsync() {
            Fsync::Always if self.durable() >= offset => Ok(()),
            Fsync::Always => {
                // The ticker repeats a failed write, not each caller.
                self.shared.health.check()?;
                self.sync_to(offset)
            }
            Fsync::EverySecond | Fsync::No => self.write_to(offset),
        }
    }

    /// Waits until the kernel has the log up to `offset`: bytes that another thread has taken out
    /// of the buffer may still be on their way, or fail. A failed write is not repeated for each
    /// caller.
    pub fn write_to(&self, offset: u64) -> Result<(), Failure> {
        if self.written() >= offset {
            return Ok(());
        }
        let mut writer = lock(&self.shared.writer);
        if self.written() >= offset {
            return Ok(());
        }
        self.shared.health.check()?;
        self.shared.write_out(&mut writer)
    }

    /// Makes the log durable up to `offset`; many callers share one sync.
    pub fn sync_to(&self, offset: u64) -> Result<(), Failure> {
        if self.durable() >= offset {
            return Ok(());
        }
        let mut writer = lock(&self.shared.writer);
        if self.durable() >= offset {
            return Ok(());
        }
        self.shared.write_out(&mut writer)?;
        self.shared.sync(&writer)
    }

    /// Writes out the buffer without a sync, even while a sync is running, when Redis would put the
    /// write off for up to two seconds. The kernel may delay it for some milliseconds, but then
    /// acknowledged commands have left the process and survive its end.
    pub fn flush(&self) -> Result<(), Failure> {
        self.shared.flush()
    }

    /// Writes out and syncs everything, whatever the policy.
    pub fn sync_all(&self) -> Result<(), Failure> {
        self.sync_to(self.end())
    }

    /// Returns a copy of the bytes that are to be written again after a failed write, if all that
    /// was written is durable.
    pub fn unwritten(&self) -> Option<Vec<u8>> {
        // Nobody is writing meanwhile: bytes that are not in the file are in the buffer.
        let _writer = lock(&self.shared.writer);
        if !self.shared.health.is_stalled() || self.durable() < self.written() {
            return None;
        }
        Some(lock(&self.shared.buffer).bytes().to_vec())
    }

    /// Returns an error with the reason if the log takes no commands. A failed write is repeated
    /// about once a second, and when it has succeeded the log takes commands again; every other
    /// failure is final.
    pub fn status(&self) -> Result<(), Failure> {
        self.shared.health.check()
    }

    /// Returns the policy.
    pub fn fsync(&self) -> Fsync {
        self.shared.fsync()
    }

    /// Sets whether the files contain the times of appended commands, to the second: lines at which
    /// `redis-check-aof --truncate-to-timestamp` cuts a log.
    pub fn set_timestamps(&self, has_timestamps: bool) {
        lock(&self.shared.buffer).set_timestamps(has_timestamps);
    }

    /// Changes the policy. If it becomes `always`, all earlier commands are made durable first.
    /// That fails while a failed write waits for space, which only the other policies repeat.
    pub fn set_fsync(&self, fsync: Fsync) -> Result<(), Failure> {
        if fsync == Fsync::Always {
            self.flush()?;
        }
        self.shared.set_fsync(fsync);
        self.ticker.wake();
        match fsync {
            Fsync::Always => self.sync_all(),
            _ => Ok(()),
        }
    }

    /// Begins to replace base and increments. The caller is to call [`Rewrite::cut`] next.
    pub fn begin_rewrite(&self) -> Result<Rewrite, RewriteError> {
        Rewrite::begin(Arc::clone(&self.shared), false)
    }

    /// Returns a file of the log that is not in its place any more: moved, removed, or replaced by
    /// another one. None while the log is off, or being switched on.
    pub fn misplaced(&self) -> Option<PathBuf> {
        // Files that a rewrite removes are no longer listed when it releases this lock.
        let writer = lock(&self.shared.writer);
        if !writer.is_listed || self.is_off() {
            return None;
        }
        self.shared.options.misplaced(&writer.manifest, &*writer.file)
    }

    /// Switches the log off: it ends with the commands so far, which are durable when this returns;
    /// later ones are not part of it. It stays on if they cannot be written.
    pub fn switch_off(&self) -> Result<(), Failure> {
        self.flush()?;
        lock(&self.shared.buffer).mute(true);
        self.sync_all()
    }

    /// Begins to switch the log on again: commands are appended from [`Rewrite::cut`] on, and when
    /// the rewrite has ended the log contains everything. Until then a crash leaves it as it was
    /// when it was switched off.
    pub fn begin_again(&self) -> Result<Rewrite, RewriteError> {
        Rewrite::begin(Arc::clone(&self.shared), true)
    }

    /// Returns true if the log is switched off.
    pub fn is_off(&self) -> bool {
        lock(&self.shared.buffer).is_muted()
    }

    /// Returns true if everything that is settled would survive a crash: not while the log is
    /// switched off, nor before a rewrite has completed it again.
    pub fn is_whole(&self) -> bool {
        lock(&self.shared.writer).is_listed && !self.is_off() && !self.has_skipped()
    }

    /// Returns by how many percent the log has grown since the last rewrite, if another one is due.
    pub fn growth_due(&self, rule: Growth) -> Option<u64> {
        if self.shared.rewriting.load(Ordering::Relaxed) {
            return None;
        }
        let size = lock(&self.shared.writer).size();
        lock(&self.shared.history).due(rule, size, (self.shared.options.now)())
    }

    /// Does the work that the thread of `everysec` does once a second, for a simulation, which has
    /// its own thread for it.
    #[cfg(feature = "sim")]
    pub fn tick(&self) {
        crate::everysec::tick(&self.shared);
    }

    /// Returns figures for INFO. Waits for a running write.
    pub fn figures(&self) -> Figures {
        let current_size = lock(&self.shared.writer).size();
        let buffered = lock(&self.shared.buffer).len();
        let history = lock(&self.shared.history);
        let (sync_ns, sync_times) = self.shared.sync_times.read();
        Figures {
            current_size,
            base_size: history.base_size,
            buffered,
            syncing: self.shared.background_sync.load(Ordering::Relaxed),
            syncs: self.shared.syncs.load(Ordering::Relaxed),
            sync_ns,
            sync_times,
            rewriting: self.shared.rewriting.load(Ordering::Relaxed),
            rewrites: history.rewrites,
            last_rewrite_ok: history.failures == 0,
            failed_rewrites: history.failures,
        }
    }
}

impl Drop for Aof {
    fn drop(&mut self) {
        self.ticker.stop();
        if let Err(failure) = self.sync_all() {
            tracing::warn!("Fail to fsync the AOF file: {failure}.");
        }
    }
}
