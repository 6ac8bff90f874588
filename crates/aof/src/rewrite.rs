//! Replaces base and increments with a new base while the log is being appended to.
//!
//! ```text
//! begin    makes the next increment (not listed) and a temporary base
//! cut      under the caller's exclusion: what is appended after it belongs to the next increment
//! write    the state at the cut, as commands, into the temporary base
//! finish   base synced and renamed; one manifest lists it, the next increment and the rest as
//!          history; then history is deleted
//! ```
//!
//! If a rewrite is dropped before its end, the log stays as it was: the increment of its cut stays
//! part of it, and the temporary base is removed.
//!
//! A rewrite can also switch a log on again. Since commands of the time when it was off are
//! nowhere, its increment does not follow the earlier ones: it is listed with the new base only,
//! and until then a crash leaves the log as it was when it was switched off. If such a rewrite is
//! dropped before its end, the log stays off.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::directory::{TEMPORARY_BASE, write_all};
use crate::error::{OpenError, RewriteError};
use crate::fault_points::FaultPoint;
use crate::lock::lock;
use crate::record::{encode, encode_select, encode_timestamp, unix_seconds};
use crate::shared::Shared;
use crate::storage::LogFile;
use crate::writer::NextFile;

/// Bytes of the base that are written at once.
pub const CHUNK: usize = 256 << 10;

/// Bytes of the base after which it is synced, so that the last sync does not stall the disk.
const SYNC_EVERY: u64 = 4 << 20;

/// The result of a rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Bytes of the new base.
    pub base: u64,
    /// Bytes of all files.
    pub total: u64,
}

/// A running rewrite.
pub struct Rewrite {
    shared: Arc<Shared>,
    base: Arc<dyn LogFile>,
    base_name: String,
    /// The increment that begins at the cut.
    next: String,
    pending: Vec<u8>,
    written: u64,
    synced: u64,
    db: Option<u32>,
    /// Whether the base is a dump.
    is_dump: bool,
    /// Whether it switches the log on again.
    revives: bool,
    finished: bool,
}

fn file(error: OpenError) -> RewriteError {
    RewriteError::File { path: error.path, source: error.source }
}

impl Rewrite {
    pub(crate) fn begin(shared: Arc<Shared>, revives: bool) -> Result<Rewrite, RewriteError> {
        if shared.health.is_stalled() {
            // There may be space by now; if not, the error is up to date.
            shared.flush()?;
        }
        shared.health.check()?;
        if shared.rewriting.swap(true, Ordering::AcqRel) {
            return Err(RewriteError::Busy);
        }
        let base_name = TEMPORARY_BASE.to_owned();
        let options = &shared.options;
        // It may have been removed.
        let is_folder_missing = revives || !options.storage.is_dir(&options.folder());
        let made = if is_folder_missing { options.make_folder() } else { Ok(()) };
        let made = made.and_then(|()| shared.options.make_file(&base_name));
        let made = made.and_then(|base| {
            let mut writer = lock(&shared.writer);
            let mut manifest = writer.manifest.clone();
            let next = manifest.add_increment(&shared.options).file;
            let file = shared.options.make_file(&next)?;
            shared.options.sync_names()?;
            writer.next = Some(NextFile { manifest, file });
            writer.is_listed &= !revives;
            writer.stays_off = None;
            Ok((base, next))
        });
        match made {
            Ok((base, next)) => Ok(Rewrite {
                shared,
                base,
                base_name,
                next,
                pending: Vec::with_capacity(CHUNK),
                written: 0,
                synced: 0,
                db: None,
                is_dump: false,
                revives,
                finished: false,
            }),
            Err(error) => {
                lock(&shared.history).failures += 1;
                shared.rewriting.store(false, Ordering::Release);
                Err(file(error))
            }
        }
    }

    /// Cuts the log: to be called once, while nothing is appended and the state to be written is
    /// fixed. Takes no longer than an append.
    pub fn cut(&mut self) -> u64 {
        let mut buffer = lock(&self.shared.buffer);
        if self.revives {
            buffer.mute(false);
        }
        buffer.cut()
    }

