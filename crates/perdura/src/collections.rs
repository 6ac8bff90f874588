//! Hashes and sets: a key that holds fields with values, or members.
//!
//! An operation on a key of another type is refused. A hash or set goes with its last field or
//! member.

use std::time::Duration;

use keyspace::{FieldChange, FieldTime, Limits, Text, Type};

use crate::transaction::parse;
use crate::{Error, Perdura, Transaction};

/// A field of a hash with its value.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::{Entry, Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// store.hash_set("user", "name", "Anna")?;
/// let entries: Vec<Entry> = store.hash_entries("user")?;
/// assert_eq!(entries, [(b"name".to_vec(), b"Anna".to_vec())]);
/// # Ok(())
/// # }
/// ```
pub type Entry = (Vec<u8>, Vec<u8>);

/// Up to which size they are kept as small: Redis's own defaults.
const LIMITS: Limits = Limits { entries: 512, value: 64 };

impl Transaction<'_> {
    fn put(
        &mut self,
        key: impl AsRef<[u8]>,
        what: Type,
        pair: (&[u8], &[u8]),
    ) -> Result<bool, Error> {
        self.whole(|tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.put_members(tx.db, &key, what, [pair], LIMITS)? > 0)
        })
    }

    fn take(&mut self, key: impl AsRef<[u8]>, what: Type, field: &[u8]) -> Result<bool, Error> {
        self.whole(|tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.remove_members(tx.db, &key, what, [field])?.0 > 0)
        })
    }

    fn value(
        &mut self,
        key: impl AsRef<[u8]>,
        what: Type,
        field: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = self.key(&key)?;
        let Some(entry) = self.txn.find(self.db, &key) else { return Ok(None) };
        let value = self.txn.members(&entry, what)?.get(field)?;
        Ok(value.as_ref().map(|value| Text::as_ref(value).to_vec()))
    }

    fn count(&mut self, key: impl AsRef<[u8]>, what: Type) -> Result<u64, Error> {
        let key = self.key(&key)?;
        let Some(entry) = self.txn.find(self.db, &key) else { return Ok(0) };
        Ok(self.txn.members(&entry, what)?.len())
    }

    fn visit(
        &mut self,
        key: impl AsRef<[u8]>,
        what: Type,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        let key = self.key(&key)?;
        let Some(entry) = self.txn.find(self.db, &key) else { return Ok(()) };
        Ok(self.txn.members(&entry, what)?.visit(visit)?)
    }

    /// Sets a field of a hash; whether it is new.
    pub fn hash_set(
        &mut self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        self.put(key, Type::Hash, (field.as_ref(), value.as_ref()))
    }

    /// The value of a field of a hash.
    pub fn hash_get(
        &mut self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.value(key, Type::Hash, field.as_ref())
    }

    /// Deletes a field of a hash; whether there was one.
    pub fn hash_delete(
        &mut self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        self.take(key, Type::Hash, field.as_ref())
    }

    /// Lets a field of a hash expire after `ttl`; whether there is one. Another value that is set
    /// makes it stay.
    pub fn hash_expire(
        &mut self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<bool, Error> {
        let until = self.until(ttl);
        self.set_field_time(key, field.as_ref(), Some(until))
    }

    /// Makes a field of a hash stay; whether there is one.
    pub fn hash_persist(
        &mut self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        self.set_field_time(key, field.as_ref(), None)
    }

    /// How long a field of a hash has still to live; `None` if there is no field, or if it does not
    /// expire.
    pub fn hash_ttl(
        &mut self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
    ) -> Result<Option<Duration>, Error> {
        let key = self.key(&key)?;
        let Some(entry) = self.txn.find(self.db, &key) else { return Ok(None) };
        let time = self.txn.members(&entry, Type::Hash)?.time(field.as_ref())?.flatten();
        Ok(time.map(|at| Duration::from_millis(at.saturating_sub(self.txn.now()))))
    }

    fn set_field_time(
        &mut self,
        key: impl AsRef<[u8]>,
        field: &[u8],
        time: Option<u64>,
    ) -> Result<bool, Error> {
        self.whole(|tx| {
            let (key, mut found) = (tx.key(&key)?, false);
            tx.txn.change_fields(tx.db, &key, [field], |_, old| {
                found = old.is_some();
                FieldChange::Time(time)
            })?;
            Ok(found)
        })
    }

    /// Adds to the integer in a field of a hash, 0 where there is none, and returns the sum. The
    /// field keeps its time to live.
    pub fn hash_increment(
        &mut self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        by: i64,
    ) -> Result<i64, Error> {
        self.whole(|tx| {
            let old = match tx.value(&key, Type::Hash, field.as_ref())? {
                Some(value) => parse(&value)?,
                None => 0,
            };
            let new = old.checked_add(by).ok_or(Error::Overflow)?;
            let (key, pair) = (tx.key(&key)?, [(field.as_ref(), new.to_string().into_bytes())]);
            let pair = pair.iter().map(|(field, value)| (*field, value.as_slice()));
            tx.txn.put_fields(tx.db, &key, pair, FieldTime::Keep, LIMITS)?;
            Ok(new)
        })
    }

    /// How many fields a hash has; 0 where there is no key.
    pub fn hash_len(&mut self, key: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.count(key, Type::Hash)
    }

    /// All fields of a hash with their values, in no order that one could rely on.
    pub fn hash_entries(&mut self, key: impl AsRef<[u8]>) -> Result<Vec<Entry>, Error> {
        let mut all = Vec::new();
        self.visit(key, Type::Hash, |field, value| all.push((field.to_vec(), value.to_vec())))?;
        Ok(all)
    }

    /// Adds a member to a set; whether it is new.
    pub fn set_add(
        &mut self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        self.put(key, Type::Set, (member.as_ref(), b""))
    }

    /// Takes a member out of a set; whether it was there.
    pub fn set_remove(
        &mut self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        self.take(key, Type::Set, member.as_ref())
    }

    /// Whether a set has a member.
    pub fn set_contains(
        &mut self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        Ok(self.value(key, Type::Set, member.as_ref())?.is_some())
    }

    /// How many members a set has; 0 where there is no key.
    pub fn set_len(&mut self, key: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.count(key, Type::Set)
    }

    /// All members of a set, in no order that one could rely on.
    pub fn set_members(&mut self, key: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, Error> {
        let mut all = Vec::new();
        self.visit(key, Type::Set, |member, _| all.push(member.to_vec()))?;
        Ok(all)
    }
}

impl Perdura {
    /// Sets a field of a hash; whether it is new.
    pub fn hash_set(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        self.on(key.as_ref(), |tx| tx.hash_set(&key, field, value))
    }

    /// The value of a field of a hash.
    pub fn hash_get(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.on(key.as_ref(), |tx| tx.hash_get(&key, field))
    }

    /// Deletes a field of a hash; whether there was one.
    pub fn hash_delete(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        self.on(key.as_ref(), |tx| tx.hash_delete(&key, field))
    }

    /// Lets a field of a hash expire after `ttl`; whether there is one. Another value that is set
    /// makes it stay.
    pub fn hash_expire(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<bool, Error> {
        self.on(key.as_ref(), |tx| tx.hash_expire(&key, field, ttl))
    }

    /// Makes a field of a hash stay; whether there is one.
    pub fn hash_persist(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        self.on(key.as_ref(), |tx| tx.hash_persist(&key, field))
    }

    /// How long a field of a hash has still to live; `None` if there is no field, or if it does not
    /// expire.
    pub fn hash_ttl(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
    ) -> Result<Option<Duration>, Error> {
        self.on(key.as_ref(), |tx| tx.hash_ttl(&key, field))
    }

    /// Adds to the integer in a field of a hash, 0 where there is none, and returns the sum. The
    /// field keeps its time to live.
    pub fn hash_increment(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        by: i64,
    ) -> Result<i64, Error> {
        self.on(key.as_ref(), |tx| tx.hash_increment(&key, field, by))
    }

    /// How many fields a hash has; 0 where there is no key.
    pub fn hash_len(&self, key: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.on(key.as_ref(), |tx| tx.hash_len(&key))
    }

    /// All fields of a hash with their values, in no order that one could rely on.
    pub fn hash_entries(&self, key: impl AsRef<[u8]>) -> Result<Vec<Entry>, Error> {
        self.on(key.as_ref(), |tx| tx.hash_entries(&key))
    }

    /// Adds a member to a set; whether it is new.
    pub fn set_add(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.on(key.as_ref(), |tx| tx.set_add(&key, member))
    }

    /// Takes a member out of a set; whether it was there.
    pub fn set_remove(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        self.on(key.as_ref(), |tx| tx.set_remove(&key, member))
    }

    /// Whether a set has a member.
    pub fn set_contains(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        self.on(key.as_ref(), |tx| tx.set_contains(&key, member))
    }

    /// How many members a set has; 0 where there is no key.
    pub fn set_len(&self, key: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.on(key.as_ref(), |tx| tx.set_len(&key))
    }

    /// All members of a set, in no order that one could rely on.
    pub fn set_members(&self, key: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, Error> {
        self.on(key.as_ref(), |tx| tx.set_members(&key))
    }
}
