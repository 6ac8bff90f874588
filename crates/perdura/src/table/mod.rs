//! Ordered tables: rows of a key and a value, in the order of the keys.
//!
//! A table is a key of the keyspace that holds a sorted set (`row` says how), so that `perdura
//! check`, backups, `perdura export` and Redis clients can handle it: [`crate::Perdura::keys`]
//! lists it, and it expires, is renamed and deleted like any other key. Its structure is the sorted
//! set's: a hash index over the rows and a counted tree in their order.

#[cfg(feature = "serde")]
mod json;
mod key;
mod prefix;
mod row;
mod update;
mod value;

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use keyspace::SortedSetRef;

use crate::iter::ranked::{Filling, Members, Ranked};
use crate::operations::{Execute, Open, Writable};
use crate::sorted_sets::LIMITS;
use crate::{Database, Error, Perdura, RangeIter, Transaction};

#[cfg(feature = "serde")]
pub use json::Json;
pub use key::Key;
pub use prefix::KeyPrefix;
pub use value::Value;

/// An ordered table of a store, a database, or a transaction: from [`Tables::table`].
///
/// Each call on a store is a transaction, with one fence if it writes. An insert of a new key
/// writes the row once and links it in a hash index and a counted tree; an insert over an existing
/// row removes that one too. A call begins with a search in the tree, of some log2(N) comparisons.
/// `rank`, `nth` and `count` cost the same, however large the numbers are.
///
/// In a table that others write, a row that is not of these types is [`Error::NotARow`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura, Table};
///
/// let store = Perdura::open(Options::volatile())?;
/// let ages: Table<String, u32> = store.table("ages");
/// ages.insert("grace", 36)?;
/// ages.insert("ada", 35)?;
/// assert_eq!(ages.insert("ada", 36)?, Some(35));
/// assert_eq!(ages.get("ada")?, Some(36));
/// assert_eq!(ages.first()?, Some(("ada".to_string(), 36)));
///
/// for row in ages.range("b"..) {
///     let (name, age) = row?;
///     assert_eq!((name.as_str(), age), ("grace", 36));
/// }
/// assert_eq!((ages.rank("grace")?, ages.len()?), (1, 2));
/// # Ok(())
/// # }
/// ```
pub struct Table<'s, K, V, S: ?Sized = Perdura> {
    on: &'s S,
    name: Vec<u8>,
    types: PhantomData<fn() -> (K, V)>,
}

/// Opens ordered tables. An empty table has no key; inserting creates it.
pub trait Tables: Execute {
    /// Returns the table of this name, which is a key of the keyspace. Nothing is read or written
    /// before a call of the table; the types are not stored: the caller must know them.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura, Table};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// // In a transaction, with other keys.
    /// store.transaction(&["orders", "count"], |tx| {
    ///     let orders: Table<u64, String, _> = tx.table("orders");
    ///     orders.insert(7, "a lamp")?;
    ///     tx.increment("count", 1)
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    fn table<K: Key, V: Value>(&self, name: impl AsRef<[u8]>) -> Table<'_, K, V, Self> {
        Table { on: self, name: name.as_ref().to_vec(), types: PhantomData }
    }
}

impl Tables for Perdura {}
impl Tables for Database<'_> {}
impl Tables for Transaction<'_> {}

