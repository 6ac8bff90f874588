//! A transaction: the locked shards of one command, or of one EXEC, with what it read and staged.
#![allow(missing_docs, clippy::todo, unused_variables, dead_code)]

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::{CommitError, Db, Error, Key, Watch};

/// The type of a value, as TYPE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Type {
    /// A string.
    String,
}

/// How a value is kept, as OBJECT ENCODING names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    Int,
    Embstr,
    Raw,
}

/// What becomes of the expiry time when a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expire {
    /// None from now on.
    Clear,
    /// As it was.
    Keep,
    /// At this unix time in milliseconds.
    At(u64),
}

/// Why a key changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Written,
    Deleted,
    /// Its time had come.
    Expired,
    /// Room was needed.
    Evicted,
    /// Its database was emptied or swapped (listed for watched keys only).
    Flushed,
}

/// A key that a transaction changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    pub db: Db,
    pub key: &'a [u8],
    pub event: Event,
}

/// A key that was found. Valid until the transaction changes anything.
#[derive(Clone, Copy, Debug)]
pub struct Entry {}

/// A string value, to be read piece by piece.
pub struct Str<'t> {
    p: PhantomData<&'t ()>,
}

impl Str<'_> {
    pub fn len(&self) -> usize {
        todo!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The value, if it is kept as an integer.
    pub fn as_int(&self) -> Option<i64> {
        todo!()
    }
    /// Calls `visit` with the pieces of bytes `from..to`, in order.
    pub fn pieces(&self, from: usize, to: usize, visit: &mut dyn FnMut(&[u8])) {
        todo!()
    }
    pub fn append_to(&self, out: &mut Vec<u8>) {
        todo!()
    }
    pub fn to_vec(&self) -> Vec<u8> {
        let mut v = Vec::new();
        self.append_to(&mut v);
        v
    }
}

/// A point to which a transaction can be rolled back.
pub struct Savepoint {}

/// The locked shards of one command or one EXEC. Dropped without `commit`, it changed nothing.
pub struct Txn<'k> {
    p: PhantomData<&'k ()>,
}

