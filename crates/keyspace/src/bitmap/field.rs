//! Integers inside a string, read and changed one after the other.

use super::integer::SPAN;
use super::{BitInteger, BitOverflow, Bitmaps, Need, byte};
use crate::{Db, Error, Key, Str};

/// An integer inside a string, and what to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitField {
    /// Its sign and width.
    pub integer: BitInteger,
    /// The number of its highest bit.
    pub at: u64,
    /// How it is changed; `None`: it is read only.
    pub change: Option<BitChange>,
}

/// A change of an integer inside a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitChange {
    /// Sets it to this value; the result is the old value.
    Set(i64, BitOverflow),
    /// Adds this to it; the result is the sum.
    Add(i64, BitOverflow),
}

impl BitField {
    /// Returns the number of its lowest bit.
    fn last(&self) -> u64 {
        self.at.saturating_add(u64::from(self.integer.bits()) - 1)
    }

    /// Returns the new value (`None`: nothing may be written) and the result.
    fn changed(&self, old: i64) -> (Option<i64>, i64) {
        match self.change {
            None => (Some(old), old),
            Some(BitChange::Set(value, overflow)) => {
                (self.integer.fit(self.integer.given(value), overflow), old)
            }
            Some(BitChange::Add(by, overflow)) => {
                let new = self.integer.fit(i128::from(old) + i128::from(by), overflow);
                (new, new.unwrap_or(old))
            }
        }
    }
}

impl Str<'_> {
    /// Returns the integer whose highest bit is number `at`; bits after the end are clear.
    pub fn integer(&self, integer: BitInteger, at: u64) -> Result<i64, Error> {
        Ok(integer.read(self.window::<SPAN>(byte(at))?, bit(at)))
    }
}

impl Bitmaps<'_, '_> {
    /// Reads and changes integers inside a string, in the given order. Returns their results,
    /// `None` for an integer that overflows and may not be written, and whether the value of the
    /// key changed. The string is extended to include every integer that is to be changed, even if
    /// nothing is written.
    pub fn change_fields(
        &mut self,
        db: Db,
        key: &Key<'_>,
        fields: &[BitField],
    ) -> Result<(Vec<Option<i64>>, bool), Error> {
        let changes = fields.iter().filter(|field| field.change.is_some());
        let Some(last) = changes.map(BitField::last).max() else {
            return Ok((self.read_fields(db, key, fields)?, false));
        };
        let (entry, need) = self.open(db, key, last)?;
        let from = self.txn.pending_changes();
        if need != Need::Nothing {
            let [byte_of_last] = match &entry {
                Some(entry) => self.txn.string(entry)?.window(byte(last))?,
                None => [0],
            };
            self.txn.strings().set_range(db, key, byte(last), &[byte_of_last])?;
        }
        let (mut answers, mut changed) = (Vec::with_capacity(fields.len()), need == Need::Growth);
        for field in fields {
            let bytes: [u8; SPAN] = match self.txn.peek(db, key) {
                Some(entry) => self.txn.string(&entry)?.window(byte(field.at))?,
                None => [0; SPAN],
            };
            let old = field.integer.read(bytes, bit(field.at));
            let (new, answer) = field.changed(old);
            answers.push(new.map(|_| answer));
            if let Some(new) = new.filter(|new| *new != old) {
                let bytes = field.integer.write(bytes, bit(field.at), new);
                let touched = byte(field.last()) - byte(field.at) + 1;
                self.txn.strings().set_range(db, key, byte(field.at), &bytes[..touched])?;
                changed = true;
            }
        }
        if !changed {
            self.txn.mark_metadata_only(from);
        }
        Ok((answers, changed))
    }

    /// Reads integers. A key that does not exist reads as zeros and is not created.
    fn read_fields(
        &mut self,
        db: Db,
        key: &Key<'_>,
        fields: &[BitField],
    ) -> Result<Vec<Option<i64>>, Error> {
        let entry = self.txn.find(db, key);
        let value = entry.as_ref().map(|entry| self.txn.string(entry)).transpose()?;
        let read = |field: &BitField| match &value {
            Some(value) => value.integer(field.integer, field.at).map(Some),
            None => Ok(Some(0)),
        };
        fields.iter().map(read).collect()
    }
}

/// Returns the position of a bit within its byte.
fn bit(at: u64) -> u32 {
    (at & 7) as u32
}
