//! The limit: how far into the ring batches may be, which is as far as recovery reads to tell
//! damage from the end.
//!
//! A batch that is not whole is the end, unless a later one records it as synced, and that one may
//! be anywhere that was written to. Reading a whole ring for it would take most of the time of a
//! restart. So the superblock has a limit: the writer writes past it only after both copies have a
//! higher one, synced. Beyond the limit, the ring's content is older than the tail, or was left by
//! an earlier incarnation and refuted when this one was opened: it records nothing as synced that
//! could be missing now.
//!
//! Each move of the tail puts the limit a quarter of the ring past the newest batch, or 64 MiB if
//! that is more; so does the background thread when half of that is used up. So the writer waits
//! for the limit only if a sync takes longer than 32 MiB of writes. A ring of 64 MiB or less never
//! has a limit before its end: a sync of a slow disk would often take longer than a quarter of such
//! a ring lasts.
//!
//! At rest the limit of a longer ring is lowered: a restart then looks through little that nobody
//! has written to. Writers have less of the ring before them until the first of them comes near,
//! and the background thread puts the limit far ahead again.
//!
//! In a new file the limit is only as far ahead as has been written, but at least 4 MiB. The part
//! before it is first filled with zeros, once, so that batches change no metadata of the file; and
//! a journal that is created and hardly used writes little. These zeros are synced a part at a
//! time: a thread that waits for another sync of the file waits for at most that many of them.

use super::core::{Journal, locked};
use super::error::JournalError;
use super::layout::{BLOCK, RING_AT, at_once};
use super::storage::Storage;
use super::superblock::Superblock;
use super::writer::Writer;
use crate::fault_points::FaultPoint;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Minimum distance of the limit. Simulated rings are small, but should still reach it.
fn least_ahead() -> u64 {
    at_once(LEAST, BLOCK)
}
const LEAST: u64 = 64 << 20;

/// Distance of the limit of an empty ring in a new file, and the number of zeros written between
/// two syncs: they take a few milliseconds to write.
const FIRST: u64 = 4 << 20;

/// Returns that distance for a ring of this length; an eighth of a simulated ring, which is small.
fn first(capacity: u64) -> u64 {
    FIRST.min(at_once(FIRST, capacity / 8))
}

/// Distance of the limit at rest. Half of it takes longer to write than it takes to raise the
/// limit, unless the disk is slow; and a ring that is not longer has no limit.
const AT_REST: u64 = 16 << 20;

/// Returns that distance; a block of a simulated ring.
fn at_rest() -> u64 {
    at_once(AT_REST, BLOCK)
}

/// The superblock of a journal in use, and its file.
pub(super) struct OpenSuperblock {
    pub(super) file: Arc<dyn Storage>,
    pub(super) superblock: Superblock,
    /// Bytes of the ring, from its start, that were written since the file was created, or may be
    /// written from now on.
    written: u64,
}

impl OpenSuperblock {
    pub(super) fn new(
        file: Arc<dyn Storage>,
        superblock: Superblock,
    ) -> io::Result<OpenSuperblock> {
        let written = file.written_up_to(RING_AT)?.saturating_sub(RING_AT);
        let Superblock { tail, limit, capacity, .. } = superblock;
        let written = written.max(extent(tail, limit, capacity));
        Ok(OpenSuperblock { file, superblock, written })
    }

    /// Returns true if the whole ring has been written at least once.
    pub(super) fn is_written(&self) -> bool {
        self.has_written(self.superblock.capacity)
    }

    /// Returns the limit for batches that end at `head`.
    fn limit_after(&self, head: u64) -> u64 {
        self.limit_in(self.superblock.capacity, head)
    }

    /// Returns the limit for batches that end at `head` in a ring of this length.
    pub(super) fn limit_in(&self, capacity: u64, head: u64) -> u64 {
        head + ahead(head, capacity, self.has_written(capacity))
    }

    /// Returns true if the ring has been written at least once up to `end`.
    pub(super) fn has_written(&self, end: u64) -> bool {
        self.written >= end
    }

    /// The file was cut to this length: what was written after it is gone.
    pub(super) fn forget_written(&mut self, len: u64) {
        self.written = self.written.min(len.saturating_sub(RING_AT));
    }

    /// Returns true if somebody has cut the file: it lacks what the ring had there, and is not used
    /// again.
    fn is_cut_short(&self) -> io::Result<bool> {
        Ok(self.file.size()? < RING_AT + self.superblock.capacity)
    }

    /// Writes a part of the zeros that a ring of length `capacity` needs up to `end`.
    pub(super) fn write_zeros_to(&mut self, end: u64, capacity: u64) -> io::Result<()> {
        let to = end.min(self.written + first(capacity));
        self.file.write_zeros(RING_AT + self.written, RING_AT + to)?;
        self.written = to;
        Ok(())
    }
}

