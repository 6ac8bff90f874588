//! Sorted sets: members ordered by their scores, and members of equal score by their bytes.
//!
//! A packed sorted set holds its members in order, each before its score, so that it is read in the
//! order in which clients see it, and a new highest member is appended. The large form is a table
//! with a counted tree next to it (`structures::sorted_set`). An empty sorted set has no key.

mod edit;
mod fill;
mod read;
mod shrink;

pub use edit::SortedSetEdit;
pub use fill::{MANY, sort_scored};
pub use read::SortedSetRef;

use crate::layout::Kind;
use crate::members::Limits;
use crate::txn::AbsentKey;
use crate::types::Type;
use crate::{Db, Entry, Error, Key, Txn, entry};

/// The operations that change sorted sets. All but [`SortedSets::edit_new`] find the sorted set by
/// its key.
pub struct SortedSets<'t, 'k> {
    txn: &'t mut Txn<'k>,
}

impl<'k> Txn<'k> {
    /// Returns the sorted set of an entry.
    pub fn sorted_set(&self, entry: &Entry) -> Result<SortedSetRef<'_>, Error> {
        let shard = &self.shards[entry.shard];
        match entry::sound(shard, entry.at)? {
            Kind::Collection(head) if head.what == Type::SortedSet => {
                SortedSetRef::read(shard, self.shared().hashing, entry.at, head)
            }
            _ => Err(Error::WrongType),
        }
    }

    /// Returns the operations that change sorted sets.
    #[inline]
    pub fn sorted_sets(&mut self) -> SortedSets<'_, 'k> {
        SortedSets { txn: self }
    }
}

impl SortedSets<'_, '_> {
    /// Begins to change a sorted set, which Redis calls small within `limits`. A key of another
    /// type is an error.
    pub fn edit(&mut self, db: Db, key: &Key<'_>, limits: Limits) -> Result<SortedSetEdit, Error> {
        SortedSetEdit::open(self.txn, db, key, limits)
    }

    /// Begins to create a sorted set at a key that does not exist.
    pub fn edit_new(&mut self, absent: AbsentKey, limits: Limits) -> SortedSetEdit {
        SortedSetEdit::new(self.txn, absent.place(), limits)
    }

    /// Replaces the value of a key, of any type, with a sorted set of these members, which must be
    /// distinct. Returns true if anything was written.
    pub fn replace<'a>(
        &mut self,
        db: Db,
        key: &Key<'_>,
        members: impl IntoIterator<Item = (&'a [u8], f64)>,
        limits: Limits,
    ) -> Result<bool, Error> {
        let mut members: Vec<(&[u8], f64)> = members.into_iter().collect();
        sort_scored(&mut members);
        let was_there = match members.is_empty() {
            true => self.txn.keys().delete(db, key)?,
            false => self.txn.keys().delete_to_overwrite(db, key)?,
        };
        let mut edit = self.edit(db, key, limits)?;
        if members.len() > limits.entries.max(MANY) {
            edit.fill(self.txn, &members)?;
        } else {
            for (member, score) in members {
                edit.change(self.txn, member, |_| Some(score))?;
            }
        }
        let is_there = edit.finish(self.txn, db, key)?;
        Ok(was_there || is_there)
    }
}
