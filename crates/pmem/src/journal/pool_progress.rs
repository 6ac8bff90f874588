//! The line of the pool's file in which the journal says how far it came.
//!
//! Each of the two files is whole by itself, and may be put back from a copy that is older than the
//! other one. A pool that lacks what left the journal long ago, or a journal that lacks what had
//! been synced, would answer with a state that never was. So the pool's file says up to where
//! batches were applied to it, and up to where the journal was synced then. It is written with each
//! group of pages of a checkpoint, and at its end, before the sync of these: the pool says it no
//! later than the superblock of the journal moves its tail.
//!
//! The line is the journal's own: nobody stores there, so that no batch has it.
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
    /// The number of the journal that it speaks of.
    pub(crate) number: u64,
    /// The pool's file has all batches before this sequence number.
    pub(crate) applied: u64,
    /// All batches before this one were synced in the journal.
    pub(crate) synced: u64,
}

impl PoolProgress {
    /// Returns what the pool's file says of a journal that was just opened.
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

    /// Returns what a line says; nothing if it was never written.
    pub(super) fn decode(raw: &[u8; BYTES]) -> Result<Option<PoolProgress>, JournalError> {
        if raw.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let u64_at = |at: usize| u64::from_le_bytes(array(raw, at));
        let (number, applied, synced) = (u64_at(8), u64_at(16), u64_at(24));
        let progress = PoolProgress { number, applied, synced };
        if progress.encode() == *raw { Ok(Some(progress)) } else { Err(JournalError::Progress) }
    }

    /// Refuses a pool that lacks batches which have left its journal. `said` is what the pool's
    /// file says.
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

    /// Returns what a pool says of this journal. What it says of one in a format before counts for
    /// nothing: it may be from an opening that was interrupted, and older programs leave it as it
    /// is.
    fn of_journal(said: Option<PoolProgress>, superblock: &Superblock) -> Option<PoolProgress> {
        said.filter(|said| superblock.is_said_by_pool() && said.number == superblock.id.journal)
    }

    /// Refuses a journal that ends before what the pool knows to have been synced. A pool that says
    /// nothing has not come further than the beginning of the journal: that never held anything.
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
    /// Says in the pool's file, which is yet to be synced, how far the journal came.
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
        // Of a journal that was just begun, the pool may not say anything yet.
        let begun = Superblock { tail: 0, ..used };
        let other = Some(PoolProgress { number: 2, ..SAID });
        for said in [None, other] {
            assert_eq!([9, 10].map(|end| is_accepted(&begun, said, end)), [true, false]);
            assert_eq!([9, 10].map(|end| is_accepted(&used, said, end)), [false, false]);
        }
        // Nothing is said of an older format, or it is not up to date.
        let older = Superblock { checked_from: u64::MAX / 2, ..used };
        assert!(
            [None, other, applied(8), synced(13)].map(|said| is_accepted(&older, said, 12))
                == [true; 4]
        );
    }
}
