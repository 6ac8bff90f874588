//! The state of a log that all threads share, and its writing out: from the buffer into the last
//! incremental file, and from one such file into the next.
//!
//! A write that fails or is cut short is undone, so that the file ends with a whole command.
//! Unwritten bytes go back to the front of the buffer, and the ticker tries again: they were not
//! acknowledged, and until the write succeeds nothing else is taken (`health`). With `always`,
//! where a read waits for the data that it saw, nobody sees it meanwhile. Three failures are final:
//! a partial write that could not be undone, since the next try would follow it; a write to a file
//! that is not listed; and a failed sync, since the kernel may have dropped the pages, so that a
//! second one would prove nothing.
//!
//! The next file is listed in the manifest only after the previous one is durable, and is written
//! to only after the manifest is: so a reader of the directory never finds an incomplete file
//! before another one, nor commands in an unlisted file.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use crate::buffer::{Buffer, Taken};
use crate::error::{Failure, Operation};
use crate::fault_points::FaultPoint;
use crate::growth::History;
use crate::health::Health;
use crate::lock::lock;
use crate::options::{Fsync, Options};
use crate::storage::LogFile;
use crate::sync_times::SyncTimes;
use crate::writer::Writer;

/// Memory that is kept between two writes; that of one large value is given back.
const SPARE_AT_MOST: usize = 16 << 20;

/// The state that appending threads, the ticker and a rewrite share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) buffer: Mutex<Buffer>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) written: AtomicU64,
    pub(crate) durable: AtomicU64,
    pub(crate) health: Health,
    pub(crate) background_sync: AtomicBool,
    pub(crate) syncs: AtomicU64,
    pub(crate) sync_times: SyncTimes,
    pub(crate) rewriting: AtomicBool,
    /// How often a commit was not appended.
    pub(crate) skipped: AtomicU64,
    /// How many of these the log's base contains all the same.
    pub(crate) covered: AtomicU64,
    pub(crate) history: Mutex<History>,
    fsync: AtomicU8,
}

impl Shared {
    /// Makes the state of a log whose base has this many bytes.
    pub(crate) fn new(options: Options, writer: Writer, base_len: u64) -> Shared {
        let mut buffer = Buffer::default();
        buffer.set_timestamps(options.timestamps);
        Shared {
            fsync: AtomicU8::new(options.fsync as u8),
            options,
            buffer: Mutex::new(buffer),
            writer: Mutex::new(writer),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            health: Health::default(),
            background_sync: AtomicBool::new(false),
            syncs: AtomicU64::new(0),
            sync_times: SyncTimes::default(),
            rewriting: AtomicBool::new(false),
            skipped: AtomicU64::new(0),
            covered: AtomicU64::new(0),
            history: Mutex::new(History::new(base_len)),
        }
    }

    /// Returns the policy.
    pub(crate) fn fsync(&self) -> Fsync {
        Fsync::from_number(self.fsync.load(Ordering::Relaxed))
    }

    pub(crate) fn set_fsync(&self, fsync: Fsync) {
        self.fsync.store(fsync as u8, Ordering::Relaxed);
    }

    /// Writes out the buffer, including the rest of a failed write.
    pub(crate) fn write_out(&self, writer: &mut Writer) -> Result<(), Failure> {
        self.health.check_alive()?;
        let (Taken { mut bytes, cut }, end) = {
            let mut buffer = lock(&self.buffer);
            if buffer.is_idle() {
                // It may be idle because the log has failed meanwhile.
                return self.health.check_alive();
            }
            (buffer.take(std::mem::take(&mut writer.spare)), buffer.end())
        };
        let start = end - bytes.len() as u64;
        let cut =
            cut.map(|cut| if FaultPoint::DivideAtCut.is_enabled() { cut } else { bytes.len() });
        let mut now = 0..bytes.len();
        if let Some(cut) = cut {
            let at = start + cut as u64;
            if let Err(failure) = writer.append(&bytes[..cut]) {
                return self.write_failed(failure, writer, start, bytes, Some(at));
            }
            self.written.store(at, Ordering::Release);
            self.enter_next(writer, at).map_err(|failure| self.fail(failure))?;
            now.start = cut;
        }
        if let Err(failure) = writer.append(&bytes[now.clone()]) {
            bytes.drain(..now.start);
            let from = start + now.start as u64;
            return self.write_failed(failure, writer, from, bytes, None);
        }
        self.written.store(end, Ordering::Release);
        if self.health.recover() {
            tracing::warn!("AOF write error looks solved, Redis can write again.");
        }
        if bytes.capacity() <= SPARE_AT_MOST {
            bytes.clear();
            writer.spare = bytes;
        }
        Ok(())
    }

