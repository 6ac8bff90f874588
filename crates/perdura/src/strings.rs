//! Strings: values of bytes, which may spell integers.

use std::time::Duration;

use keyspace::Expire;

use crate::operations::Execute;
use crate::{Error, Transaction};

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
    /// Returns the value of a key. A store copies a large one without keeping others from the key's
    /// shard.
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let Some(entry) = tx.txn.find(tx.db, &key) else { return Ok(None) };
            Ok(Some(tx.txn.read_string(&entry)?.to_vec()?))
        })
    }

    /// Sets a value; the key does not expire. A store writes a large one without keeping others
    /// from the key's shard.
    fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.any_key(&key)?;
            Ok(tx.txn.set(tx.db, &key, value.as_ref(), Expire::Clear)?)
        })
    }

    /// Sets a value that expires after `ttl`.
    fn set_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<(), Error> {
        self.whole(&[key.as_ref()], |tx| {
            let (key, until) = (tx.any_key(&key)?, tx.until(ttl));
            Ok(tx.txn.set(tx.db, &key, value.as_ref(), Expire::At(until))?)
        })
    }

    /// Adds to an integer, 0 where there is no key, and returns the sum. An expiry time stays.
    fn increment(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64, Error> {
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
            tx.txn.set_int(tx.db, &key, new, Expire::Keep)?;
            Ok(new)
        })
    }

    /// Appends to a value and returns its new length.
    fn append(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<usize, Error> {
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.append(tx.db, &key, bytes.as_ref())?)
        })
    }
}

impl Strings for Transaction<'_> {}

pub(crate) fn parse(bytes: &[u8]) -> Result<i64, Error> {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(Error::NotAnInteger)
}
