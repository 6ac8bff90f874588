//! A transaction on several keys.

use std::cell::RefCell;
use std::fmt;

use keyspace::{Db, Txn};

use crate::Error;
use crate::operations::{Execute, Open};
use crate::transact::Growth;

/// An open transaction on its declared keys ([`crate::Perdura::transaction`]), or on all keys that
/// it uses ([`crate::Perdura::transact`]), in database 0 until [`Transaction::select`] chooses
/// another.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Error, Options, Perdura, Transaction};
///
/// fn pay(tx: &mut Transaction<'_>, amount: i64) -> Result<(), Error> {
///     tx.increment("anna", -amount)?;
///     tx.increment("ben", amount)?;
///     Ok(())
/// }
///
/// let store = Perdura::open(Options::volatile())?;
/// store.transaction(&["anna", "ben"], |tx| pay(tx, 30))?;
///
/// // An error undoes all of it.
/// let failed = store.transaction(&["anna", "ben"], |tx| {
///     pay(tx, 70)?;
///     Err::<(), Error>(Error::Overflow)
/// });
/// assert_eq!(failed, Err(Error::Overflow));
/// assert_eq!(store.get("ben")?.as_deref(), Some(&b"30"[..]));
/// # Ok(())
/// # }
/// ```
pub struct Transaction<'s> {
    // Operations take a transaction by shared reference, like a store.
    open: RefCell<Open<'s>>,
    /// The keys that it declared. Other keys of the same shards are locked too, but which ones is
    /// arbitrary.
    declared: Option<&'s Declared<'s>>,
    /// Locks further shards as needed, if it declared nothing.
    growth: Option<Growth<'s>>,
}

/// The keys that a transaction declares.
pub(crate) struct Declared<'k> {
    few: &'k [&'k [u8]],
    /// In ascending order, instead of `few`.
    many: Vec<&'k [u8]>,
}

/// Up to this many keys are compared one by one.
const FEW: usize = 8;

impl<'k> Declared<'k> {
    pub(crate) fn new(keys: &'k [&'k [u8]]) -> Declared<'k> {
        let mut many = if keys.len() > FEW { keys.to_vec() } else { Vec::new() };
        many.sort_unstable();
        Declared { few: keys, many }
    }

    fn has(&self, key: &[u8]) -> bool {
        match self.many.as_slice() {
            [] => self.few.contains(&key),
            many => many.binary_search(&key).is_ok(),
        }
    }
}

impl<'s> Transaction<'s> {
    pub(crate) fn new(txn: Txn<'s>, db: Db, declared: &'s Declared<'s>) -> Transaction<'s> {
        Transaction { open: RefCell::new(Open { txn, db }), declared: Some(declared), growth: None }
    }

    /// Returns a transaction that locks more shards as its operations need them.
    pub(crate) fn growing(txn: Txn<'s>, db: Db, growth: Growth<'s>) -> Transaction<'s> {
        let open = RefCell::new(Open { txn, db });
        Transaction { open, declared: None, growth: Some(growth) }
    }

    pub(crate) fn parts(&mut self) -> (&mut Open<'s>, Option<&Growth<'s>>) {
        (self.open.get_mut(), self.growth.as_ref())
    }

    pub(crate) fn open(&mut self) -> &mut Open<'s> {
        self.open.get_mut()
    }

    /// Uses another database from here on.
    pub fn select(&mut self, database: usize) -> Result<(), Error> {
        self.open.get_mut().db = Db::new(database).ok_or(Error::NoSuchDatabase)?;
        Ok(())
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

impl Execute for Transaction<'_> {
    fn on<R>(
        &self,
        keys: &[&[u8]],
        work: impl FnOnce(&mut Open<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        // It is borrowed already only if an argument of an operation called another one.
        let mut open = self.open.try_borrow_mut().map_err(|_| Error::Reentrant)?;
        if let Some(declared) = self.declared
            && !keys.iter().all(|key| declared.has(key))
        {
            return Err(Error::Undeclared);
        }
        if let Some(growth) = &self.growth {
            growth.cover(&mut open, keys)?;
        }
        work(&mut open)
    }
}
