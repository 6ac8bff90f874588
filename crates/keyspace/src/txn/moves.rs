//! Moves the place of the data in a stream for replicas with the commits of what a primary sends.
//!
//! A commit stages the place after it in the first of the shards that it changes. A commit of other
//! data marks that shard: its word stays [`LOST`] until all data is replaced, and there is no place
//! as long as one shard is marked. A word that was lost by the medium reads as zero, which is that
//! of no place either. The format is described in [`crate::position`].

use heap::View;

use super::Txn;
use crate::fault_points::FaultPoint;
use crate::layout::MOVED_ROOT;
use crate::{DATABASES, Db};

/// Bits of a shard's word that say which database is selected.
const DB_BITS: u32 = 5;
const DB_MASK: u64 = (1 << DB_BITS) - 1;
/// The word of a shard with a change that is in no stream.
const LOST: u64 = DB_MASK;
/// The word of a shard in which nothing was committed since a place began.
const BEGUN: u64 = DB_MASK - 1;
const _: () = assert!((DATABASES as u64) < BEGUN);

/// The effect of a commit on a place that moves.
#[derive(Clone, Copy, Default)]
pub(crate) enum Moves {
    /// It changes data, and is in no stream: there is no place after it.
    #[default]
    Away,
    /// The place after it is this word of a shard.
    To(u64),
    /// It changes no data that anybody sees.
    Nowhere,
}

/// Returns the offset and the database of the last commit of which `words`, one of each shard, say
/// so, since a place began at offset `from`. The inner option is none if there was no commit since;
/// the outer one if the data has no place.
pub(crate) fn last_move(from: u64, words: &[u64]) -> Option<Option<(u64, u8)>> {
    let mut last = None;
    for word in words.iter().filter(|word| **word != BEGUN) {
        let db = (word & DB_MASK).checked_sub(1).filter(|db| *db < DATABASES as u64)?;
        let offset = Some(word >> DB_BITS).filter(|offset| *offset >= from)?;
        last = last.max(Some((offset, db as u8)));
    }
    Some(last)
}

/// Returns the offset in the word of a shard; none if nothing was committed there since a place
/// began.
pub(crate) fn moved_to(word: u64) -> Option<u64> {
    (word != BEGUN).then_some(word >> DB_BITS)
}

fn move_to(offset: u64, db: Db) -> Moves {
    let word = offset << DB_BITS | (db.number() as u64 + 1);
    // An offset that does not fit is not kept.
    if word >> DB_BITS == offset { Moves::To(word) } else { Moves::Away }
}

impl Txn<'_> {
    /// Says that the next commit executes what a primary has sent: its stream ends at `offset`
    /// afterwards, with this database selected.
    #[inline]
    pub fn set_stream_position(&mut self, offset: u64, db: Db) {
        self.moves = move_to(offset, db);
    }

    /// Stages where a stream ends after a commit of commands that change no data, in the first of
    /// the shards that are locked.
    pub fn stage_stream_position(&mut self, offset: u64, db: Db) {
        let first = self.shards.first();
        if first.is_some_and(|shard| shard.word(shard.root(MOVED_ROOT)) != LOST) {
            let word = match move_to(offset, db) {
                Moves::To(word) => word,
                Moves::Away | Moves::Nowhere => LOST,
            };
            self.stage_move(0, word);
        }
        self.moves = Moves::Nowhere;
    }

    /// Says that the next commit changes no data that anybody sees: a place stays where it is.
    pub fn keep_stream_position(&mut self) {
        self.moves = Moves::Nowhere;
    }

    /// Stages, in the first shard that is changed, where a place that moves is after the commit.
    #[cold]
    pub(super) fn move_position(&mut self) {
        let word = match std::mem::take(&mut self.moves) {
            Moves::To(word) => word,
            Moves::Away if FaultPoint::MoveAway.is_enabled() => LOST,
            Moves::Away | Moves::Nowhere => return,
        };
        let Some(shard) = self.shards.iter_mut().find(|shard| shard.is_dirty()) else { return };
        let root = shard.root(MOVED_ROOT);
        let present = shard.word(root);
        if present != LOST && present != word {
            shard.set(root, word);
        }
    }

    /// Stages a place after a commit that changes no data, in its only shard.
    pub(crate) fn advance_position(&mut self, offset: u64, db: Db) {
        if let Moves::To(word) = move_to(offset, db) {
            self.stage_move(0, word);
        }
        self.moves = Moves::Nowhere;
    }

    /// Stages that nothing was committed since a place that moves has begun. All shards are locked.
    pub(crate) fn begin_moves(&mut self) {
        (0..self.shards.len()).for_each(|shard| self.stage_move(shard, BEGUN));
    }

    fn stage_move(&mut self, shard: usize, word: u64) {
        let shard = &mut self.shards[shard];
        let root = shard.root(MOVED_ROOT);
        shard.set(root, word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(offset: u64, db: u64) -> u64 {
        offset << DB_BITS | (db + 1)
    }

    #[test]
    fn the_place_is_that_of_the_last_commit() {
        assert_eq!(last_move(7, &[BEGUN, BEGUN]), Some(None));
        assert_eq!(last_move(7, &[BEGUN, word(8, 15)]), Some(Some((8, 15))));
        assert_eq!(last_move(7, &[word(8, 15), word(9, 0)]), Some(Some((9, 0))));
        assert_eq!(last_move(7, &[word(10, 3), word(9, 4), BEGUN]), Some(Some((10, 3))));
        assert_eq!(last_move(7, &[word(7, 3)]), Some(Some((7, 3))));
    }

    #[test]
    fn there_is_none_after_a_change_of_other_data_or_if_a_word_makes_no_sense() {
        for wrong in [0, LOST, word(9, 0) | LOST, word(6, 3), word(9, 16), 9 << DB_BITS] {
            assert_eq!(last_move(7, &[word(8, 1), wrong]), None, "{wrong:x}");
            assert_eq!(last_move(7, &[wrong, word(8, 1)]), None, "{wrong:x}");
        }
    }
}
