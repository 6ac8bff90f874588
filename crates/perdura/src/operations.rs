//! How an operation gets its transaction: a store opens one for it, and an open transaction
//! provides itself.
//!
//! Each operation is written once, as a provided method of the trait of its type ([`Strings`],
//! [`Lists`], ...), over [`Execute`], which [`Perdura`] and [`Transaction`] implement. The store
//! implements a few of them differently, without blocking the shard for others.

use std::fmt;
use std::time::Duration;

use keyspace::{Db, Key, Txn};

use crate::{
    Bitmaps, ConsumerGroups, Error, Geo, Hashes, HyperLogLogs, Keys, Lists, Perdura, Sets,
    SortedSets, Sorting, Streams, Strings, Tables, Transaction,
};

/// All operations, for functions that work on a store as well as in a transaction.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::{Error, Operations, Options, Perdura};
///
/// fn visit(on: &impl Operations, page: &str) -> Result<i64, Error> {
///     on.set_add("pages", page)?;
///     on.increment(page, 1)
/// }
///
/// let store = Perdura::open(Options::volatile())?;
/// assert_eq!(visit(&store, "index")?, 1);
/// // Both changes together.
/// assert_eq!(store.transaction(&["pages", "index"], |tx| visit(tx, "index"))?, 2);
/// # Ok(())
/// # }
/// ```
pub trait Operations:
    Keys
    + Strings
    + Bitmaps
    + HyperLogLogs
    + Lists
    + Hashes
    + Sets
    + SortedSets
    + Geo
    + Streams
    + ConsumerGroups
    + Sorting
    + Tables
    + Writable
{
}

impl Operations for Perdura {}
impl Operations for Transaction<'_> {}

/// Handles that can be written to: a store, one of its databases, a transaction; not a
/// [`Snapshot`](crate::Snapshot), which has only the operations that read.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Error, Options, Perdura, Writable};
///
/// fn total(on: &impl Hashes, key: &str) -> Result<u64, Error> {
///     on.hash_len(key)
/// }
///
/// fn count(on: &(impl Hashes + Writable), key: &str, what: &str) -> Result<i64, Error> {
///     on.hash_increment(key, what, 1)
/// }
///
/// use perdura::Hashes;
/// let store = Perdura::open(Options::volatile())?;
/// count(&store, "seen", "birds")?;
/// let snapshot = store.snapshot()?;
/// count(&store, "seen", "bees")?;
/// assert_eq!((total(&store, "seen")?, total(&snapshot, "seen")?), (2, 1));
/// # Ok(())
/// # }
/// ```
///
/// The compiler rejects changes of a snapshot:
///
/// ```compile_fail,E0277
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// store.snapshot()?.push_back("jobs", "wash")?;
/// # Ok(())
/// # }
/// ```
pub trait Writable: Execute {}

impl Writable for Perdura {}
impl Writable for Transaction<'_> {}

/// Runs an operation in a transaction. Not exported: operations are implemented here only.
pub trait Execute {
    /// Runs `work` on these keys: in a new transaction, which is committed, or in the open one.
    fn on<R>(
        &self,
        keys: &[&[u8]],
        work: impl FnOnce(&mut Open<'_>) -> Result<R, Error>,
    ) -> Result<R, Error>;

    /// Removes an entry whose name the medium lost, if it may be that of a key that is about to be
    /// deleted or overwritten.
    fn replace_lost(&self, _key: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    /// As [`Execute::on`], for an operation that changes something: if it fails, its changes are
    /// undone.
    fn whole<R>(
        &self,
        keys: &[&[u8]],
        work: impl FnOnce(&mut Open<'_>) -> Result<R, Error>,
    ) -> Result<R, Error>
    where
        Self: Writable,
    {
        self.on(keys, |tx| tx.whole(work))
    }
}

/// A transaction of the keyspace, and the database that it uses.
pub struct Open<'s> {
    pub(crate) txn: Txn<'s>,
    pub(crate) db: Db,
}

impl fmt::Debug for Open<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open").field("database", &self.db.number()).finish_non_exhaustive()
    }
}

impl Open<'_> {
    /// Runs an operation that changes something, and undoes its changes if it fails: code that
    /// handles the error goes on as if the operation had not run.
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

    /// Returns a key that may have been lost.
    pub(crate) fn any_key<'a>(&self, key: &'a impl AsRef<[u8]>) -> Result<Key<'a>, Error> {
        let key = self.txn.key(key.as_ref());
        if self.txn.covers(&key) { Ok(key) } else { Err(Error::Undeclared) }
    }

    pub(crate) fn keys<'a, K: AsRef<[u8]>>(&self, keys: &'a [K]) -> Result<Vec<Key<'a>>, Error> {
        keys.iter().map(|key| self.key(key)).collect()
    }

    pub(crate) fn until(&self, ttl: Duration) -> u64 {
        later(self.txn.now(), ttl)
    }
}

/// Returns the keys of an operation that combines keys into one.
pub(crate) fn all<'a, K: AsRef<[u8]>>(
    target: &'a impl AsRef<[u8]>,
    sources: &'a [K],
) -> Vec<&'a [u8]> {
    std::iter::once(target.as_ref()).chain(sources.iter().map(AsRef::as_ref)).collect()
}

/// Returns the time `ttl` after `now`, in unix milliseconds; at most the last time that an entry
/// can hold, whose highest bit is a flag.
pub(crate) fn later(now: u64, ttl: Duration) -> u64 {
    let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    now.saturating_add(ttl).min(i64::MAX as u64)
}
