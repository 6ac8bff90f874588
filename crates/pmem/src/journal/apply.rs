//! Applying batches to the pool's file, so that their space in the ring is free again.
//!
//! In this order: batches that are synced are read from the journal and merged; their lines are
//! written to the pool's file, and how far it has them; that is synced; the superblock gets the new
//! tail, and is synced. So no byte is in the pool's file that the journal could lose, and no batch
//! leaves the journal before the pool has it. A crash in between is repaired by storing the same
//! batches once more.
//!
//! A failure anywhere stops the journal. It keeps everything.

use super::batch::ranges;
use super::core::{Count, Journal, locked};
use super::error::JournalError;
use super::layout::at_once;
use super::merge::MergedLines;
use super::ring::Ring;
use super::scan::{Scan, ScanEnd};
use super::storage::Storage;
use super::superblock::Superblock;
use crate::fault_points::FaultPoint;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Bytes of batches that are merged at once: the more, the fewer writes.
const GROUP: u64 = 32 << 20;

/// Returns the same for a ring of this length: of a simulated one, which is small, a quarter.
fn group(capacity: u64) -> u64 {
    GROUP.min(at_once(GROUP, capacity / 4))
}

/// What it takes to apply the next batches.
pub(super) struct Applier {
    pub(super) file: Arc<dyn Storage>,
    pub(super) superblock: Superblock,
    /// Offset of the line in which the pool's file says how far the journal came.
    pub(super) progress_at: u64,
}

impl Journal {
    /// Applies a group of the oldest batches; false if no synced batch is left.
    pub(crate) fn apply_step(&self) -> Result<bool, JournalError> {
        let mut applier = locked(&self.applier);
        let Some(applier) = &mut *applier else { return Ok(false) };
        self.check()?;
        if self.is_held() {
            return Ok(false);
        }
        let until = match FaultPoint::ApplySynced.is_enabled() {
            true => &self.progress.synced_head,
            false => &self.progress.head,
        };
        let until = until.load(Acquire);
        if applier.superblock.tail >= until {
            return Ok(false);
        }
        // Others go on writing, and would have to wait for this lock.
        self.raise_limit(applier)?;
        let (lines, end) =
            gather(applier, until).map_err(|error| self.fail("read the journal", error))?;
        let written =
            lines.write(&*self.pool).map_err(|error| self.fail("write to the pool", error))?;
        if FaultPoint::SayApplied.is_enabled() {
            self.write_pool_progress(&applier.superblock, applier.progress_at, end.sequence)?;
        }
        if FaultPoint::SyncApplied.is_enabled() {
            self.sync_pool()?;
        }
        self.progress.count(Count::Applied, 1);
        self.progress.count(Count::BytesApplied, written);
        self.move_tail(applier, end)?;
        Ok(true)
    }

    /// Moves the tail past batches that the pool has.
    fn move_tail(&self, applier: &mut Applier, end: ScanEnd) -> Result<(), JournalError> {
        let superblock = &mut applier.superblock;
        superblock.tail = end.position;
        superblock.tail_sequence = end.sequence;
        superblock.tail_incarnation = end.incarnation;
        if !FaultPoint::SyncTail.is_enabled() {
            self.progress.tail.store(end.position, Release);
            return Ok(());
        }
        self.write_superblock(applier)?;
        self.progress.tail.store(end.position, Release);
        Ok(())
    }

    /// Applies everything that was appended.
    pub(crate) fn checkpoint(&self) -> Result<(), JournalError> {
        self.sync_up_to(self.appended())?;
        while self.apply_step()? {}
        self.refuse_held()?;
        self.check()
    }
}

/// Reads and merges batches up to a position, or as many as are applied at once.
fn gather(applier: &Applier, until: u64) -> Result<(MergedLines, ScanEnd), JournalError> {
    let superblock = &applier.superblock;
    let ring = Ring { file: &*applier.file, capacity: superblock.capacity };
    let mut scan = Scan::new(ring, superblock);
    let mut lines = MergedLines::default();
    while scan.end().position < until.min(superblock.tail + group(superblock.capacity)) {
        let ScanEnd { sequence, .. } = scan.end();
        let Some((_, bytes)) = scan.next()? else {
            return Err(JournalError::Damaged { expected: sequence, found: sequence + 1 });
        };
        for (range, bytes) in ranges(bytes).ok_or(JournalError::Senseless { sequence })? {
            lines.add(range, bytes);
        }
    }
    Ok((lines, scan.end()))
}
