//! The line of the pool's file that records the journal's progress.
//!
//! Each of the two files is consistent by itself, and may be restored from a copy that is older
//! than the other one. A pool that lacks batches that left the journal long ago, or a journal that
//! lacks batches that had been synced, would yield a state that never existed. So the pool's file
//! records up to where batches were applied to it, and up to where the journal was synced then. It
//! is written with each group of pages of a checkpoint, and at the end of it, before these are
//! synced: the pool records this no later than the journal's superblock moves its tail.
//!
//! The line belongs to the journal: nobody else stores there, so no batch contains it.
//!
//! ```text
//! 0   crc32c u32 of 8..32        4     16  applied: sequence number   8
//! 4   zero                       4     24  synced: sequence number    8
//! 8   number of the journal      8     32  zero                      32
//! ```

use super::core::Journal;
use super::error::JournalError;
use super::layout::array;
use super::scan::ScanEnd;
use super::superblock::{Superblock, crc32c};
use crate::lines::LINE;

/// Bytes of the line.
pub(crate) const BYTES: usize = LINE as usize;
const END: usize = 32;

/// The content of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolProgress {
    /// The number of the journal that it describes.
    pub(crate) number: u64,
    /// The pool's file has all batches before this sequence number.
    pub(crate) applied: u64,
    /// All batches before this one were synced in the journal.
    pub(crate) synced: u64,
}

impl PoolProgress {
    /// Returns the progress to record for a journal that was just opened.
    pub(super) fn at_tail(superblock: &Superblock) -> PoolProgress {
        let Superblock { id, tail_sequence, synced, .. } = *superblock;
        PoolProgress { number: id.journal, applied: tail_sequence, synced }
    }

    pub(super) fn encode(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[8..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..24].copy_from_slice(&self.applied.to_le_bytes());
        out[24..END].copy_from_slice(&self.synced.to_le_bytes());
        let crc = crc32c(&out[8..END]);
        out[..4].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes a line; `None` if it was never written.
    pub(super) fn decode(raw: &[u8; BYTES]) -> Result<Option<PoolProgress>, JournalError> {
        if raw.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let u64_at = |at: usize| u64::from_le_bytes(array(raw, at));
        let (number, applied, synced) = (u64_at(8), u64_at(16), u64_at(24));
        let progress = PoolProgress { number, applied, synced };
        if progress.encode() == *raw { Ok(Some(progress)) } else { Err(JournalError::Progress) }
    }

    /// Refuses a pool that lacks batches which have left its journal. `said` is the pool's record.
    pub(super) fn refuse_old_pool(
        said: Option<PoolProgress>,
        superblock: &Superblock,
    ) -> Result<(), JournalError> {
        let tail = superblock.tail_sequence;
        match PoolProgress::of_journal(said, superblock) {
            Some(said) if said.applied < tail => {
                Err(JournalError::OldPool { applied: said.applied, tail })
            }
            _ => Ok(()),
        }
    }

    /// Returns a pool's record if it describes this journal. A record about a journal in an earlier
    /// format is ignored: it may be from an interrupted opening, and older programs do not update
    /// it.
    fn of_journal(said: Option<PoolProgress>, superblock: &Superblock) -> Option<PoolProgress> {
        said.filter(|said| superblock.is_said_by_pool() && said.number == superblock.id.journal)
    }

    /// Refuses a journal that ends before a batch that the pool records as synced. A pool without a
    /// record has not got past the journal's beginning, when the journal was empty.
    pub(super) fn refuse_old_journal(
        said: Option<PoolProgress>,
        superblock: &Superblock,
        end: &ScanEnd,
    ) -> Result<(), JournalError> {
        let Superblock { tail, tail_sequence, .. } = *superblock;
        let has_held = tail != 0 || end.sequence > tail_sequence;
        match PoolProgress::of_journal(said, superblock) {
            Some(said) if end.sequence < said.synced => {
                Err(JournalError::OldJournal { end: end.sequence, synced: said.synced })
            }
            None if has_held && superblock.is_said_by_pool() => {
                Err(JournalError::OldPool { applied: 0, tail: tail_sequence })
            }
            _ => Ok(()),
        }
    }
}

impl Journal {
    /// Records the journal's progress in the pool's file, which must still be synced.
    pub(super) fn say(&self, progress: &PoolProgress, at: u64) -> Result<(), JournalError> {
        self.write_to_pool(&progress.encode(), at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::superblock::tests::sample;
    use super::*;

    const SAID: PoolProgress = PoolProgress { number: 3, applied: 9, synced: 12 };

    #[test]
    fn a_line_reads_back_as_it_was_written_and_every_flipped_bit_is_noticed() {
        let raw = SAID.encode();
        assert_eq!(PoolProgress::decode(&raw).unwrap(), Some(SAID));
        assert_eq!(PoolProgress::decode(&[0; BYTES]).unwrap(), None);
        for bit in 0..8 * BYTES {
            let mut raw = raw;
            raw[bit / 8] ^= 1 << (bit % 8);
            let error = PoolProgress::decode(&raw).unwrap_err();
            assert!(matches!(error, JournalError::Progress), "bit {bit}");
        }
    }

    #[test]
    fn a_pool_or_a_journal_that_is_too_old_is_refused() {
        let used = sample();
        assert_eq!((used.id.journal, used.tail_sequence), (3, 9));
        let is_accepted = |superblock: &Superblock, said, sequence| {
            let end = ScanEnd { position: 0, sequence, incarnation: 1, synced: 9 };
            let pool = PoolProgress::refuse_old_pool(said, superblock).is_ok();
            pool && PoolProgress::refuse_old_journal(said, superblock, &end).is_ok()
        };
        let check = |said, sequence| is_accepted(&used, said, sequence);
        let applied = |applied| Some(PoolProgress { applied, ..SAID });
        let synced = |synced| Some(PoolProgress { synced, ..SAID });
        assert_eq!([8, 9, 10].map(|n| check(applied(n), 12)), [false, true, true]);
        assert_eq!([11, 12, 13].map(|n| check(synced(n), 12)), [true, true, false]);
        // If a journal was just begun, the pool may not have a record yet.
        let begun = Superblock { tail: 0, ..used };
        let other = Some(PoolProgress { number: 2, ..SAID });
        for said in [None, other] {
            assert_eq!([9, 10].map(|end| is_accepted(&begun, said, end)), [true, false]);
            assert_eq!([9, 10].map(|end| is_accepted(&used, said, end)), [false, false]);
        }
        // For an older format there is no record, or it is out of date.
        let older = Superblock { checked_from: u64::MAX / 2, ..used };
        assert!(
            [None, other, applied(8), synced(13)].map(|said| is_accepted(&older, said, 12))
                == [true; 4]
        );
    }
}
