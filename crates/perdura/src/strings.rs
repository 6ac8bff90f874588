//! Strings: values of bytes, which may be integers in decimal.

use std::time::Duration;

use keyspace::Expire;

use crate::operations::{Execute, Open, Writable};
use crate::{Error, Transaction};

impl Open<'_> {
    /// Returns the value of a key that is about to be changed.
    fn value_to_change(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let key = self.key(&key)?;
        let Some(entry) = self.txn.find_mut(self.db, &key)? else { return Ok(None) };
        Ok(Some(self.txn.strings().read(&entry)?.to_vec()?))
    }

    /// Sets a value, or deletes the key if there is one; an expiry time is kept.
    fn put_value(&mut self, key: &[u8], is_there: bool, value: Option<&[u8]>) -> Result<(), Error> {
        let key = self.key(&key)?;
        match value {
            Some(value) => self.txn.strings().set(self.db, &key, value, Expire::Keep)?,
            None if is_there => drop(self.txn.keys().delete(self.db, &key)?),
            None => {}
        }
        Ok(())
    }

    fn set_new(&mut self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<bool, Error> {
        let key = self.key(&key)?;
        if self.txn.find_mut(self.db, &key)?.is_some() {
            return Ok(false);
        }
        let expire = ttl.map_or(Expire::Clear, |ttl| Expire::At(self.until(ttl)));
        self.txn.strings().set(self.db, &key, value, expire)?;
        Ok(true)
    }
}

/// Operations on strings.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura};
/// use std::time::Duration;
///
/// let store = Perdura::open(Options::volatile())?;
/// store.set("name", "Ada")?;
/// store.append("name", " Lovelace")?;
/// assert_eq!(store.get("name")?.as_deref(), Some(&b"Ada Lovelace"[..]));
/// assert_eq!(store.increment("visits", 2)?, 2);
/// store.set_for("session", "token", Duration::from_secs(60))?;
/// # Ok(())
/// # }
/// ```
pub trait Strings: Execute {
    /// Returns the value of a key. A store copies a large one without blocking the key's shard.
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let Some(entry) = tx.txn.find(tx.db, &key) else { return Ok(None) };
            Ok(Some(tx.txn.strings().read(&entry)?.to_vec()?))
        })
    }

    /// Sets a value; the key does not expire. A store writes a large one without blocking the key's
    /// shard.
    fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.any_key(&key)?;
            Ok(tx.txn.strings().set(tx.db, &key, value.as_ref(), Expire::Clear)?)
        })
    }

    /// Sets a value that expires after `ttl`.
    fn set_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<(), Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let (key, until) = (tx.any_key(&key)?, tx.until(ttl));
            Ok(tx.txn.strings().set(tx.db, &key, value.as_ref(), Expire::At(until))?)
        })
    }

    /// Sets a value if there is no key. Returns true if it did. With a TTL it is a lock that ends
    /// by itself: [`Strings::set_if_absent_for`].
    fn set_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| tx.set_new(key.as_ref(), value.as_ref(), None))
    }

    /// Sets a value that expires after `ttl` if there is no key. Returns true if it did.
    fn set_if_absent_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| tx.set_new(key.as_ref(), value.as_ref(), Some(ttl)))
    }

    /// Replaces the value with `new` if it is `expected`. Returns true if it was. `None` means no
    /// key: as `expected`, that there is none; as `new`, that it is deleted. An expiry time is
    /// kept.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// assert!(store.compare_and_set("leader", None, Some(b"anna"))?);
    /// assert!(!store.compare_and_set("leader", None, Some(b"ben"))?);
    /// assert!(store.compare_and_set("leader", Some(b"anna"), None)?);
    /// # Ok(())
    /// # }
    /// ```
    fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let is_expected = tx.value_to_change(key.as_ref())?.as_deref() == expected;
            if is_expected {
                tx.put_value(key.as_ref(), expected.is_some(), new)?;
            }
            Ok(is_expected)
        })
    }

    /// Replaces a value with what `update` makes of it (`None` stands for no key), and returns the
    /// old one. An expiry time is kept. The key is locked while `update` runs.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// store.set("name", "ada")?;
    /// let old = store.fetch_update("name", |name| name.map(|name| name.to_ascii_uppercase()))?;
    /// assert_eq!(old.as_deref(), Some(&b"ada"[..]));
    /// assert_eq!(store.get("name")?.as_deref(), Some(&b"ADA"[..]));
    /// # Ok(())
    /// # }
    /// ```
    fn fetch_update(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let old = tx.value_to_change(key.as_ref())?;
            let new = update(old.as_deref());
            tx.put_value(key.as_ref(), old.is_some(), new.as_deref())?;
            Ok(old)
        })
    }

    /// Adds to an integer, 0 if there is no key, and returns the sum. An expiry time is kept.
    fn increment(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
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
            tx.txn.strings().set_int(tx.db, &key, new, Expire::Keep)?;
            Ok(new)
        })
    }

    /// Appends to a value and returns its new length.
    fn append(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<usize, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.strings().append(tx.db, &key, bytes.as_ref())?)
        })
    }
}

impl Strings for Transaction<'_> {}

pub(crate) fn parse(bytes: &[u8]) -> Result<i64, Error> {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(Error::NotAnInteger)
}
