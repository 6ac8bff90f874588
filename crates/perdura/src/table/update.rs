//! Changes of a row that depend on its old value: found and changed under one lock, in one
//! transaction.

use super::{Key, Table, Value, row};
use crate::Error;
use crate::operations::{Execute, Writable};

impl<K: Key, V: Value, S: Execute + ?Sized> Table<'_, K, V, S> {
    /// Adds a row if there is none of this key. Returns true if it did.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura, Table};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// let names: Table<String, u64> = store.table("names");
    /// assert!(names.insert_if_absent("ada", 1)?);
    /// assert!(!names.insert_if_absent("ada", 2)?);
    /// assert_eq!(names.get("ada")?, Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_if_absent(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<bool, Error>
    where
        S: Writable,
    {
        self.compare_and_set(key, None, Some(value))
    }

    /// Replaces a row's value with `new` if it is `expected`. Returns true if it was. `None` means
    /// no row: as `expected`, that there is none; as `new`, that it is removed. Values are
    /// equal if their bytes are: 0.0 differs from -0.0, and a `Json` of a map is equal only if its
    /// entries come in the same order.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura, Table};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// // Who works on a job.
    /// let owners: Table<u64, String> = store.table("owners");
    /// assert!(owners.compare_and_set(7, None, Some("worker 1"))?);
    /// assert!(!owners.compare_and_set(7, None, Some("worker 2"))?);
    /// assert!(owners.compare_and_set(7, Some("worker 1"), Some("worker 2"))?);
    /// assert!(owners.compare_and_set(7, Some("worker 2"), None)?);
    /// assert!(owners.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compare_and_set(
        &self,
        key: K::Ref<'_>,
        expected: Option<V::Ref<'_>>,
        new: Option<V::Ref<'_>>,
    ) -> Result<bool, Error>
    where
        S: Writable,
    {
        let key = row::key_bytes::<K>(&key);
        let expected = expected.map(|value| row::member::<V>(&key, &value)).transpose()?;
        let new = new.map(|value| row::member::<V>(&key, &value)).transpose()?;
        self.on.whole(&[&self.name], |tx| {
            let is_expected = tx.find_row(&self.name, &key)? == expected;
            if is_expected {
                tx.change_row(&self.name, expected.as_deref(), new.as_deref())?;
            }
            Ok(is_expected)
        })
    }

    /// Replaces a row's value with what `update` makes of it (`None` stands for no row), and
    /// returns the old one. The table is locked while `update` runs, once.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura, Table};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// let stock: Table<String, u32> = store.table("stock");
    /// stock.insert("lamps", 2)?;
    /// // Sells one; there is no row of what is sold out.
    /// let sell = |what: &str| {
    ///     stock.fetch_update(what, |left| left?.checked_sub(1).filter(|left| *left > 0))
    /// };
    /// assert_eq!(sell("lamps")?, Some(2));
    /// assert_eq!(stock.get("lamps")?, Some(1));
    /// assert_eq!((sell("lamps")?, sell("lamps")?), (Some(1), None));
    /// # Ok(())
    /// # }
    /// ```
    pub fn fetch_update(
        &self,
        key: K::Ref<'_>,
        update: impl FnOnce(Option<&V>) -> Option<V>,
    ) -> Result<Option<V>, Error>
    where
        S: Writable,
    {
        let key = row::key_bytes::<K>(&key);
        self.on.whole(&[&self.name], |tx| {
            let found = tx.find_row(&self.name, &key)?;
            let old = found.as_deref().map(Self::row).transpose()?.map(|(_, value)| value);
            let new = update(old.as_ref())
                .map(|value| row::member::<V>(&key, &V::borrowed(&value)))
                .transpose()?;
            tx.change_row(&self.name, found.as_deref(), new.as_deref())?;
            Ok(old)
        })
    }
}
