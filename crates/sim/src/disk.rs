//! A file on a disk, as a power loss leaves it: system calls that fail, and pages that were never
//! written.
//!
//! The file is a real one. In addition this keeps its durable content: the pages of each successful
//! sync. A page is dirty from a store until the next sync that covers it, whether that succeeds or
//! not: the kernel reports a page that it could not write once, and considers it clean from then
//! on, so that a later sync does not write it. Its new bytes are in the page cache, where the next
//! process finds them, until the power fails.

use pmem::{Call, Calls};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PAGE: u64 = 4096;

/// A system call that should fail.
#[derive(Clone, Copy, Debug)]
pub struct FailingCall {
    /// Its kind.
    pub call: Call,
    /// How many calls of this kind succeed before it.
    pub after: u64,
    /// How it fails.
    pub errno: Errno,
}

#[derive(Default)]
struct State {
    is_memory: bool,
    durable: Vec<u8>,
    dirty: BTreeSet<u64>,
    failure: Option<FailingCall>,
    failed: bool,
}

/// The disk below one file. Watches the system calls of the thread that created it, until it is
/// dropped.
pub struct Disk(Arc<Watcher>);

struct Watcher {
    path: PathBuf,
    state: Mutex<State>,
}

impl Disk {
    /// Creates the disk below a file that does not exist yet.
    pub fn new(path: &Path) -> Disk {
        let watcher = Arc::new(Watcher { path: path.to_owned(), state: Mutex::default() });
        pmem::watch_calls(Some(watcher.clone()));
        Disk(watcher)
    }

    /// Runs `work`, which uses other files than this one.
    pub fn with_other_files<R>(&self, work: impl FnOnce() -> R) -> R {
        pmem::watch_calls(None);
        let done = work();
        pmem::watch_calls(Some(self.0.clone()));
        done
    }

    /// Makes one call fail, or none. Returns true if the previously chosen call has failed.
    pub fn fail(&self, failure: Option<FailingCall>) -> bool {
        let mut state = self.0.state();
        state.failure = failure;
        std::mem::take(&mut state.failed)
    }

    /// Treats the file as persistent memory from here on. Flushes are then not tracked: only syncs
    /// count.
    pub fn emulate_persistent_memory(&self) {
        self.0.state().is_memory = true;
    }

    /// Returns the pages that were synced.
    pub fn synced(&self) -> Vec<u8> {
        self.0.state().durable.clone()
    }

    /// Returns what a power loss leaves. The kernel may have written any of the dirty pages.
    pub fn after_power_loss(&self, rng: &mut fastrand::Rng) -> Vec<u8> {
        let state = self.0.state();
        if !self.0.path.exists() {
            // Its creator could not use it, and removed it.
            return Vec::new();
        }
        let mut left = state.durable.clone();
        let written: Vec<u64> = state.dirty.iter().copied().filter(|_| rng.bool()).collect();
        drop(state);
        written.into_iter().for_each(|page| self.0.copy(page, &mut left));
        left
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        pmem::watch_calls(None);
    }
}

impl Watcher {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies a page of the file.
    fn copy(&self, page: u64, to: &mut Vec<u8>) {
        let file = File::open(&self.path).expect("the file");
        let mut bytes = [0; PAGE as usize];
        let read = file.read_at(&mut bytes, page * PAGE).expect("a page");
        let from = (page * PAGE) as usize;
        to.resize(to.len().max(from + read), 0);
        to[from..from + read].copy_from_slice(&bytes[..read]);
    }
}

impl Calls for Watcher {
    fn before(&self, call: Call) -> Result<(), Errno> {
        let mut state = self.state();
        match &mut state.failure {
            Some(failure) if failure.call == call && failure.after == 0 => {
                let errno = failure.errno;
                (state.failure, state.failed) = (None, true);
                Err(errno)
            }
            Some(failure) if failure.call == call => {
                failure.after -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn plays_persistent_memory(&self) -> bool {
        self.state().is_memory
    }

    fn stored(&self, at: u64, len: u64) {
        self.state().dirty.extend(at / PAGE..(at + len).div_ceil(PAGE));
    }

    fn synced(&self, at: u64, len: u64, well: bool) {
        let mut state = self.state();
        let covered = at / PAGE..at.saturating_add(len).div_ceil(PAGE);
        let pages: Vec<u64> = state.dirty.range(covered).copied().collect();
        let State { durable, dirty, .. } = &mut *state;
        for page in pages {
            dirty.remove(&page);
            if well {
                self.copy(page, durable);
            }
        }
        if well {
            let len = std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
            durable.resize(len as usize, 0);
        }
    }
}
