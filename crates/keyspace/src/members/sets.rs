//! The operations that change sets.

use super::edit::{Edit, Limits};
use crate::txn::AbsentKey;
use crate::types::Type;
use crate::{Db, Error, Key, Txn};

/// The operations that change sets. All but [`Sets::edit_new`] find the set by its key.
pub struct Sets<'t, 'k> {
    txn: &'t mut Txn<'k>,
}

impl<'k> Txn<'k> {
    /// Returns the operations that change sets.
    #[inline]
    pub fn sets(&mut self) -> Sets<'_, 'k> {
        Sets { txn: self }
    }
}

impl Sets<'_, '_> {
    /// Begins to change a set, member by member. A key of another type is an error.
    pub fn edit(&mut self, db: Db, key: &Key<'_>, limits: Limits) -> Result<Edit, Error> {
        Edit::open(self.txn, db, key, Type::Set, limits)
    }

    /// Begins to create a set at a key that does not exist.
    pub fn edit_new(&mut self, absent: AbsentKey, limits: Limits) -> Edit {
        Edit::new(self.txn, absent.place(), Type::Set, limits)
    }

    /// Adds members, and creates the key if there is none. Returns how many are new.
    pub fn add<'a>(
        &mut self,
        db: Db,
        key: &Key<'_>,
        members: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>,
        limits: Limits,
    ) -> Result<usize, Error> {
        let mut edit = self.edit(db, key, limits)?;
        let new = edit.set_all(self.txn, members.into_iter().map(|member| (member, &[][..])))?;
        edit.finish(self.txn, db, key)?;
        Ok(new)
    }

    /// Removes members, and deletes the key if none is left. Returns how many existed, and whether
    /// the key is absent afterwards.
    pub fn remove<'a>(
        &mut self,
        db: Db,
        key: &Key<'_>,
        members: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(usize, bool), Error> {
        self.edit(db, key, Limits::NONE)?.remove_all(self.txn, db, key, members)
    }
}
