//! All keys of a database, in bounded steps.

use std::collections::VecDeque;
use std::fmt;

use keyspace::{Db, Entry, SnapshotView, Txn, Type};

use crate::iter::ITEMS;
use crate::{Database, Error, Perdura, reentry};

/// The filters of an iterator.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    prefix: Vec<u8>,
    pattern: Option<Vec<u8>>,
    value_type: Option<Type>,
}

impl Wanted {
    pub(super) fn starting_with(prefix: &[u8]) -> Wanted {
        Wanted { prefix: prefix.to_vec(), ..Wanted::default() }
    }

    pub(super) fn admits(&self, txn: &Txn<'_>, key: &[u8], entry: &Entry) -> bool {
        key.starts_with(&self.prefix)
            && self.pattern.as_ref().is_none_or(|pattern| resp::glob::matches(pattern, key))
            && self.value_type.is_none_or(|wanted| txn.properties(entry).value_type() == wanted)
    }
}

/// An iterator over the keys of a database, in no particular order: from [`Perdura::keys`] and
/// [`Database::keys`].
///
/// Each step locks one of the store's shards, looks at some 64 keys, and releases it, so that no
/// lock is held between two steps. While others write, its guarantees are those of SCAN: a key that
/// exists from start to end is shown at least once, seldom twice; one that is added or deleted
/// meanwhile may be shown or not. Expired keys are not shown, nor entries whose names the medium
/// lost. After an error it ends. Over a [`Snapshot`](crate::Snapshot) each key of its moment is
/// shown exactly once.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura, ValueType};
///
/// let store = Perdura::open(Options::volatile())?;
/// store.set("user:1:name", "Ada")?;
/// store.hash_set("user:1", "age", "36")?;
/// store.hash_set("user:2", "age", "41")?;
/// store.set("visits", "7")?;
///
/// assert_eq!(store.keys().count(), 4);
/// let hashes = store.keys().prefix("user:").of_type(ValueType::Hash);
/// let mut hashes = hashes.collect::<Result<Vec<_>, _>>()?;
/// hashes.sort();
/// assert_eq!(hashes, [b"user:1", b"user:2"]);
/// assert_eq!(store.keys().matching("user:?:*").count(), 1);
/// # Ok(())
/// # }
/// ```
pub struct KeyIter<'s> {
    store: &'s Perdura,
    /// The snapshot whose keys are shown; without one, the present keys.
    view: Option<&'s SnapshotView>,
    cursor: KeyCursor,
}

impl<'s> KeyIter<'s> {
    pub(crate) fn new(store: &'s Perdura, db: Db) -> KeyIter<'s> {
        let (wanted, found) = (Wanted::default(), VecDeque::new());
        KeyIter { store, view: None, cursor: KeyCursor { db, wanted, next: Some(0), found } }
    }

    /// Returns the keys that a snapshot of the store shows.
    pub(crate) fn of_snapshot(store: &'s Perdura, view: &'s SnapshotView, db: Db) -> KeyIter<'s> {
        KeyIter { view: Some(view), ..KeyIter::new(store, db) }
    }

    /// Shows only keys that begin with these bytes. The others are still looked at.
    #[must_use]
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> KeyIter<'s> {
        self.cursor.wanted.prefix = prefix.as_ref().to_vec();
        self
    }

    /// Shows only keys that match a pattern, as in Redis's KEYS and SCAN: `*` matches any bytes,
    /// `?` one byte, `[a-z]` one of these, `\` the next byte literally.
    #[must_use]
    pub fn matching(mut self, pattern: impl AsRef<[u8]>) -> KeyIter<'s> {
        self.cursor.wanted.pattern = Some(pattern.as_ref().to_vec());
        self
    }

    /// Shows only keys that hold values of this type.
    #[must_use]
    pub fn of_type(mut self, value_type: Type) -> KeyIter<'s> {
        self.cursor.wanted.value_type = Some(value_type);
        self
    }

    /// Returns the iterator's position, without a borrow of the store. The cursor of a snapshot's
    /// keys continues with those of the store.
    pub fn into_cursor(self) -> KeyCursor {
        self.cursor
    }
}

impl Iterator for KeyIter<'_> {
    type Item = Result<Vec<u8>, Error>;

    fn next(&mut self) -> Option<Result<Vec<u8>, Error>> {
        self.cursor.next_of(self.store, self.view)
    }
}

/// The position of an iterator over keys, for code that cannot borrow the store meanwhile: other
/// languages, or a struct that has both. It shows what a [`KeyIter`] shows.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{KeyCursor, Options, Perdura};
///
/// struct Listing {
///     store: Perdura,
///     at: KeyCursor,
/// }
///
/// let store = Perdura::open(Options::volatile())?;
/// store.set("user:1", "Ada")?;
/// let at = store.keys().prefix("user:").into_cursor();
/// let mut listing = Listing { store, at };
/// assert_eq!(listing.at.next(&listing.store), Some(Ok(b"user:1".to_vec())));
/// assert_eq!(listing.at.next(&listing.store), None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct KeyCursor {
    db: Db,
    wanted: Wanted,
    /// Where the next step begins; none at the end.
    next: Option<u64>,
    found: VecDeque<Vec<u8>>,
}

impl KeyCursor {
    /// Returns the next key of the store, which must be the same one each time; `None` at the end.
    pub fn next(&mut self, store: &Perdura) -> Option<Result<Vec<u8>, Error>> {
        self.next_of(store, None)
    }

    fn next_of(
        &mut self,
        store: &Perdura,
        view: Option<&SnapshotView>,
    ) -> Option<Result<Vec<u8>, Error>> {
        loop {
            if let Some(key) = self.found.pop_front() {
                return Some(Ok(key));
            }
            if let Err(error) = self.step(store, view, self.next?) {
                self.next = None;
                return Some(Err(error));
            }
        }
    }

    fn step(
        &mut self,
        store: &Perdura,
        view: Option<&SnapshotView>,
        cursor: u64,
    ) -> Result<(), Error> {
        let wanted = &self.wanted;
        reentry::refuse(&store.keyspace)?;
        let (next, found, seen) = store.retry(|losses| {
            let mut found = VecDeque::new();
            let shard = store.keyspace.scan_shard(cursor);
            let txn = match view {
                Some(view) => view.begin(&store.keyspace, std::iter::once(shard))?,
                None => store.keyspace.begin_one(shard, store.now()),
            };
            let next = txn.database(self.db).scan(cursor, ITEMS, &mut |key, entry| {
                if wanted.admits(&txn, key, entry) {
                    found.push_back(key.to_vec());
                }
            });
            store.keyspace.check_losses(losses)?;
            // The data of a snapshot was waited for at its cut.
            Ok((next, found, if view.is_some() { 0 } else { store.seen(&txn) }))
        })?;
        store.acknowledge(seen)?;
        self.found = found;
        self.next = Some(next).filter(|&next| next != 0);
        Ok(())
    }
}

impl std::iter::FusedIterator for KeyIter<'_> {}

impl fmt::Debug for KeyIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyIter").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

impl Perdura {
    /// Returns the keys of database 0.
    pub fn keys(&self) -> KeyIter<'_> {
        KeyIter::new(self, Db::default())
    }
}

impl<'s> Database<'s> {
    /// Returns the keys of this database.
    pub fn keys(&self) -> KeyIter<'s> {
        KeyIter::new(self.store, self.db)
    }
}
