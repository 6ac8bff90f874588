//! The journal's file may be moved, removed or truncated while it is in use: detects that, and
//! keeps what the journal has.
//!
//! Bytes written to a file without a name are lost with the process, however durable they are. And
//! if batches leave the ring while the pool's file is not in its place, they are in no file that
//! will be found: somebody who copied the pool's file before has one that lacks them, next to a
//! journal that counts as empty. So while a file is not in its place the journal can be *held*:
//! batches are written and synced, but none is applied, and the journal's use does not end.

use super::core::{Journal, locked};
use super::error::JournalError;
use super::layout::RING_AT;
use super::place::LockedStorage;
use crate::place::{FilePlace, place_of};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, SeqCst};

/// The file of a journal in use, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalFile {
    /// The path under which it was opened.
    pub path: PathBuf,
    /// Whether it is still there.
    pub place: FilePlace,
    /// Its lengths, if it was cut short.
    pub cut_short: Option<CutShort>,
}

/// The lengths of a truncated file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutShort {
    /// The length that it had.
    pub expected: u64,
    /// The length that was found.
    pub found: u64,
}

/// How much of the acknowledged data the files of a failed journal still have, if they are in their
/// places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All of it.
    All,
    /// The synced part; the rest may or may not be on the disk.
    Synced,
    /// Unknown.
    Unknown,
}

impl Journal {
    /// Returns the present state of the file; `None` before and after a journal is in use.
    pub(crate) fn file(&self) -> Option<JournalFile> {
        let (path, storage) = self.place.in_use()?;
        let expected = match self.progress.capacity.load(Acquire) {
            0 => 0,
            capacity => RING_AT + capacity,
        };
        let found = storage.file().metadata().map_or(expected, |file| file.len());
        let cut_short = (found < expected).then_some(CutShort { expected, found });
        let place = place_of(storage.file(), path);
        Some(JournalFile { path: path.to_owned(), place, cut_short })
    }

    /// Returns the file itself while it is in use.
    pub(crate) fn open_file(&self) -> Option<Arc<LockedStorage>> {
        self.place.in_use().map(|(_, file)| file)
    }

    /// Holds the journal, so that it keeps what it has, or ends that. When this returns, nothing is
    /// being applied.
    pub(crate) fn hold(&self, yes: bool) {
        self.held.store(yes, SeqCst);
        // A thread that read `held` earlier has the lock.
        drop(locked(&self.checkpointer));
    }

    /// Returns true while the journal is held.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(SeqCst)
    }

    /// Refuses operations that need everything to be applied.
    pub(super) fn refuse_held(&self) -> Result<(), JournalError> {
        if self.is_held() { Err(JournalError::Held) } else { Ok(()) }
    }

    /// Returns what the files still have, judging by the step that failed; `None` if none failed.
    pub(crate) fn kept(&self) -> Option<Kept> {
        self.failure().map(kept_after)
    }
}

fn kept_after(failure: &str) -> Kept {
    let failed = |step: &str| failure.starts_with(step);
    match () {
        () if failed("sync the journal") => Kept::Synced,
        () if failed("write ") || failed("sync the pool") => Kept::All,
        () => Kept::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_keep_what_the_step_that_failed_leaves() {
        let check = |step: &str, expected| assert_eq!(kept_after(step), expected, "{step}");
        check("sync the journal: EIO", Kept::Synced);
        check("sync the pool: EIO", Kept::All);
        check("write to the pool: ENOSPC", Kept::All);
        check("write to the journal: ENOSPC", Kept::All);
        check("write the journal's superblock: EIO", Kept::All);
        check("read the pool's pages: the medium has lost a part of it", Kept::Unknown);
        check("background work: a panic", Kept::Unknown);
    }
}
