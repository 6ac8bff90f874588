//! The store as it was at one moment, for slow readers.
//!
//! A snapshot is a view of the keyspace ([`keyspace::SnapshotView`]) on which all read-only
//! operations run: it implements [`Execute`], but not [`crate::Writable`]. Nothing is copied before
//! it changes. Taking the snapshot waits until all data at its cut is durable, so that its readers
//! need not wait again.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use keyspace::{Db, SnapshotView};

use crate::operations::{Execute, Open};
use crate::{
    Bitmaps, ConsumerGroups, Error, Geo, Hashes, HyperLogLogs, KeyIter, Keys, Lists, Perdura, Sets,
    SortedSets, Sorting, Streams, Strings, Tables, reentry,
};

/// Bytes of a string that are copied under one lock.
const PIECE: usize = 64 << 10;

/// A store as it was at one moment: from [`Perdura::snapshot`]. It has all read-only operations,
/// including iterators and tables, and can be shared by threads.
///
/// Writers go on meanwhile. Until the snapshot is dropped, they keep the old values of changed
/// words in DRAM, and the blocks of deleted data in the pool. [`crate::Options::snapshot_limit`]
/// limits the memory that all snapshots hold together: beyond it, or when a write would find no
/// space, the oldest snapshot is ended, and each of its calls returns [`Error::SnapshotExpired`].
/// No write is refused because of a snapshot.
///
/// Up to 64 may be open at once, each of its own moment; a write saves the data that it changes for
/// each of them. A snapshot's time does not pass: a key that expires later is shown for as long
/// as the snapshot is open.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// store.set("anna", "100")?;
/// store.set("ben", "0")?;
///
/// let before = store.snapshot()?;
/// store.transaction(&["anna", "ben"], |tx| {
///     tx.increment("anna", -30)?;
///     tx.increment("ben", 30)
/// })?;
/// let after = store.snapshot()?;
/// store.delete("anna")?;
///
/// assert_eq!(before.get("ben")?.as_deref(), Some(&b"0"[..]));
/// assert_eq!(after.get("ben")?.as_deref(), Some(&b"30"[..]));
/// assert!(after.exists("anna")? && !store.exists("anna")?);
/// assert_eq!(after.keys().count(), 2);
/// # Ok(())
/// # }
/// ```
///
/// It refers to the store, or shares its ownership: see [`Perdura::shared_snapshot`].
#[derive(Clone)]
pub struct Snapshot<S> {
    store: S,
    view: Arc<SnapshotView>,
    db: Db,
}

impl Perdura {
    /// Takes a snapshot of the whole store. Every shard is locked for a moment, in which nothing is
    /// copied: it takes about as long as a transaction over as many keys as there are shards.
    ///
    /// # Errors
    /// [`Error::TooManySnapshots`] if 64 are open; [`Error::Reentrant`] inside a transaction.
    pub fn snapshot(&self) -> Result<Snapshot<&Perdura>, Error> {
        Snapshot::take(self)
    }

    /// Takes a snapshot that shares the ownership of the store, so that a thread or a task can keep
    /// it for as long as it likes. While the snapshot is open, so is the store.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    /// use std::sync::Arc;
    ///
    /// let store = Arc::new(Perdura::open(Options::volatile())?);
    /// store.set("name", "Ada")?;
    /// let snapshot = store.shared_snapshot()?;
    /// let report = std::thread::spawn(move || snapshot.keys().count());
    /// store.delete("name")?;
    /// assert_eq!(report.join().expect("no panic"), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Perdura::snapshot`].
    pub fn shared_snapshot(self: &Arc<Perdura>) -> Result<Snapshot<Arc<Perdura>>, Error> {
        Snapshot::take(Arc::clone(self))
    }
}

impl<S: Borrow<Perdura>> Snapshot<S> {
    fn take(of: S) -> Result<Snapshot<S>, Error> {
        let store: &Perdura = of.borrow();
        reentry::refuse(&store.keyspace)?;
        let shards = 0..store.keyspace.shards();
        let seen = || store.journaled.as_ref().map_or(0, |journaled| journaled.seen(shards));
        let (view, seen) = store.keyspace.snapshot_view(store.now(), seen)?;
        store.acknowledge(seen)?;
        Ok(Snapshot { store: of, view: Arc::new(view), db: Db::default() })
    }

    fn store(&self) -> &Perdura {
        self.store.borrow()
    }