impl<K: Key, V: Value, S: Execute + ?Sized> Table<'_, K, V, S> {
    /// Returns the key of the keyspace that holds the table.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the result of `read` on the rows; `None` if there is no table.
    fn read<R>(
        &self,
        read: impl FnOnce(SortedSetRef<'_>) -> Result<R, Error>,
    ) -> Result<Option<R>, Error> {
        self.on.on(&[&self.name], |tx| {
            let key = tx.key(&self.name)?;
            let Some(entry) = tx.txn.find(tx.db, &key) else { return Ok(None) };
            read(tx.txn.sorted_set(&entry)?).map(Some)
        })
    }

    fn row(member: &[u8]) -> Result<(K, V), Error> {
        row::decode(member, row::SCORE)
    }

    /// Returns the value of a key.
    pub fn get(&self, key: K::Ref<'_>) -> Result<Option<V>, Error> {
        let key = row::key_bytes::<K>(&key);
        let member = self.read(|set| row::find(&set, &key))?.flatten();
        member.map(|member| Ok(Self::row(&member)?.1)).transpose()
    }

    /// Returns true if there is a row of this key.
    pub fn contains(&self, key: K::Ref<'_>) -> Result<bool, Error> {
        let key = row::key_bytes::<K>(&key);
        Ok(self.read(|set| row::find(&set, &key))?.flatten().is_some())
    }

    /// Sets the value of a key. Returns its old value. [`Table::insert_if_absent`],
    /// [`Table::compare_and_set`] and [`Table::fetch_update`] look at that one first.
    pub fn insert(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<Option<V>, Error>
    where
        S: Writable,
    {
        let key = row::key_bytes::<K>(&key);
        let member = row::member::<V>(&key, &value)?;
        self.on.whole(&[&self.name], |tx| {
            let old = tx.find_row(&self.name, &key)?;
            // A member that is no row of these types stays.
            let value = old.as_deref().map(Self::row).transpose()?.map(|(_, value)| value);
            tx.change_row(&self.name, old.as_deref(), Some(&member))?;
            Ok(value)
        })
    }

    /// Removes the row of a key. Returns its value.
    pub fn remove(&self, key: K::Ref<'_>) -> Result<Option<V>, Error>
    where
        S: Writable,
    {
        let key = row::key_bytes::<K>(&key);
        let old = self.on.whole(&[&self.name], |tx| {
            let Some(member) = tx.find_row(&self.name, &key)? else { return Ok(None) };
            tx.change_row(&self.name, Some(&member), None)?;
            Ok(Some(Self::row(&member)?.1))
        })?;
        Ok(old)
    }

    /// Removes the rows in a range, in one transaction. Returns how many. See also
    /// [`Table::remove_prefix`].
    pub fn remove_range<'r>(&self, keys: impl RangeBounds<K::Ref<'r>>) -> Result<u64, Error>
    where
        S: Writable,
    {
        self.remove_of(&row::range::<K>(&keys))
    }

    fn remove_of(&self, range: &Ranked) -> Result<u64, Error>
    where
        S: Writable,
    {
        self.on.whole(&[&self.name], |tx| tx.remove_rows(&self.name, range))
    }

    /// Returns how many rows there are.
    pub fn len(&self) -> Result<u64, Error> {
        Ok(self.read(|set| Ok(set.len()))?.unwrap_or(0))
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// Returns how many rows have keys in a range.
    pub fn count<'r>(&self, keys: impl RangeBounds<K::Ref<'r>>) -> Result<u64, Error> {
        self.count_of(&row::range::<K>(&keys))
    }

    fn count_of(&self, range: &Ranked) -> Result<u64, Error> {
        let count =
            self.read(|set| Ok(range.high.rank(&set)?.saturating_sub(range.low.rank(&set)?)));
        Ok(count?.unwrap_or(0))
    }

    /// Returns how many rows have keys before this one, which need not exist.
    pub fn rank(&self, key: K::Ref<'_>) -> Result<u64, Error> {
        let key = row::key_bytes::<K>(&key);
        let rank = self.read(|set| Ok(set.count_before(row::SCORE, &key, false)?))?;
        Ok(rank.unwrap_or(0))
    }

    /// Returns the row with index `rank`, counted from 0.
    pub fn nth(&self, rank: u64) -> Result<Option<(K, V)>, Error> {
        self.range_of(Ranked::by_rank(&(rank..=rank))).next().transpose()
    }

    /// Returns the row with the lowest key.
    pub fn first(&self) -> Result<Option<(K, V)>, Error> {
        self.nth(0)
    }

    /// Returns the row with the highest key.
    pub fn last(&self) -> Result<Option<(K, V)>, Error> {
        self.on
            .on(&[&self.name], |tx| tx.row_at(&self.name, true))?
            .map_or(Ok(None), |member| Self::row(&member).map(Some))
    }

    /// Removes the row with the lowest key and returns it.
    pub fn pop_first(&self) -> Result<Option<(K, V)>, Error>
    where
        S: Writable,
    {
        self.pop(false)
    }

    /// Removes the row with the highest key and returns it.
    pub fn pop_last(&self) -> Result<Option<(K, V)>, Error>
    where
        S: Writable,
    {
        self.pop(true)
    }

    fn pop(&self, last: bool) -> Result<Option<(K, V)>, Error>
    where
        S: Writable,
    {
        self.on.whole(&[&self.name], |tx| {
            let Some(member) = tx.row_at(&self.name, last)? else { return Ok(None) };
            let row = Self::row(&member)?;
            tx.change_row(&self.name, Some(&member), None)?;
            Ok(Some(row))
        })
    }
}

impl<'s, K: Key, V: Value, S: Execute + ?Sized> Table<'s, K, V, S> {
    /// Returns an iterator over all rows, in the order of their keys, from both ends. See
    /// [`RangeIter`] for the effect of concurrent writes.
    pub fn iter(&self) -> RangeIter<'s, (K, V), S> {
        self.range_of(Ranked::ALL)
    }

    /// Returns an iterator over the rows whose keys are in a range. See also [`Table::prefix`].
    pub fn range<'r>(&self, keys: impl RangeBounds<K::Ref<'r>>) -> RangeIter<'s, (K, V), S> {
        self.range_of(row::range::<K>(&keys))
    }

    fn range_of(&self, mut range: Ranked) -> RangeIter<'s, (K, V), S> {
        let name = self.name.clone();
        let mut members = Members::default();
        RangeIter::new(self.on, move |on, end, batch| {
            let mut into = Filling { members: &mut members, batch };
            range.fetch(on, &name, end, &mut into, &row::decode, &row::next_to::<K>)
        })
    }
}

