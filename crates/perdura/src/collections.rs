//! Hashes and sets: a key that holds fields with values, or members.
//!
//! An operation on a key of another type is refused. A hash or set is deleted with its last field
//! or member.

use std::time::Duration;

use keyspace::{FieldChange, FieldTime, Limits, Text, Type};

use crate::iter::Batch;
use crate::operations::{Execute, Open, Writable};
use crate::strings::parse;
use crate::{Error, Iter, Perdura, Transaction};

/// A field of a hash with its value.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
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

/// The sizes up to which they use the listpack encoding: Redis's defaults.
const LIMITS: Limits = Limits { entries: 512, value: 64 };

impl Open<'_> {
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

    /// Reads elements from a cursor on. Returns the next cursor, 0 at the end.
    fn scan<T>(
        &mut self,
        key: &[u8],
        what: Type,
        cursor: u64,
        batch: &mut Batch<T>,
        make: fn(&[u8], &[u8]) -> T,
    ) -> Result<u64, Error> {
        let key = self.key(&key)?;
        let Some(entry) = self.txn.find(self.db, &key) else { return Ok(0) };
        let (members, mut next) = (self.txn.members(&entry, what)?, cursor);
        loop {
            next = members.scan(next, 1, |field, value| {
                batch.push(make(field, value), field.len() + value.len());
            })?;
            if next == 0 || batch.is_full() {
                return Ok(next);
            }
        }
    }

    fn set_field_time(
        &mut self,
        key: impl AsRef<[u8]>,
        field: &[u8],
        time: Option<u64>,
    ) -> Result<bool, Error> {
        self.whole(|tx| {
            let (key, mut found) = (tx.key(&key)?, false);
            tx.txn.hashes().change(tx.db, &key, [field], |_, old| {
                found = old.is_some();
                FieldChange::Time(time)
            })?;
            Ok(found)
        })
    }
}

/// Returns an iterator over the elements of a hash or a set.
fn iterate<'s, T: 's, S: Execute + ?Sized>(
    on: &'s S,
    key: &[u8],
    what: Type,
    make: fn(&[u8], &[u8]) -> T,
) -> Iter<'s, T, S> {
    let (key, mut cursor) = (key.to_vec(), 0);
    Iter::new(on, move |on, batch| {
        cursor = on.on(&[&key], |tx| tx.scan(&key, what, cursor, batch, make))?;
        Ok(cursor != 0)
    })
}

/// Operations on hashes. A hash is deleted with its last field.
pub trait Hashes: Execute {
    /// Sets a field of a hash. Returns true if it is new.
    fn hash_set(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let (key, pair) = (tx.key(&key)?, [(field.as_ref(), value.as_ref())]);
            Ok(tx.txn.hashes().put(tx.db, &key, pair, LIMITS)? > 0)
        })
    }

    /// Returns the value of a field of a hash.
    fn hash_get(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.on(&[key.as_ref()], |tx| tx.value(&key, Type::Hash, field.as_ref()))
    }

    /// Deletes a field of a hash. Returns true if there was one.
    fn hash_delete(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.hashes().remove(tx.db, &key, [field.as_ref()])?.0 > 0)
        })
    }

    /// Lets a field of a hash expire after `ttl`. Returns true if there is one. Setting the field
    /// again removes the TTL.
    fn hash_expire(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| {
            let until = tx.until(ttl);
            tx.set_field_time(&key, field.as_ref(), Some(until))
        })
    }

    /// Removes the TTL of a field of a hash. Returns true if there is such a field.
    fn hash_persist(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| tx.set_field_time(&key, field.as_ref(), None))
    }

    /// Returns the time to live of a field of a hash; `None` if there is no field, or if it does
    /// not expire.
    fn hash_ttl(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
    ) -> Result<Option<Duration>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let Some(entry) = tx.txn.find(tx.db, &key) else { return Ok(None) };
            let time = tx.txn.members(&entry, Type::Hash)?.time(field.as_ref())?.flatten();
            Ok(time.map(|at| Duration::from_millis(at.saturating_sub(tx.txn.now()))))
        })
    }

    /// Adds to the integer in a field of a hash, 0 if there is none, and returns the sum. The field
    /// keeps its TTL.
    fn hash_increment(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        by: i64,
    ) -> Result<i64, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let old = match tx.value(&key, Type::Hash, field.as_ref())? {
                Some(value) => parse(&value)?,
                None => 0,
            };
            let new = old.checked_add(by).ok_or(Error::Overflow)?;
            let (key, pair) = (tx.key(&key)?, [(field.as_ref(), new.to_string().into_bytes())]);
            let pair = pair.iter().map(|(field, value)| (*field, value.as_slice()));
            tx.txn.hashes().put_with_time(tx.db, &key, pair, FieldTime::Keep, LIMITS)?;
            Ok(new)
        })
    }

    /// Returns how many fields a hash has; 0 if there is no key.
    fn hash_len(&self, key: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.on(&[key.as_ref()], |tx| tx.count(&key, Type::Hash))
    }

    /// Returns an iterator over the fields of a hash with their values. See [`Iter`] for the effect
    /// of concurrent writes.
    fn hash_iter(&self, key: impl AsRef<[u8]>) -> Iter<'_, Entry, Self> {
        iterate(self, key.as_ref(), Type::Hash, |field, value| (field.to_vec(), value.to_vec()))
    }

    /// Returns all fields of a hash with their values, as they are at one moment, in no particular
    /// order. [`Hashes::hash_iter`] reads a large one piece by piece.
    fn hash_entries(&self, key: impl AsRef<[u8]>) -> Result<Vec<Entry>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let mut all = Vec::new();
            tx.visit(&key, Type::Hash, |field, value| all.push((field.to_vec(), value.to_vec())))?;
            Ok(all)
        })
    }
}

impl Hashes for Perdura {}
impl Hashes for Transaction<'_> {}

/// Operations on sets. A set is deleted with its last member.
pub trait Sets: Execute {
    /// Adds a member to a set. Returns true if it is new.
    fn set_add(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.sets().add(tx.db, &key, [member.as_ref()], LIMITS)? > 0)
        })
    }

    /// Removes a member from a set. Returns true if it was there.
    fn set_remove(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.sets().remove(tx.db, &key, [member.as_ref()])?.0 > 0)
        })
    }

    /// Returns true if a set has a member.
    fn set_contains(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.on(&[key.as_ref()], |tx| Ok(tx.value(&key, Type::Set, member.as_ref())?.is_some()))
    }

    /// Returns how many members a set has; 0 if there is no key.
    fn set_len(&self, key: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.on(&[key.as_ref()], |tx| tx.count(&key, Type::Set))
    }

    /// Returns an iterator over the members of a set. See [`Iter`] for the effect of concurrent
    /// writes.
    fn set_iter(&self, key: impl AsRef<[u8]>) -> Iter<'_, Vec<u8>, Self> {
        iterate(self, key.as_ref(), Type::Set, |member, _| member.to_vec())
    }

    /// Returns all members of a set, as they are at one moment, in no particular order.
    /// [`Sets::set_iter`] reads a large one piece by piece.
    fn set_members(&self, key: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let mut all = Vec::new();
            tx.visit(&key, Type::Set, |member, _| all.push(member.to_vec()))?;
            Ok(all)
        })
    }
}

impl Sets for Perdura {}
impl Sets for Transaction<'_> {}