/// Returns how far past the newest batch, which ends at `head`, the limit is put. `is_written`
/// tells whether the whole ring has been written, or is being written for the first time.
fn ahead(head: u64, capacity: u64, is_written: bool) -> u64 {
    let most = ahead_at_least(least_ahead(), capacity);
    if is_written { most } else { most.min((head % capacity).max(first(capacity))) }
}

/// Returns how much of a ring, from its start, is written by batches from `tail` to `limit`, and
/// was written before them in their lap.
pub(super) fn extent(tail: u64, limit: u64, capacity: u64) -> u64 {
    limit.saturating_sub(tail / capacity * capacity).min(capacity)
}

fn ahead_at_least(least: u64, capacity: u64) -> u64 {
    least.max(capacity / 4)
}

/// Returns the limit for batches that end at `head`, when the ring's file is opened.
pub(super) fn limit_after(head: u64, capacity: u64, file: &dyn Storage) -> io::Result<u64> {
    let is_written = file.written_up_to(RING_AT)? >= RING_AT + capacity;
    Ok(head + ahead(head, capacity, is_written))
}

impl Journal {
    /// Returns true if the background thread should raise the limit.
    pub(super) fn is_near_limit(&self, head: u64, capacity: u64) -> bool {
        self.is_within(2, head, capacity)
    }

    /// Returns true if a writer will soon come to the limit: the background is late.
    pub(super) fn is_at_limit(&self, head: u64, capacity: u64) -> bool {
        self.is_within(8, head, capacity)
    }

    /// Returns true if less than this part of the limit's usual distance is left.
    fn is_within(&self, part: u64, head: u64, capacity: u64) -> bool {
        let limit = self.progress.limit.load(Acquire);
        // The writer stops at the tail anyway.
        let end = self.progress.tail.load(Acquire) / BLOCK * BLOCK + capacity;
        let is_written = self.progress.is_written.load(Acquire);
        let usual = ahead(head, capacity, is_written);
        let usual = if self.progress.rests.load(Acquire) { usual.min(at_rest()) } else { usual };
        head + usual / part > limit && limit < end
    }

    /// Returns true if the limit is further ahead than it need be at rest.
    pub(super) fn is_far_from_limit(&self, head: u64, capacity: u64) -> bool {
        let end = self.progress.tail.load(Acquire) / BLOCK * BLOCK + capacity;
        // A ring that is not longer has no limit before its end.
        capacity > least_ahead() && self.progress.limit.load(Acquire).min(end) > head + at_rest()
    }

    /// Returns true if batches may end at `end`.
    pub(super) fn is_before_limit(&self, end: u64) -> bool {
        end <= self.progress.limit.load(Acquire)
    }

    /// Raises the limit before the writer writes up to `end`.
    pub(super) fn wait_for_limit(&self, end: u64) -> Result<(), JournalError> {
        match &mut *locked(&self.superblock) {
            Some(open) if !self.is_before_limit(end) => {
                // The background thread puts it further ahead: here a writer waits for the zeros.
                let head = self.progress.head.load(Acquire);
                let least = head + first(open.superblock.capacity);
                self.write_superblock(open, least.max(end))
            }
            _ => self.check(),
        }
    }

    /// Raises the limit if it is near, in the background.
    pub(super) fn raise_limit(&self) -> Result<(), JournalError> {
        let mut open = locked(&self.superblock);
        let Some(open) = &mut *open else { return self.check() };
        let capacity = open.superblock.capacity;
        loop {
            let head = self.progress.head.load(Acquire);
            if !self.is_near_limit(head, capacity) {
                return Ok(());
            }
            self.write_superblock(open, open.limit_after(head))?;
        }
    }

    /// Lowers the limit at rest. What is past it was refuted when the journal was opened, or is
    /// from before the tail.
    pub(super) fn lower_limit_at_rest(&self) -> Result<(), JournalError> {
        // Nobody writes until the lower limit counts.
        let writer = locked(&self.writer);
        let Some(Writer { head, .. }) = &*writer else { return self.check() };
        let mut open = locked(&self.superblock);
        let Some(open) = &mut *open else { return self.check() };
        if !self.is_far_from_limit(*head, open.superblock.capacity) {
            return Ok(());
        }
        // A journal that has failed calls its file no more.
        self.check()?;
        // Nothing depends on a lower limit: if the file cannot be looked at, the limit stays.
        if open.is_cut_short().unwrap_or(true) {
            return Ok(());
        }
        let limit = head + at_rest();
        open.superblock.limit = limit;
        // Before the limit: with the usual distance, writers would find themselves at the limit.
        self.progress.rests.store(true, Release);
        if FaultPoint::LowerFirst.is_enabled() {
            self.progress.limit.store(limit, Release);
        }
        drop(writer);
        self.write_superblock(open, limit)
    }

