//! The snapshots of a heap: their cost, and which were given up.
//!
//! A snapshot costs DRAM, for the saved words, and space in the pool, for the blocks that it holds.
//! When all together cost more than the limit, or when a writer finds no block, the oldest one is
//! given up, even if its reader is not done: no write is refused because of a snapshot. The oldest
//! holds most: what it holds and the next one does not is returned. The next one is given up only
//! if the total grows by another eighth of the limit, since it takes some time to return what the
//! first one held.

use super::overlay::Overlay;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of snapshots at once: a commit saves each word that it changes in each of
/// them.
pub const MOST_SNAPSHOTS: usize = 64;
/// The total must grow by this fraction of the limit before another snapshot is given up.
const GROWTH: u64 = 8;

/// Why a part of a snapshot cannot be read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotLost {
    /// It held more bytes, of DRAM and of the pool, than the limit allows.
    #[error("the snapshot was given up: it held more memory than its limit allows")]
    OverLimit,
    /// A writer found no space except what the snapshot held.
    #[error(
        "the snapshot was given up: the store was full, and writes need the space that it held"
    )]
    Full,
    /// It was read to its end, and its memory was returned.
    #[error("this part of the snapshot has been read and released")]
    Released,
}

/// What snapshots hold now and held before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotStats {
    /// Whether there is a snapshot.
    pub is_taken: bool,
    /// The number of snapshots, including those that were given up and have not been dropped.
    pub taken: usize,
    /// Bytes of freed blocks that snapshots, or other readers without a lock, hold, or that have
    /// not been returned yet.
    pub held: u64,
    /// Bytes of DRAM for saved words and the lists of held blocks.
    pub overlay: u64,
    /// The maximum of both together before a snapshot is given up.
    pub limit: u64,
    /// The peak of both together since a snapshot was taken when there was no other.
    pub peak: u64,
    /// The number of snapshots that were given up.
    pub given_up: u64,
}

const TAKEN: u8 = 0;
const OVER_LIMIT: u8 = 1;
const FULL: u8 = 2;

/// The moment of a snapshot, and whether the snapshot was given up since.
#[derive(Debug)]
pub(crate) struct Cut {
    /// Greater than the number of every earlier cut.
    pub(crate) number: u64,
    stage: AtomicU8,
}

impl Cut {
    /// Returns why the snapshot was given up, if it was.
    pub(crate) fn lost(&self) -> Option<SnapshotLost> {
        match self.stage.load(Acquire) {
            OVER_LIMIT => Some(SnapshotLost::OverLimit),
            FULL => Some(SnapshotLost::Full),
            _ => None,
        }
    }
}

/// The cuts of the present snapshots, the oldest first.
#[derive(Debug, Default)]
struct Cuts {
    taken: Vec<Arc<Cut>>,
    next: u64,
}

/// Counts what all snapshots of a heap hold.
#[derive(Debug)]
pub(crate) struct SnapshotMemory {
    /// Grows under the locks of all shards. A cut is removed when no shard has a part of it.
    cuts: Mutex<Cuts>,
    /// The number of cuts.
    taken: AtomicUsize,
    held: AtomicU64,
    overlay: AtomicU64,
    limit: AtomicU64,
    /// May exceed the limit: after a snapshot was given up, while what it held is being returned.
    allowance: AtomicU64,
    peak: AtomicU64,
    given_up: AtomicU64,
    /// Overlays that nobody reads any more, to be freed by a thread that holds no lock.
    discarded: Mutex<Vec<Overlay>>,
}

impl SnapshotMemory {
    pub(crate) fn new(limit: u64) -> SnapshotMemory {
        SnapshotMemory {
            cuts: Mutex::default(),
            taken: AtomicUsize::new(0),
            held: AtomicU64::new(0),
            overlay: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
            allowance: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            discarded: Mutex::default(),
        }
    }

    pub(crate) fn is_any_taken(&self) -> bool {
        self.taken.load(Acquire) > 0
    }

    /// Begins a snapshot, unless there are already the maximum number. The caller holds all shards.
    pub(crate) fn begin(&self) -> Option<Arc<Cut>> {
        let mut cuts = self.cuts();
        if cuts.taken.len() == MOST_SNAPSHOTS {
            return None;
        }
        if cuts.taken.is_empty() {
            self.peak.store(self.total(), Relaxed);
        }
        let cut = Arc::new(Cut { number: cuts.next, stage: AtomicU8::new(TAKEN) });
        cuts.next += 1;
        cuts.taken.push(Arc::clone(&cut));
        self.taken.store(cuts.taken.len(), Release);
        Some(cut)
    }

    /// Ends a snapshot: no shard has a part of it any more.
    pub(crate) fn end(&self, cut: &Cut) {
        let mut cuts = self.cuts();
        cuts.taken.retain(|other| other.number != cut.number);
        self.taken.store(cuts.taken.len(), Release);
    }

    /// Gives up the oldest snapshot that has not been given up; returns true if there is one.
    pub(crate) fn give_up(&self, why: SnapshotLost) -> bool {
        let cuts = self.cuts();
        let Some(oldest) = cuts.taken.iter().find(|cut| cut.lost().is_none()) else {
            return false;
        };
        let stage = if why == SnapshotLost::Full { FULL } else { OVER_LIMIT };
        oldest.stage.store(stage, Release);
        self.given_up.fetch_add(1, Relaxed);
        let more = self.limit.load(Relaxed) / GROWTH;
        self.allowance.store(self.total().saturating_add(more), Relaxed);
        true
    }

    fn cuts(&self) -> MutexGuard<'_, Cuts> {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn total(&self) -> u64 {
        self.held.load(Relaxed) + self.overlay.load(Relaxed)
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    /// Returns the number of bytes of held blocks.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Adds bytes of held blocks and of DRAM. Returns true if the total exceeds the limit, so that
    /// a snapshot must be given up.
    pub(crate) fn add(&self, held: u64, overlay: u64) -> bool {
        let held = self.held.fetch_add(held, Relaxed) + held;
        let overlay = self.overlay.fetch_add(overlay, Relaxed) + overlay;
        self.peak.fetch_max(held + overlay, Relaxed);
        held + overlay > self.limit.load(Relaxed).max(self.allowance.load(Relaxed))
    }

    /// Subtracts bytes.
    pub(crate) fn subtract(&self, held: u64, overlay: u64) {
        self.held.fetch_sub(held, Relaxed);
        self.overlay.fetch_sub(overlay, Relaxed);
        if self.total() <= self.limit.load(Relaxed) {
            self.allowance.store(0, Relaxed);
        }
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
            is_taken: self.is_any_taken(),
            taken: self.taken.load(Relaxed),
            held: self.held.load(Relaxed),
            overlay: self.overlay.load(Relaxed),
            limit: self.limit.load(Relaxed),
            peak: self.peak.load(Relaxed),
            given_up: self.given_up.load(Relaxed),
        }
    }
}