impl<'k> Txn<'k> {
    /// The time at which everything in it happens, in unix ms.
    pub fn now(&self) -> u64 {
        todo!()
    }
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        todo!()
    }
    /// Whether the shard of the key is locked.
    pub fn covers(&self, key: &Key<'_>) -> bool {
        todo!()
    }

    // Looking.

    /// For a command that reads: counts a hit or a miss, notes the access. Expired keys are not found.
    pub fn find(&mut self, db: Db, key: &Key<'_>) -> Option<Entry> {
        todo!()
    }
    /// For TTL, OBJECT, TYPE: no access is noted, nothing is counted.
    pub fn peek(&self, db: Db, key: &Key<'_>) -> Option<Entry> {
        todo!()
    }
    /// For a command that writes: an expired key is deleted (and listed in `changes`) and not found.
    pub fn find_mut(&mut self, db: Db, key: &Key<'_>) -> Result<Option<Entry>, Error> {
        todo!()
    }
    pub fn type_of(&self, entry: &Entry) -> Type {
        todo!()
    }
    pub fn encoding(&self, entry: &Entry) -> Encoding {
        todo!()
    }
    /// Expiry in unix ms.
    pub fn expiry(&self, entry: &Entry) -> Option<u64> {
        todo!()
    }
    pub fn string<'t>(&'t self, entry: &Entry) -> Result<Str<'t>, Error> {
        todo!()
    }
    /// Bytes of the heap that key, value and index take.
    pub fn memory(&self, entry: &Entry) -> u64 {
        todo!()
    }
    pub fn idle_ms(&self, entry: &Entry) -> u64 {
        todo!()
    }
    pub fn frequency(&self, entry: &Entry) -> u8 {
        todo!()
    }
    /// Notes an access, as TOUCH does.
    pub fn touch(&mut self, entry: &Entry) {
        todo!()
    }

    // Strings. All writers delete an expired key first.

    /// Sets a string; one that reads as an integer is kept as one.
    pub fn set(
        &mut self,
        db: Db,
        key: &Key<'_>,
        value: &[u8],
        expire: Expire,
    ) -> Result<(), Error> {
        todo!()
    }
    /// Sets a string, kept as it is.
    pub fn set_raw(
        &mut self,
        db: Db,
        key: &Key<'_>,
        value: &[u8],
        expire: Expire,
    ) -> Result<(), Error> {
        todo!()
    }
    /// Sets an integer, in place where the value is one already.
    pub fn set_int(
        &mut self,
        db: Db,
        key: &Key<'_>,
        value: i64,
        expire: Expire,
    ) -> Result<(), Error> {
        todo!()
    }
    /// Appends (or sets) and returns the new length.
    pub fn append(&mut self, db: Db, key: &Key<'_>, bytes: &[u8]) -> Result<usize, Error> {
        todo!()
    }
    /// Overwrites from `at`, with zeros in a gap, and returns the new length. Empty `bytes` change nothing.
    pub fn set_range(
        &mut self,
        db: Db,
        key: &Key<'_>,
        at: usize,
        bytes: &[u8],
    ) -> Result<usize, Error> {
        todo!()
    }

    // Keys.

    /// Deletes; false if there was none (or an expired one).
    pub fn delete(&mut self, db: Db, key: &Key<'_>) -> Result<bool, Error> {
        todo!()
    }
    /// Sets (`Some(unix ms)`) or removes the expiry time; false if there is no such key.
    pub fn set_expiry(&mut self, db: Db, key: &Key<'_>, at: Option<u64>) -> Result<bool, Error> {
        todo!()
    }
    /// Moves a value with its expiry to another key and/or database, replacing what is there; false if there is none. RENAME, MOVE.
    pub fn rename(&mut self, from: (Db, &Key<'_>), to: (Db, &Key<'_>)) -> Result<bool, Error> {
        todo!()
    }
    /// Copies a value with its expiry, replacing what is there; false if there is none.
    pub fn copy(&mut self, from: (Db, &Key<'_>), to: (Db, &Key<'_>)) -> Result<bool, Error> {
        todo!()
    }

    // Databases. They see the locked shards only.

    pub fn count(&self, db: Db) -> u64 {
        todo!()
    }
    pub fn count_expiring(&self, db: Db) -> u64 {
        todo!()
    }
    /// Some key that is not expired. `random` gives random numbers.
    pub fn random_key(&self, db: Db, random: &mut dyn FnMut() -> u64) -> Option<Vec<u8>> {
        todo!()
    }
    /// Every key that is not expired.
    pub fn for_each(&self, db: Db, visit: &mut dyn FnMut(&[u8], &Entry)) {
        todo!()
    }
    /// About `count` keys from `cursor` on; returns the next cursor, 0 at the end. The shard [`crate::Keyspace::scan_shard`] must be locked.
    pub fn scan(
        &self,
        db: Db,
        cursor: u64,
        count: usize,
        visit: &mut dyn FnMut(&[u8], &Entry),
    ) -> u64 {
        todo!()
    }
    /// Empties the database in the locked shards; returns how many keys it had.
    pub fn flush(&mut self, db: Db) -> Result<u64, Error> {
        todo!()
    }
    /// Swaps two databases; all shards must be locked.
    pub fn swap(&mut self, a: Db, b: Db) -> Result<(), Error> {
        todo!()
    }

    // Watching.

    /// Sets `flag` when a later transaction changes the key.
    pub fn watch(&mut self, db: Db, key: &Key<'_>, flag: &Arc<AtomicBool>) -> Watch {
        todo!()
    }
    /// Whether the key expired since it is watched (EXEC fails then, though nobody deleted the key yet).
    pub fn has_expired(&self, watch: &Watch) -> bool {
        todo!()
    }

    // The transaction itself.

    pub fn savepoint(&self) -> Savepoint {
        todo!()
    }
    /// Undoes everything since `savepoint`: a failed command.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        todo!()
    }
    pub fn is_dirty(&self) -> bool {
        todo!()
    }
    /// Keys changed since the begin: those that expired always; the others when tracked.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        std::iter::empty()
    }
    /// Makes it durable and tells who watches. Locks are kept until the drop; what follows is a new transaction on them.
    pub fn commit(&mut self) -> Result<(), CommitError> {
        todo!()
    }
}