    /// Moves the limit with the tail, unless it was lowered and is not near.
    pub(super) fn follow_with_limit(&self, open: &mut OpenSuperblock) -> Result<(), JournalError> {
        let head = self.progress.head.load(Acquire);
        let is_near = self.is_near_limit(head, open.superblock.capacity);
        match self.progress.rests.load(Acquire) && !is_near {
            true => self.write_superblock(open, open.superblock.limit),
            false => self.write_superblock(open, open.limit_after(head)),
        }
    }

    /// Fills the part of the ring before the limit that was never written with zeros.
    fn write_up_to_limit(&self, open: &mut OpenSuperblock) -> Result<(), JournalError> {
        let Superblock { tail, limit, capacity, .. } = open.superblock;
        let end = extent(tail, limit, capacity);
        let mut is_first = true;
        while !open.has_written(end) {
            if !mem::take(&mut is_first) {
                self.sync_file(&*open.file)?;
            }
            let written = open.write_zeros_to(end, capacity);
            written.map_err(|error| self.fail("write to the journal", error))?;
        }
        self.progress.is_written.store(open.is_written(), Release);
        Ok(())
    }

    /// Writes the superblock with this limit, or with its present one if that is higher.
    pub(super) fn write_superblock(
        &self,
        open: &mut OpenSuperblock,
        limit: u64,
    ) -> Result<(), JournalError> {
        // While waiting for the lock, this thread may have waited for a sync that failed.
        self.check()?;
        open.superblock.limit = open.superblock.limit.max(limit);
        self.write_up_to_limit(open)?;
        let OpenSuperblock { file, superblock, .. } = open;
        superblock.synced = self.progress.synced_sequence.load(Acquire);
        superblock
            .write(&**file, || self.sync_file(&**file))
            .map_err(|error| self.fail("write the journal's superblock", error))?;
        // A writer that sees the limit sees the length of the ring that it belongs to.
        self.progress.capacity.store(superblock.capacity, Release);
        let rests = superblock.limit <= self.progress.head.load(Acquire) + at_rest();
        self.progress.rests.store(rests, Release);
        self.progress.limit.store(superblock.limit, Release);
        Ok(())
    }

    /// Lowers the limit to the tail: there is nothing after the tail, and the next opening need not
    /// look for it.
    pub(super) fn lower_limit(&self) -> Result<(), JournalError> {
        let mut open = locked(&self.superblock);
        let Some(open) = &mut *open else { return self.check() };
        if open.is_cut_short()? {
            return Ok(());
        }
        open.superblock.limit = 0;
        let end = open.superblock.tail.next_multiple_of(BLOCK).max(BLOCK);
        self.write_superblock(open, end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{LEAST_CAPACITY, longest_batch};
    use super::*;

    #[test]
    fn a_small_ring_is_not_bounded_and_a_batch_always_fits_before_the_limit() {
        for (capacity, expect) in [
            (LEAST_CAPACITY, 64 << 20),
            (64 << 20, 64 << 20),
            ((64 << 20) + BLOCK, 64 << 20),
            (256 << 20, 64 << 20),
            (1 << 40, 1 << 38),
        ] {
            let found = ahead_at_least(LEAST, capacity);
            assert_eq!(found, expect, "{capacity}");
            assert!(capacity > 64 << 20 || found >= capacity, "{capacity}");
        }
        for capacity in [LEAST_CAPACITY, 1 << 20, 64 << 20, 1 << 30] {
            let found = ahead(0, capacity, true);
            assert!(found >= longest_batch(capacity) + 2 * BLOCK, "{capacity}");
        }
    }

    #[test]
    fn the_limit_of_a_new_ring_is_as_far_ahead_as_was_written() {
        let capacity = 1 << 20;
        let (first, most) = (capacity / 8, capacity / 4);
        let found = [0, 1, first, first + 1, most - 1, most, most + 1, capacity - 1]
            .map(|head| ahead(head, capacity, false));
        let expected = [first, first, first, first + 1, most - 1, most, most, most];
        assert_eq!(found, expected);
        assert_eq!(ahead(0, capacity, true), most);
        let later = [0, 1, first + 1, most, capacity - 1].map(|at| 3 * capacity + at);
        let found = later.map(|head| ahead(head, capacity, false));
        assert_eq!(found, [first, first, first + 1, most, most], "in a lap that is the first one");
    }

    #[test]
    fn what_batches_may_write_is_up_to_the_limit_in_their_lap_and_all_of_the_ring_after_it() {
        const C: u64 = 16 * BLOCK;
        for lap in [0, C, 7 * C] {
            let check = |tail, limit, expected| {
                assert_eq!(extent(lap + tail, lap + limit, C), expected, "{lap}: {tail}, {limit}");
            };
            check(0, 0, 0);
            check(0, 100, 100);
            check(99, 100, 100);
            check(0, C, C);
            check(C - 1, C, C);
            check(C - 1, C + 1, C);
            check(C, C + 1, 1);
            check(0, 10 * C, C);
        }
        assert_eq!(extent(3 * C, C, C), 0);
    }
}
