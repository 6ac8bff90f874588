//! The operations that change hashes.

use super::edit::{Edit, Limits};
use super::field_expiry::{FieldChange, FieldTime};
use crate::txn::AbsentKey;
use crate::types::Type;
use crate::{Db, Error, Key, Txn};

/// The operations that change hashes. All but [`Hashes::edit_new`] find the hash by its key, and
/// delete expired fields first.
pub struct Hashes<'t, 'k> {
    txn: &'t mut Txn<'k>,
}

impl<'k> Txn<'k> {
    /// Returns the operations that change hashes.
    #[inline]
    pub fn hashes(&mut self) -> Hashes<'_, 'k> {
        Hashes { txn: self }
    }
}

impl Hashes<'_, '_> {
    /// Begins to change a hash, field by field. A key of another type is an error.
    pub fn edit(&mut self, db: Db, key: &Key<'_>, limits: Limits) -> Result<Edit, Error> {
        Edit::open(self.txn, db, key, Type::Hash, limits)
    }

    /// Begins to create a hash at a key that does not exist.
    pub fn edit_new(&mut self, absent: AbsentKey, limits: Limits) -> Edit {
        Edit::new(self.txn, absent.place(), Type::Hash, limits)
    }

    /// Sets fields to values, and creates the key if there is none. Returns how many fields are
    /// new.
    pub fn put<'a>(
        &mut self,
        db: Db,
        key: &Key<'_>,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8]), IntoIter: Clone>,
        limits: Limits,
    ) -> Result<usize, Error> {
        let mut edit = self.edit(db, key, limits)?;
        let new = edit.set_all(self.txn, fields)?;
        edit.finish(self.txn, db, key)?;
        Ok(new)
    }

    /// Like [`Hashes::put`], with this expiry time for each of the fields, which are set in order.
    pub fn put_with_time<'a>(
        &mut self,
        db: Db,
        key: &Key<'_>,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        time: FieldTime,
        limits: Limits,
    ) -> Result<usize, Error> {
        let mut edit = self.edit(db, key, limits)?;
        let mut new = 0;
        for (field, value) in fields {
            new += usize::from(edit.put(self.txn, field, value, time)?);
        }
        edit.finish(self.txn, db, key)?;
        Ok(new)
    }

    /// Calls `change` with the expiry time of each of these fields, in order (`None`: the field is
    /// absent), and applies the change that it returns to the field.
    pub fn change<'a>(
        &mut self,
        db: Db,
        key: &Key<'_>,
        fields: impl IntoIterator<Item = &'a [u8]>,
        mut change: impl FnMut(&'a [u8], Option<Option<u64>>) -> FieldChange,
    ) -> Result<(), Error> {
        let mut edit = self.edit(db, key, Limits::NONE)?;
        for field in fields {
            let time = edit.time(self.txn, field)?;
            match change(field, time) {
                _ if time.is_none() => {}
                FieldChange::Leave => {}
                FieldChange::Time(new) if Some(new) == time => {}
                FieldChange::Time(new) => edit.set_time(self.txn, field, new)?,
                FieldChange::Delete => {
                    edit.remove(self.txn, field)?;
                }
            }
        }
        edit.finish(self.txn, db, key)?;
        Ok(())
    }

    /// Removes fields, and deletes the key if none is left. Returns how many existed, and whether
    /// the key is absent afterwards.
    pub fn remove<'a>(
        &mut self,
        db: Db,
        key: &Key<'_>,
        fields: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(usize, bool), Error> {
        self.edit(db, key, Limits::NONE)?.remove_all(self.txn, db, key, fields)
    }

    /// Deletes expired fields: all of them in a packed hash, a limited number in a table. Returns
    /// how many were deleted. A key of another type has none.
    pub(crate) fn delete_some_expired(&mut self, db: Db, key: &Key<'_>) -> Result<usize, Error> {
        let (place, old) = self.txn.open(db, key)?;
        if !old.is_some_and(|old| self.txn.has_expired_fields(place, old.at)) {
            return Ok(0);
        }
        let edit = self.edit(db, key, Limits::NONE)?;
        let expired = edit.expired.len();
        edit.finish(self.txn, db, key)?;
        Ok(expired)
    }

    /// Deletes all expired fields, however many: for commands that store what they read from the
    /// hash.
    pub fn delete_expired(&mut self, db: Db, key: &Key<'_>) -> Result<(), Error> {
        while self.delete_some_expired(db, key)? > 0 {}
        Ok(())
    }
}
