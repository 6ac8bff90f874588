//! Many members at once: a set of a million in the time that it takes to write its blocks.
//!
//! Members that come in any order go to another segment of the index each, a line that is in no
//! cache, and each split of a segment reads all of its members. So they are put in the order of
//! their hashes first: one segment after the other is filled, while it is in the cache, and grows
//! at once as deep as will be needed.

use structures::index::Index;

use super::edit::{Edit, State};
use super::field_expiry::FieldTime;
use crate::types::Type;
use crate::{Error, Txn};

/// From this many on it pays to order them.
const MANY: usize = 1024;

/// A table that grows by this factor is made as deep as will be needed. Of another, many of the
/// members may be there already.
const GROWTH: u64 = 4;

impl Edit {
    /// Gives fields their values, or adds members to a set; how many are new. The last value of a
    /// field counts.
    pub(super) fn set_all<'a>(
        &mut self,
        txn: &mut Txn<'_>,
        members: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<usize, Error> {
        let mut members = members.into_iter();
        let mut new = 0;
        loop {
            if matches!(self.state, State::Table(_)) && members.size_hint().0 >= MANY {
                return Ok(new + self.set_in_order(txn, members)?);
            }
            let Some((field, value)) = members.next() else { return Ok(new) };
            new += usize::from(self.set(txn, field, value)?);
        }
    }

    fn set_in_order<'a>(
        &mut self,
        txn: &mut Txn<'_>,
        members: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<usize, Error> {
        let State::Table(dict) = self.state else { return Ok(0) };
        let hashing = self.hashing;
        let mut members: Vec<(u64, &[u8], &[u8])> =
            members.map(|(field, value)| (hashing.hash(field), field, value)).collect();
        // A stable order: of a field that comes twice, the second value stays the second.
        members.sort_by_key(|(hash, ..)| *hash);
        if self.what == Type::Set {
            members.dedup_by(|(hash, field, _), (its, other, _)| hash == its && field == other);
        }
        let (before, more) = (self.len(txn), members.len() as u64);
        let depth = if more > GROWTH * before { Index::depth_for(before + more) } else { 0 };
        let mut new = 0;
        for (_, field, value) in members {
            let done = self.set_in_table(txn, dict, (field, value), FieldTime::Clear, depth)?;
            new += usize::from(done);
        }
        Ok(new)
    }
}