    /// Writes a command that makes a part of the state at the cut.
    pub fn write(&mut self, db: u32, words: &[&[u8]]) -> Result<(), RewriteError> {
        if self.is_empty() && lock(&self.shared.buffer).has_timestamps() {
            encode_timestamp(&mut self.pending, unix_seconds());
        }
        if self.db != Some(db) {
            encode_select(&mut self.pending, db);
            self.db = Some(db);
        }
        encode(&mut self.pending, words);
        match self.pending.len() < CHUNK {
            true => Ok(()),
            false => self.write_pending(),
        }
    }

    /// Writes bytes of a dump, which makes the base one.
    pub fn write_dump(&mut self, bytes: &[u8]) -> Result<(), RewriteError> {
        self.is_dump = true;
        self.pending.extend_from_slice(bytes);
        match self.pending.len() < CHUNK {
            true => Ok(()),
            false => self.write_pending(),
        }
    }

    /// Returns the bytes of the base so far.
    pub fn len(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Returns true if nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn write_pending(&mut self) -> Result<(), RewriteError> {
        let step = |base: &dyn LogFile, pending: &[u8]| write_all(base, pending);
        self.base_step(|rewrite| step(&*rewrite.base, &rewrite.pending))?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        if self.written - self.synced >= SYNC_EVERY {
            self.sync_base()?;
        }
        Ok(())
    }

    fn sync_base(&mut self) -> Result<(), RewriteError> {
        self.synced = self.written;
        match FaultPoint::SyncBase.is_enabled() {
            true => self.base_step(|rewrite| rewrite.base.sync()),
            false => Ok(()),
        }
    }

    fn base_step(
        &self,
        step: impl FnOnce(&Rewrite) -> std::io::Result<()>,
    ) -> Result<(), RewriteError> {
        let path = || self.shared.options.path(&self.base_name);
        step(self).map_err(|source| RewriteError::File { path: path(), source })
    }

    /// Puts the new base into force.
    pub fn finish(mut self) -> Result<Rewritten, RewriteError> {
        self.write_pending()?;
        self.sync_base()?;
        let shared = Arc::clone(&self.shared);
        let mut writer = lock(&shared.writer);
        shared.write_out(&mut writer)?;
        if let Some(failure) = writer.stays_off.take() {
            return Err(failure.into());
        }
        if writer.manifest.increments.last().is_none_or(|last| last.file != self.next) {
            return Err(RewriteError::NotCut);
        }
        let mut manifest = writer.manifest.clone();
        let base = manifest.add_base(&shared.options, self.is_dump);
        manifest.retire_increments();
        let options = &shared.options;
        let from = options.path(&self.base_name);
        options.at(&base.file, |to| options.storage.rename(&from, to)).map_err(file)?;
        self.base_name = base.file;
        options.sync_names().map_err(file)?;
        options.stage_manifest(&manifest).map_err(file)?;
        // From here on a crash may leave either manifest, so both sets of files stay.
        self.finished = true;
        let switched = options.switch_manifest();
        writer.manifest = manifest;
        writer.before = self.written;
        if switched.is_ok() {
            writer.is_listed = true;
            options.delete_history(&mut writer.manifest);
        }
        let total = writer.size();
        drop(writer);
        let mut history = lock(&shared.history);
        if let Err(error) = switched {
            history.failures += 1;
            return Err(file(error));
        }
        history.base_size = total;
        history.rewrites += 1;
        history.failures = 0;
        drop(history);
        Ok(Rewritten { base: self.written, total })
    }
}

impl Drop for Rewrite {
    fn drop(&mut self) {
        let shared = &self.shared;
        if !self.finished {
            if self.revives {
                lock(&shared.buffer).mute(true);
            }
            // Without a cut the next file is not entered. After a cut it is part of the log, unless
            // the bytes before it cannot be written: then the present file takes all of them, and
            // the next rewrite begins after that.
            let mut writer = lock(&shared.writer);
            let _ = shared.write_out(&mut writer);
            writer.next = None;
            drop(writer);
            let _ = shared.options.at(&self.base_name, |path| shared.options.storage.remove(path));
            lock(&shared.history).failures += 1;
        }
        shared.rewriting.store(false, Ordering::Release);
    }
}