    /// Returns another database of the same moment, with a number from 0 to 15. The snapshot is
    /// held until both are dropped.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// store.database(3)?.set("report", "of last year")?;
    /// let snapshot = store.snapshot()?;
    /// store.clear_all()?;
    /// assert_eq!(snapshot.len()?, 0);
    /// assert_eq!(snapshot.database(3)?.len()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchDatabase`] for another number.
    pub fn database(&self, number: usize) -> Result<Snapshot<S>, Error>
    where
        S: Clone,
    {
        let db = Db::new(number).ok_or(Error::NoSuchDatabase)?;
        Ok(Snapshot { db, ..self.clone() })
    }

    /// Returns the number of the database that it shows.
    pub fn number(&self) -> usize {
        self.db.number()
    }

    /// Returns how many keys the database had, expired ones that were not deleted yet included.
    /// Each shard is locked in turn.
    pub fn len(&self) -> Result<u64, Error> {
        (0..self.store().keyspace.shards()).try_fold(0, |keys, shard| {
            Ok(keys + self.read(&[shard], &[], |tx| Ok(tx.txn.database(tx.db).count()))?)
        })
    }

    /// Returns true if the database had no keys.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// Returns the keys of the database, each once, in no particular order.
    pub fn keys(&self) -> KeyIter<'_> {
        KeyIter::of_snapshot(self.store(), &self.view, self.db)
    }

    /// Runs `work` in a transaction over shards that is then dropped.
    fn read<R>(
        &self,
        shards: &[usize],
        keys: &[&[u8]],
        work: impl FnOnce(&mut Open<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let keyspace = &self.store().keyspace;
        reentry::refuse(keyspace)?;
        self.store().attempt(|losses| {
            keys.iter().try_for_each(|key| self.store().refuse_lost(self.db, key))?;
            let txn = self.view.begin(keyspace, shards.iter().copied())?;
            let mut open = Open { txn, db: self.db };
            let result = work(&mut open);
            debug_assert!(!open.txn.is_dirty(), "an operation that reads has written");
            keyspace.check_losses(losses)?;
            result
        })
    }

    /// Returns a part of a string, as much as is copied under one lock, and the string's length.
    fn read_piece(&self, key: &[u8], from: usize) -> Result<Option<(usize, Vec<u8>)>, Error> {
        self.on(&[key], |tx| {
            let key = tx.key(&key)?;
            let Some(entry) = tx.txn.find(tx.db, &key) else { return Ok(None) };
            let (value, mut piece) = (tx.txn.string(&entry)?, Vec::new());
            value.pieces(from, from + PIECE, &mut |bytes| piece.extend_from_slice(bytes))?;
            Ok(Some((value.len(), piece)))
        })
    }
}

impl<S: Borrow<Perdura>> Execute for Snapshot<S> {
    fn on<R>(
        &self,
        keys: &[&[u8]],
        work: impl FnOnce(&mut Open<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let shard = |key: &&[u8]| self.store().keyspace.key(key).shard();
        match keys {
            [key] => self.read(&[shard(key)], keys, work),
            _ => self.read(&keys.iter().map(shard).collect::<Vec<_>>(), keys, work),
        }
    }
}

impl<S: Borrow<Perdura>> Strings for Snapshot<S> {
    // A large value is copied piece by piece: its blocks stay only while the snapshot has them,
    // which is checked under the shard's lock.
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        let piece = |from| {
            let again = |error: &Error| error.has_unresolved_losses();
            let read = |_| self.read_piece(key.as_ref(), from);
            self.store().keyspace.retry_losses(again, read)
        };
        let Some((len, mut value)) = piece(0)? else { return Ok(None) };
        for from in (PIECE..len).step_by(PIECE) {
            let Some((_, mut more)) = piece(from)? else { break };
            value.append(&mut more);
        }
        Ok(Some(value))
    }
}

impl<S: Borrow<Perdura>> Keys for Snapshot<S> {}
impl<S: Borrow<Perdura>> Bitmaps for Snapshot<S> {}
impl<S: Borrow<Perdura>> HyperLogLogs for Snapshot<S> {}
impl<S: Borrow<Perdura>> Lists for Snapshot<S> {}
impl<S: Borrow<Perdura>> Hashes for Snapshot<S> {}
impl<S: Borrow<Perdura>> Sets for Snapshot<S> {}
impl<S: Borrow<Perdura>> SortedSets for Snapshot<S> {}
impl<S: Borrow<Perdura>> Geo for Snapshot<S> {}
impl<S: Borrow<Perdura>> Streams for Snapshot<S> {}
impl<S: Borrow<Perdura>> ConsumerGroups for Snapshot<S> {}
impl<S: Borrow<Perdura>> Sorting for Snapshot<S> {}
impl<S: Borrow<Perdura>> Tables for Snapshot<S> {}

impl<S> fmt::Debug for Snapshot<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Snapshot");
        shown.field("database", &self.db.number());
        shown.field("held_words", &self.view.held_words()).finish_non_exhaustive()
    }
}