    /// Keeps `bytes`, which begin at the offset `from`, for another try, or makes the failure
    /// final. While the log is being switched on, the file is not part of it yet: then it stays
    /// off.
    fn write_failed(
        &self,
        failure: Failure,
        writer: &mut Writer,
        from: u64,
        bytes: Vec<u8>,
        cut: Option<u64>,
    ) -> Result<(), Failure> {
        if !writer.is_listed {
            self.stay_off(failure, writer);
            return Ok(());
        }
        if writer.is_torn {
            return Err(self.fail(failure));
        }
        lock(&self.buffer).put_back(from, bytes, cut);
        if self.health.stall(failure.clone()) {
            tracing::warn!(
                "Error writing to the AOF file: {failure}. Writes are refused until it can be written"
            );
        }
        Err(failure)
    }

    /// Drops the commands appended since the log began to be switched on, which were promised to
    /// nobody, and makes the rewrite fail.
    fn stay_off(&self, failure: Failure, writer: &mut Writer) {
        tracing::warn!("The append-only file stays off, it cannot be written: {failure}");
        let end = lock(&self.buffer).mute_and_drop();
        self.written.store(end, Ordering::Release);
        self.durable.fetch_max(end, Ordering::AcqRel);
        writer.leave_file(failure);
    }

    /// Goes on in the next file. If its manifest cannot be written, the present file is kept.
    fn enter_next(&self, writer: &mut Writer, cut: u64) -> Result<(), Failure> {
        let Some(next) = writer.next.take() else { return Ok(()) };
        if FaultPoint::SyncBeforeNext.is_enabled() {
            writer.file.sync().map_err(|error| Failure::new(Operation::Sync, &error))?;
        }
        self.durable.fetch_max(cut, Ordering::AcqRel);
        if writer.is_listed && FaultPoint::ListNext.is_enabled() {
            if let Err(error) = self.options.stage_manifest(&next.manifest) {
                tracing::warn!("{error}");
                return Ok(());
            }
            let switched = self.options.switch_manifest();
            switched.map_err(|error| Failure::new(Operation::Manifest, &error.source))?;
        }
        writer.before += writer.len;
        writer.len = 0;
        writer.file = next.file;
        writer.manifest = next.manifest;
        Ok(())
    }

    /// Makes the written bytes durable.
    pub(crate) fn sync(&self, writer: &Writer) -> Result<(), Failure> {
        self.health.check_alive()?;
        let written = self.written.load(Ordering::Acquire);
        self.sync_file(&*writer.file, written)
    }

    /// Syncs a file that, with those before it, contains the log up to `written`.
    pub(crate) fn sync_file(&self, file: &dyn LogFile, written: u64) -> Result<(), Failure> {
        let begin = Instant::now();
        match file.sync() {
            Ok(()) => {
                self.sync_times.count(begin.elapsed());
                self.syncs.fetch_add(1, Ordering::Relaxed);
                self.durable.fetch_max(written, Ordering::AcqRel);
                Ok(())
            }
            Err(error) => Err(self.fail(Failure::new(Operation::Sync, &error))),
        }
    }

    /// See [`crate::Aof::flush`].
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        self.health.check_alive()?;
        let mut writer = lock(&self.writer);
        self.write_out(&mut writer)
    }

    /// Makes a failure final; the first reason stays.
    fn fail(&self, failure: Failure) -> Failure {
        let what = match failure.operation {
            Operation::Write => "Error writing to",
            Operation::Sync => "Fail to fsync",
            Operation::Manifest => "Can't change the manifest of",
        };
        tracing::warn!(
            "{what} the AOF file: {failure}. Writes are refused until the server is started again"
        );
        let first = self.health.fail(failure);
        // The failure is known before the buffer looks empty: a thread that finds it empty checks
        // again.
        lock(&self.buffer).close();
        first
    }
}
