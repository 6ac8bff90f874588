//! What the snapshot of a heap costs, and whether it was given up.
//!
//! One snapshot at a time. It costs DRAM, for the saved words, and space of the pool, for the
//! blocks that it holds. It is given up, before its reader is done, when that is more than its
//! limit, or when a writer finds no block: no write is refused because of a snapshot.

use super::overlay::Overlay;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{Mutex, PoisonError};

/// Why a part of a snapshot cannot be read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotLost {
    /// The bytes that it held, of DRAM and of the pool, exceeded the limit.
    #[error("the snapshot was given up: it held more memory than its limit allows")]
    OverLimit,
    /// A writer found no space but what the snapshot held.
    #[error(
        "the snapshot was given up: the store was full, and writes need the space that it held"
    )]
    Full,
    /// It was read to its end, and its memory was given back.
    #[error("this part of the snapshot has been read and released")]
    Released,
}

/// What snapshots hold and held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotStats {
    /// Whether there is a snapshot.
    pub is_taken: bool,
    /// Bytes of freed blocks that a snapshot, or another reader without a lock, holds, or that have
    /// not been returned yet.
    pub held: u64,
    /// Bytes of DRAM for saved words and the lists of held blocks.
    pub overlay: u64,
    /// The most that both may be together before the snapshot is given up.
    pub limit: u64,
    /// The most that they were since the last snapshot was taken.
    pub peak: u64,
    /// Snapshots that were given up.
    pub given_up: u64,
}

const NONE: u8 = 0;
const TAKEN: u8 = 1;
const OVER_LIMIT: u8 = 2;
const FULL: u8 = 3;

/// The same, as it is counted.
#[derive(Debug)]
pub(crate) struct SnapshotMemory {
    /// Changed to `TAKEN` under all locks, and back when no shard has a part of the snapshot.
    stage: AtomicU8,
    held: AtomicU64,
    overlay: AtomicU64,
    limit: AtomicU64,
    peak: AtomicU64,
    given_up: AtomicU64,
    /// Overlays that nobody reads any more, to be freed by somebody who holds no lock.
    discarded: Mutex<Vec<Overlay>>,
}

impl SnapshotMemory {
    pub(crate) fn new(limit: u64) -> SnapshotMemory {
        SnapshotMemory {
            stage: AtomicU8::new(NONE),
            held: AtomicU64::new(0),
            overlay: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
            peak: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            discarded: Mutex::default(),
        }
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.stage.load(Acquire) != NONE
    }

    /// Begins a snapshot. The caller holds all shards.
    pub(crate) fn begin(&self) {
        self.peak.store(self.held.load(Relaxed) + self.overlay.load(Relaxed), Relaxed);
        self.stage.store(TAKEN, Release);
    }

    /// Ends it: no shard has a part of it any more.
    pub(crate) fn end(&self) {
        self.stage.store(NONE, Release);
    }

    /// Gives the snapshot up; true if there is one that was not given up before.
    pub(crate) fn give_up(&self, why: SnapshotLost) -> bool {
        let stage = if why == SnapshotLost::Full { FULL } else { OVER_LIMIT };
        let is_new = self.stage.compare_exchange(TAKEN, stage, AcqRel, Relaxed).is_ok();
        self.given_up.fetch_add(u64::from(is_new), Relaxed);
        is_new
    }

    /// Returns why the snapshot was given up, if it was.
    pub(crate) fn lost(&self) -> Option<SnapshotLost> {
        match self.stage.load(Acquire) {
            OVER_LIMIT => Some(SnapshotLost::OverLimit),
            FULL => Some(SnapshotLost::Full),
            _ => None,
        }
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    /// Returns the number of bytes of held blocks.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Counts more bytes: of held blocks, and of DRAM. Returns true if they exceed the limit.
    pub(crate) fn add(&self, held: u64, overlay: u64) -> bool {
        let held = self.held.fetch_add(held, Relaxed) + held;
        let overlay = self.overlay.fetch_add(overlay, Relaxed) + overlay;
        self.peak.fetch_max(held + overlay, Relaxed);
        held + overlay > self.limit.load(Relaxed)
    }

    /// Counts fewer bytes.
    pub(crate) fn subtract(&self, held: u64, overlay: u64) {
        self.held.fetch_sub(held, Relaxed);
        self.overlay.fetch_sub(overlay, Relaxed);
    }

    /// Leaves an overlay to be freed without a lock.
    pub(crate) fn discard(&self, overlay: Overlay) {
        self.discarded.lock().unwrap_or_else(PoisonError::into_inner).push(overlay);
    }

    /// Frees the overlays that nobody reads any more. The caller holds no shard.
    pub(crate) fn free_discarded(&self) {
        let discarded =
            std::mem::take(&mut *self.discarded.lock().unwrap_or_else(PoisonError::into_inner));
        self.subtract(0, discarded.iter().map(Overlay::bytes).sum());
    }

    pub(crate) fn stats(&self) -> SnapshotStats {
        SnapshotStats {
            is_taken: self.is_taken(),
            held: self.held.load(Relaxed),
            overlay: self.overlay.load(Relaxed),
            limit: self.limit.load(Relaxed),
            peak: self.peak.load(Relaxed),
            given_up: self.given_up.load(Relaxed),
        }
    }
}
