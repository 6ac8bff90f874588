//! Deleting many keys: all with a prefix, in steps; or a whole database, at once.

use keyspace::Db;

use super::ITEMS;
use super::keys::Wanted;
use crate::trace::span;
use crate::{Database, Error, Perdura, reentry};

impl Perdura {
    /// Deletes the keys of database 0 that begin with `prefix`. Returns how many. All keys are
    /// looked at, some 64 under each lock of a shard, and one transaction deletes the keys that a
    /// step finds. The whole is not a transaction: after a crash, or an error, some may be deleted
    /// and some not, and a key that another thread sets meanwhile may stay.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// for n in 0..1000 {
    ///     store.set(format!("cache:{n}"), "page")?;
    /// }
    /// store.set("name", "Ada")?;
    /// assert_eq!(store.remove_prefix("cache:")?, 1000);
    /// assert_eq!(store.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.remove_prefix_in(Db::default(), prefix.as_ref())
    }

    /// Deletes all keys of database 0, in one transaction that locks the whole store for a moment.
    /// Returns how many there were. Their memory is freed afterwards, by the background thread or
    /// [`Perdura::maintain`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// store.set("name", "Ada")?;
    /// store.database(1)?.set("name", "Grace")?;
    /// assert_eq!(store.clear()?, 1);
    /// assert_eq!(store.database(1)?.len(), 1);
    /// assert_eq!(store.clear_all()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear(&self) -> Result<u64, Error> {
        self.clear_databases(&[Db::default()])
    }

    /// Deletes all keys of all sixteen databases, like [`Perdura::clear`].
    pub fn clear_all(&self) -> Result<u64, Error> {
        self.clear_databases(&Db::all().collect::<Vec<_>>())
    }

    fn clear_databases(&self, databases: &[Db]) -> Result<u64, Error> {
        reentry::refuse(&self.keyspace)?;
        let _span = span!("clear", databases = databases.len());
        let (keys, seen) = self.retry(|losses| {
            let mut txn = self.keyspace.begin_all(self.now());
            let mut keys = 0;
            for db in databases {
                keys += txn.databases().flush(*db)?;
            }
            self.keyspace.check_losses(losses)?;
            self.commit(&mut txn)?;
            Ok((keys, self.seen(&txn)))
        })?;
        self.wake_waiting(&(0..self.keyspace.shards()).collect::<Vec<_>>());
        self.acknowledge(seen)?;
        Ok(keys)
    }

    fn remove_prefix_in(&self, db: Db, prefix: &[u8]) -> Result<u64, Error> {
        reentry::refuse(&self.keyspace)?;
        let _span = span!("remove_prefix");
        let (wanted, mut cursor, mut removed) = (Wanted::starting_with(prefix), 0, 0);
        loop {
            let shard = self.keyspace.scan_shard(cursor);
            let (next, found, seen) = self.retry(|losses| {
                let mut txn = self.keyspace.begin_one(shard, self.now());
                let mut found = Vec::new();
                let next = txn.database(db).scan(cursor, ITEMS, &mut |key, entry| {
                    if wanted.admits(&txn, key, entry) {
                        found.push(key.to_vec());
                    }
                });
                for key in &found {
                    txn.keys().delete(db, &self.keyspace.key(key))?;
                }
                self.keyspace.check_losses(losses)?;
                self.commit(&mut txn)?;
                Ok((next, found.len() as u64, self.seen(&txn)))
            })?;
            if found > 0 {
                self.wake_waiting(&[shard]);
            }
            self.acknowledge(seen)?;
            (cursor, removed) = (next, removed + found);
            if cursor == 0 {
                return Ok(removed);
            }
        }
    }
}

impl Database<'_> {
    /// Deletes the keys of this database that begin with `prefix`, like [`Perdura::remove_prefix`].
    pub fn remove_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.store.remove_prefix_in(self.db, prefix.as_ref())
    }

    /// Deletes all keys of this database, like [`Perdura::clear`].
    pub fn clear(&self) -> Result<u64, Error> {
        self.store.clear_databases(&[self.db])
    }
}
