//! One of the sixteen databases of a store, by handle.

use keyspace::Db;

use crate::operations::{Execute, Open, Writable};
use crate::{
    Bitmaps, ConsumerGroups, Error, Geo, Hashes, HyperLogLogs, Keys, Lists, Operations, Perdura,
    Sets, SortedSets, Sorting, Streams, Strings, Transaction,
};

/// One of the sixteen databases of a store: it has all operations, each a transaction of its own. A
/// store's own calls use database 0.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// let archive = store.database(3)?;
/// archive.set("report", "of last year")?;
/// assert_eq!((store.exists("report")?, archive.exists("report")?), (false, true));
/// assert_eq!(archive.len(), 1);
/// assert!(store.database(16).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Database<'s> {
    pub(crate) store: &'s Perdura,
    pub(crate) db: Db,
}

impl Perdura {
    /// Returns a database, with a number from 0 to 15.
    ///
    /// # Errors
    /// [`Error::NoSuchDatabase`] for another number.
    pub fn database(&self, number: usize) -> Result<Database<'_>, Error> {
        let db = Db::new(number).ok_or(Error::NoSuchDatabase)?;
        Ok(Database { store: self, db })
    }
}

impl Database<'_> {
    /// Returns its number.
    pub fn number(&self) -> usize {
        self.db.number()
    }

    /// Returns how many keys it has, expired ones that are not deleted yet included.
    pub fn len(&self) -> u64 {
        self.store.keyspace.count(self.db).0
    }

    /// Returns true if it has no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs `work` on the declared keys, like [`Perdura::transaction`], but begins in this
    /// database.
    pub fn transaction<K: AsRef<[u8]>, R>(
        &self,
        keys: &[K],
        work: impl FnOnce(&mut Transaction<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.try_transaction(keys, work)
    }

    /// Runs `work` on the declared keys, like [`Perdura::try_transaction`], but begins in this
    /// database.
    pub fn try_transaction<K: AsRef<[u8]>, R, E: From<Error>>(
        &self,
        keys: &[K],
        work: impl FnOnce(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.store.run(self.db, &keys, work)
    }
}

impl Execute for Database<'_> {
    fn on<R>(
        &self,
        keys: &[&[u8]],
        work: impl FnOnce(&mut Open<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.store.on_in(self.db, keys, work)
    }

    fn replace_lost(&self, key: &[u8]) -> Result<(), Error> {
        self.store.replace_lost_in(self.db, key)
    }
}

impl Keys for Database<'_> {}
impl Strings for Database<'_> {}
impl Bitmaps for Database<'_> {}
impl HyperLogLogs for Database<'_> {}
impl Lists for Database<'_> {}
impl Hashes for Database<'_> {}
impl Sets for Database<'_> {}
impl SortedSets for Database<'_> {}
impl Geo for Database<'_> {}
impl Streams for Database<'_> {}
impl ConsumerGroups for Database<'_> {}
impl Sorting for Database<'_> {}
impl Writable for Database<'_> {}
impl Operations for Database<'_> {}
