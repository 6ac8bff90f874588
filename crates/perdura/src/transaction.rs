//! Typed operations on the keys of one transaction.

use std::time::Duration;

use keyspace::{Db, Expire, Key, Txn};

use crate::Error;

/// An open transaction on the keys that it declared, in database 0 until [`Transaction::select`]
/// chooses another.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
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
    pub(crate) txn: Txn<'s>,
    pub(crate) db: Db,
}

impl<'s> Transaction<'s> {
    pub(crate) fn new(txn: Txn<'s>) -> Transaction<'s> {
        Transaction { txn, db: Db::default() }
    }

    pub(crate) fn commit(&mut self) -> Result<(), Error> {
        Ok(self.txn.commit()?)
    }

    /// Runs an operation that changes something, and undoes what it did if it fails: whoever
    /// handles its error goes on as if it had not been.
    pub(crate) fn whole<R>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let before = self.txn.savepoint();
        let done = work(self);
        if done.is_err() {
            self.txn.rollback_to(before);
        }
        done
    }

    pub(crate) fn key<'a>(&self, key: &'a impl AsRef<[u8]>) -> Result<Key<'a>, Error> {
        let key = self.any_key(key)?;
        self.txn.lost(self.db, &key).map_or(Ok(key), |at| Err(Error::Damaged(at)))
    }

    /// A key that may have been lost.
    fn any_key<'a>(&self, key: &'a impl AsRef<[u8]>) -> Result<Key<'a>, Error> {
        let key = self.txn.key(key.as_ref());
        if self.txn.covers(&key) { Ok(key) } else { Err(Error::Undeclared) }
    }

    pub(crate) fn keys<'a, K: AsRef<[u8]>>(&self, keys: &'a [K]) -> Result<Vec<Key<'a>>, Error> {
        keys.iter().map(|key| self.key(key)).collect()
    }

    pub(crate) fn until(&self, ttl: Duration) -> u64 {
        later(self.txn.now(), ttl)
    }

    /// Uses another database from here on.
    pub fn select(&mut self, database: usize) -> Result<(), Error> {
        self.db = Db::new(database).ok_or(Error::NoSuchDatabase)?;
        Ok(())
    }

    /// The value of a key.
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        let key = self.key(&key)?;
        let Some(entry) = self.txn.find(self.db, &key) else { return Ok(None) };
        Ok(Some(self.txn.read_string(&entry)?.to_vec()?))
    }

    /// Whether a key exists.
    pub fn exists(&mut self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let key = self.key(&key)?;
        Ok(self.txn.find(self.db, &key).is_some())
    }

    /// Sets a value; the key does not expire.
    pub fn set(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.whole(|tx| {
            let key = tx.any_key(&key)?;
            Ok(tx.txn.set(tx.db, &key, value.as_ref(), Expire::Clear)?)
        })
    }

    /// Sets a value that expires after `ttl`.
    pub fn set_for(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<(), Error> {
        self.whole(|tx| {
            let (key, until) = (tx.any_key(&key)?, tx.until(ttl));
            Ok(tx.txn.set(tx.db, &key, value.as_ref(), Expire::At(until))?)
        })
    }

    /// Adds to an integer, 0 where there is no key, and returns the sum. An expiry time stays.
    pub fn increment(&mut self, key: impl AsRef<[u8]>, by: i64) -> Result<i64, Error> {
        self.whole(|tx| {
            let key = tx.key(&key)?;
            let old = match tx.txn.find_mut(tx.db, &key)? {
                None => 0,
                Some(entry) => {
                    let value = tx.txn.string(&entry)?;
                    match value.as_int() {
                        Some(int) => int,
                        None => parse(&value.to_vec()?)?,
                    }
                }
            };
            let new = old.checked_add(by).ok_or(Error::Overflow)?;
            tx.txn.set_int(tx.db, &key, new, Expire::Keep)?;
            Ok(new)
        })
    }

    /// Appends to a value and returns its new length.
    pub fn append(
        &mut self,
        key: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
    ) -> Result<usize, Error> {
        self.whole(|tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.append(tx.db, &key, bytes.as_ref())?)
        })
    }

    /// Deletes a key; whether there was one.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.whole(|tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.delete(tx.db, &key)?)
        })
    }

    /// Lets a key expire after `ttl`; whether there is one.
    pub fn expire(&mut self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool, Error> {
        self.whole(|tx| {
            let (key, until) = (tx.key(&key)?, tx.until(ttl));
            Ok(tx.txn.set_expiry(tx.db, &key, Some(until))?)
        })
    }

    /// Makes a key stay; whether there is one.
    pub fn persist(&mut self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.whole(|tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.set_expiry(tx.db, &key, None)?)
        })
    }

    /// How long a key has still to live; `None` if there is no key, or if it does not expire.
    pub fn ttl(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Duration>, Error> {
        let key = self.key(&key)?;
        let expiry = self.txn.peek(self.db, &key).and_then(|entry| self.txn.expiry(&entry));
        Ok(expiry.map(|at| Duration::from_millis(at.saturating_sub(self.txn.now()))))
    }

    /// Gives a key another name, with its value and expiry time; whether there is one.
    pub fn rename(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.whole(|tx| {
            let (from, to) = (tx.key(&from)?, tx.key(&to)?);
            Ok(tx.txn.rename((tx.db, &from), (tx.db, &to))?)
        })
    }
}

/// The unix time in milliseconds that lies `ttl` after `now`.
pub(crate) fn later(now: u64, ttl: Duration) -> u64 {
    now.saturating_add(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
}

pub(crate) fn parse(bytes: &[u8]) -> Result<i64, Error> {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(Error::NotAnInteger)
}