impl<K, V, S: ?Sized> fmt::Debug for Table<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.escape_ascii().to_string();
        f.debug_struct("Table").field("name", &name).finish_non_exhaustive()
    }
}

impl<K, V, S: ?Sized> Clone for Table<'_, K, V, S> {
    fn clone(&self) -> Self {
        Table { on: self.on, name: self.name.clone(), types: PhantomData }
    }
}

impl Open<'_> {
    /// Returns the member of a key's row, to be changed.
    fn find_row(&mut self, name: &[u8], key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let name = self.key(&name)?;
        let Some(entry) = self.txn.find_mut(self.db, &name)? else { return Ok(None) };
        row::find(&self.txn.sorted_set(&entry)?, key)
    }

    /// Returns the member of the first row or of the last one.
    fn row_at(&mut self, name: &[u8], last: bool) -> Result<Option<Vec<u8>>, Error> {
        let name = self.key(&name)?;
        let Some(entry) = self.txn.find(self.db, &name) else { return Ok(None) };
        let set = self.txn.sorted_set(&entry)?;
        let (mut found, mut is_row) = (None, true);
        let rank = if last { set.len().saturating_sub(1) } else { 0 };
        set.visit(rank, false, |member, score| {
            (found, is_row) = (Some(member.to_vec()), score == row::SCORE);
            false
        })?;
        if is_row { Ok(found) } else { Err(Error::NotARow) }
    }

    /// Replaces the member of a row with another of the same key; none means no row.
    fn change_row(
        &mut self,
        name: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<(), Error> {
        if old == new {
            return Ok(());
        }
        let name = self.key(&name)?;
        let mut edit = self.txn.sorted_sets().edit(self.db, &name, LIMITS)?;
        // The new one first, since a set that loses its last member is deleted.
        if let Some(new) = new {
            edit.change(&mut self.txn, new, |_| Some(row::SCORE))?;
        }
        if let Some(old) = old {
            edit.remove(&mut self.txn, old)?;
        }
        edit.finish(&mut self.txn, self.db, &name)?;
        Ok(())
    }

    fn remove_rows(&mut self, name: &[u8], range: &Ranked) -> Result<u64, Error> {
        let name = self.key(&name)?;
        let Some(entry) = self.txn.find_mut(self.db, &name)? else { return Ok(0) };
        let set = self.txn.sorted_set(&entry)?;
        let (low, high) = (range.low.rank(&set)?, range.high.rank(&set)?);
        let count = high.saturating_sub(low);
        let mut edit = self.txn.sorted_sets().edit(self.db, &name, LIMITS)?;
        let removed = edit.remove_range(&mut self.txn, low, count, |_, _| ())?;
        edit.finish(&mut self.txn, self.db, &name)?;
        Ok(removed)
    }
}
