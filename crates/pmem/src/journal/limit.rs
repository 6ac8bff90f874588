//! How far into the ring batches may be: what a recovery reads to tell damage from the end.
//!
//! A batch that is not whole is the end, unless a later one names it as synced, and that one may be
//! anywhere that was written to. Reading a whole ring for it would take most of the time of a
//! restart. So the superblock has a limit: the writer writes past it only after both copies have
//! a higher one, synced. What the ring has from there on is older than the tail, or was left by an
//! earlier incarnation and refuted when this one was opened: it names nothing as synced that could
//! be missing now.
//!
//! The limit is put a quarter of the ring past the newest batch, or 64 MiB if that is more, with
//! each move of the tail, and by the background thread when half of that is used up. So the writer
//! waits for it only if a sync takes longer than 32 MiB of writes do. A ring of 64 MiB or less
//! never has a limit before its end: a sync of a slow disk would often take longer than its
//! quarter lasts.

use super::core::{Journal, locked};
use super::error::JournalError;
use super::layout::BLOCK;
use super::storage::Storage;
use super::superblock::Superblock;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// How far the limit is ahead at least. Simulated rings are small, and are to meet it all the same.
const LEAST_AHEAD: u64 = if cfg!(any(test, feature = "sim")) { BLOCK } else { LEAST };
const LEAST: u64 = 64 << 20;

/// The superblock of a journal that is in use, and its file.
pub(super) struct OpenSuperblock {
    pub(super) file: Arc<dyn Storage>,
    pub(super) superblock: Superblock,
}

/// Returns how far the limit is put past the newest batch.
fn ahead(capacity: u64) -> u64 {
    ahead_at_least(LEAST_AHEAD, capacity)
}

fn ahead_at_least(least: u64, capacity: u64) -> u64 {
    least.max(capacity / 4)
}

/// Returns the limit for batches that end at `head`. The next batch ends before it, however long it
/// is.
pub(super) fn limit_after(head: u64, capacity: u64) -> u64 {
    head + ahead(capacity)
}

impl Journal {
    /// Returns true if the background thread is to raise the limit.
    pub(super) fn is_near_limit(&self, head: u64, capacity: u64) -> bool {
        let limit = self.progress.limit.load(Acquire);
        // The writer stops at the tail anyway.
        let end = self.progress.tail.load(Acquire) / BLOCK * BLOCK + capacity;
        head + ahead(capacity) / 2 > limit && limit < end
    }

    /// Returns true if batches may end there.
    pub(super) fn is_before_limit(&self, end: u64) -> bool {
        end <= self.progress.limit.load(Acquire)
    }

    /// Raises the limit before the writer writes up to `end`.
    pub(super) fn wait_for_limit(&self, end: u64) -> Result<(), JournalError> {
        match &mut *locked(&self.superblock) {
            Some(open) if !self.is_before_limit(end) => self.write_superblock(open),
            _ => self.check(),
        }
    }

    /// Raises the limit if it is near, in the background.
    pub(super) fn raise_limit(&self) -> Result<(), JournalError> {
        let mut open = locked(&self.superblock);
        let Some(open) = &mut *open else { return self.check() };
        let head = self.progress.head.load(Acquire);
        match self.is_near_limit(head, open.superblock.capacity) {
            true => self.write_superblock(open),
            false => Ok(()),
        }
    }

    /// Writes the superblock, with a limit after what is written by now.
    pub(super) fn write_superblock(&self, open: &mut OpenSuperblock) -> Result<(), JournalError> {
        // Whoever waited for the lock may have waited for a sync that failed.
        self.check()?;
        let OpenSuperblock { file, superblock } = open;
        superblock.limit = limit_after(self.progress.head.load(Acquire), superblock.capacity);
        superblock.synced = self.progress.synced_sequence.load(Acquire);
        superblock
            .write(&**file, || self.sync_file(&**file))
            .map_err(|error| self.fail("write the journal's superblock", error))?;
        self.progress.limit.store(superblock.limit, Release);
        Ok(())
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
            assert!(ahead(capacity) >= longest_batch(capacity) + 2 * BLOCK, "{capacity}");
        }
    }
}
