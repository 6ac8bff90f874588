//! Field expiration: fields of hashes that have an expiry time of their own.
//!
//! An expired field is absent for readers. A writer of the hash first deletes expired fields, and
//! lists the deletions: all of them in a packed hash; in a table, some of them and those that the
//! command names. When the last field has expired, the key has expired as if it had an expiry time
//! of its own.

use structures::listpack::Items;

use super::edit::{Edit, State};
use super::read::find;
use crate::collection::{Text, elements, is_expired, item, time_at, time_item};
use crate::layout::FIELDS;
use crate::types::Encoding;
use crate::{Error, Txn};

/// The maximum number of expired fields of a table that one command, or one step, deletes.
const AT_ONCE: usize = 64;

/// The effect of a write of a value on its field's expiry time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldTime {
    /// The field loses it.
    Clear,
    /// It stays as it was.
    Keep,
    /// It becomes this time, in unix ms.
    At(u64),
}

impl FieldTime {
    pub(super) fn resolve(self, old: Option<u64>) -> Option<u64> {
        match self {
            FieldTime::Clear => None,
            FieldTime::Keep => old,
            FieldTime::At(at) => Some(at),
        }
    }
}

/// The change to make to a field that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldChange {
    /// Nothing.
    Leave,
    /// Set its expiry time, in unix ms, or remove it.
    Time(Option<u64>),
    /// Delete it.
    Delete,
}

impl Edit {
    /// Deletes expired fields: all of them in a packed hash, a limited number in a table.
    #[inline]
    pub(super) fn expire(&mut self, txn: &mut Txn<'_>) -> Result<(), Error> {
        match self.old {
            Some(old) if old.expiry & FIELDS != 0 => self.expire_some(txn),
            _ => Ok(()),
        }
    }

    #[cold]
    fn expire_some(&mut self, txn: &mut Txn<'_>) -> Result<(), Error> {
        let before = self.expired.len();
        match &mut self.state {
            State::Listpack { bytes, count, unchanged_prefix, timed: true } => {
                let now = self.now;
                let expired = elements(bytes).filter(|element| element.is_expired(now));
                let expired: Vec<(usize, usize, Vec<u8>)> = expired
                    .map(|gone| (gone.begin, gone.end, Text::of(gone.field).as_ref().to_vec()))
                    .collect();
                for (begin, end, field) in expired.into_iter().rev() {
                    bytes.drain(begin..end);
                    (*count, *unchanged_prefix) = (*count - 1, None);
                    self.expired.push(field);
                }
            }
            State::Listpack { .. } => {}
            State::Table(dict) => {
                let dict = *dict;
                let expired = dict.until(&txn.shards[self.place.shard], self.now, AT_ONCE);
                for field in expired.map_err(|_| self.damaged())? {
                    let before = self.expired.len();
                    self.remove(txn, &field)?;
                    if self.expired.len() == before {
                        return Err(self.damaged());
                    }
                }
            }
        }
        if self.expired.len() > before {
            (self.changed, self.shrunk) = (true, true);
        }
        Ok(())
    }

    /// Converts a packed hash to the form in which each element has an expiry time.
    pub(super) fn make_timed(&mut self) {
        let State::Listpack { bytes, unchanged_prefix, timed, .. } = &mut self.state else {
            return;
        };
        if *timed {
            return;
        }
        let mut new = Vec::with_capacity(bytes.len() + 16);
        for (number, (_, item)) in Items::of(bytes).enumerate() {
            item.encode(&mut new);
            if number % 2 == 1 {
                time_item(None).encode(&mut new);
            }
        }
        (*bytes, *unchanged_prefix, *timed) = (new, None, true);
        if self.encoding == Encoding::Listpack {
            self.encoding = Encoding::ListpackEx;
        }
    }

    /// Returns the expiry time of a field, if the field exists.
    pub(super) fn time(&self, txn: &Txn<'_>, field: &[u8]) -> Result<Option<Option<u64>>, Error> {
        let found = match &self.state {
            State::Listpack { bytes, timed, .. } => {
                let found = find(bytes, self.items(), item(field));
                found.map(|(at, _)| if *timed { time_at(bytes, at) } else { None })
            }
            State::Table(dict) => {
                let shard = &txn.shards[self.place.shard];
                let found = dict.find(shard, self.hashing.hash(field), field, self.verify);
                let found = found.map_err(|_| self.damaged())?;
                found.map(|place| place.member().time(shard))
            }
        };
        Ok(found.filter(|&time| !is_expired(time, self.now)))
    }

    /// Sets or removes the expiry time of a field that exists.
    pub(super) fn set_time(
        &mut self,
        txn: &mut Txn<'_>,
        field: &[u8],
        time: Option<u64>,
    ) -> Result<(), Error> {
        if time.is_some() {
            self.make_timed();
        }
        let damaged = self.damaged();
        match &mut self.state {
            State::Listpack { timed: false, .. } => return Ok(()),
            State::Listpack { bytes, unchanged_prefix, .. } => {
                let Some((at, _)) = find(bytes, 3, item(field)) else { return Ok(()) };
                let mut all = Items::of(&bytes[at..]);
                all.by_ref().take(2).for_each(drop);
                let begin = at + all.offset();
                all.by_ref().take(1).for_each(drop);
                let end = at + all.offset();
                let mut new = Vec::with_capacity(9);
                time_item(time).encode(&mut new);
                bytes.splice(begin..end, new);
                *unchanged_prefix = None;
            }
            State::Table(dict) => {
                let shard = &mut txn.shards[self.place.shard];
                let found = dict.find(shard, self.hashing.hash(field), field, self.verify);
                let Some(place) = found.map_err(|_| damaged)? else { return Ok(()) };
                dict.set_time(shard, place, time).map_err(|error| match error {
                    structures::Error::Full(_) => Error::Full,
                    structures::Error::Damaged(_) => damaged,
                })?;
            }
        }
        self.changed = true;
        if !self.fits() {
            self.make_table(txn)?;
        }
        Ok(())
    }

    /// Returns true if any field has an expiry time.
    pub(super) fn has_ttls(&self, txn: &Txn<'_>) -> bool {
        match &self.state {
            State::Listpack { bytes, timed, .. } => {
                *timed && elements(bytes).any(|element| element.time.is_some())
            }
            State::Table(dict) => dict.has_ttls(&txn.shards[self.place.shard]),
        }
    }
}
