//! Keys, whatever they hold.

use std::time::Duration;

use crate::operations::{Execute, Writable};
use crate::{Error, Perdura, Transaction, ValueType};

/// Operations on keys of any type.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura};
/// use std::time::Duration;
///
/// let store = Perdura::open(Options::volatile())?;
/// store.set("session:1", "Ada")?;
/// assert!(store.expire("session:1", Duration::from_secs(60))?);
/// assert!(store.ttl("session:1")?.is_some_and(|left| left <= Duration::from_secs(60)));
/// assert!(store.rename("session:1", "session:2")?);
/// assert!(!store.exists("session:1")?);
/// assert!(store.persist("session:2")?);
/// assert!(store.delete("session:2")?);
/// # Ok(())
/// # }
/// ```
pub trait Keys: Execute {
    /// Returns true if a key exists.
    fn exists(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.find(tx.db, &key).is_some())
        })
    }

    /// Returns the type of the value that a key holds; `None` if there is no key.
    fn value_type(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueType>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.peek(tx.db, &key).map(|entry| tx.txn.properties(&entry).value_type()))
        })
    }

    /// Deletes a key. Returns true if there was one.
    fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.replace_lost(key.as_ref())?;
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.keys().delete(tx.db, &key)?)
        })
    }

    /// Lets a key expire after `ttl`. Returns true if there is one.
    fn expire(&self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let (key, until) = (tx.key(&key)?, tx.until(ttl));
            Ok(tx.txn.keys().set_expiry(tx.db, &key, Some(until))?)
        })
    }

    /// Removes a key's TTL. Returns true if there is such a key.
    fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.keys().set_expiry(tx.db, &key, None)?)
        })
    }

    /// Returns the time to live of a key; `None` if there is no key, or if it does not expire.
    fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<Duration>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let expiry =
                tx.txn.peek(tx.db, &key).and_then(|entry| tx.txn.properties(&entry).expiry());
            Ok(expiry.map(|at| Duration::from_millis(at.saturating_sub(tx.txn.now()))))
        })
    }

    /// Gives a key another name, with its value and expiry time. Returns true if there is one.
    fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[from.as_ref(), to.as_ref()], |tx| {
            let (from, to) = (tx.key(&from)?, tx.key(&to)?);
            Ok(tx.txn.keys().rename((tx.db, &from), (tx.db, &to))?)
        })
    }
}

impl Keys for Perdura {}
impl Keys for Transaction<'_> {}
