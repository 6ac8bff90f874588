//! WATCH: sessions that must know whether a key changes before their EXEC.
//!
//! Each shard has a table in DRAM that maps (database, key) to flags of sessions. The table is read
//! and written only while the shard is locked (except to unwatch, which can only take effect too
//! early), so every watch that began before a change sees it. The number of watched keys is next to
//! the table: if it is zero, which is nearly always so, a commit pays one load.
//!
//! As in Redis, deleting a key that had already expired when it was watched does not break the
//! watch.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Db;

/// A key that a session watches. Pass it to [`crate::Keyspace::unwatch`] to end the watch.
#[derive(Debug)]
pub struct Watch {
    pub(crate) db: Db,
    pub(crate) key: Box<[u8]>,
    pub(crate) flag: Arc<AtomicBool>,
}

impl Watch {
    /// Returns the database of the key.
    pub fn db(&self) -> Db {
        self.db
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns true if the key has changed since the watch began.
    pub fn is_broken(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }
}

struct Watcher {
    flag: Arc<AtomicBool>,
    /// Whether the key had expired, but was not deleted yet, when the watch began.
    expired: bool,
}

/// The state of a key after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// A value that has not expired.
    Present,
    /// A value that has expired.
    Expired,
    Absent,
}

type Watched = HashMap<(Db, Box<[u8]>), Vec<Watcher>>;

/// The watches of one shard.
#[derive(Default)]
pub(crate) struct Watches {
    count: AtomicUsize,
    table: Mutex<Watched>,
}

impl Watches {
    fn table(&self) -> MutexGuard<'_, Watched> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if no key of this shard is watched.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Adds a watch. Returns `None` if this flag already watches the key.
    pub(crate) fn add(
        &self,
        db: Db,
        key: &[u8],
        flag: &Arc<AtomicBool>,
        expired: bool,
    ) -> Option<Watch> {
        let mut table = self.table();
        let watchers = table.entry((db, key.into())).or_default();
        if watchers.iter().any(|watcher| Arc::ptr_eq(&watcher.flag, flag)) {
            return None;
        }
        watchers.push(Watcher { flag: Arc::clone(flag), expired });
        self.count.store(table.len(), Ordering::Relaxed);
        Some(Watch { db, key: key.into(), flag: Arc::clone(flag) })
    }

    pub(crate) fn remove(&self, watch: Watch) {
        let mut table = self.table();
        let at = (watch.db, watch.key);
        if let Some(watchers) = table.get_mut(&at) {
            if let Some(i) = watchers.iter().position(|w| Arc::ptr_eq(&w.flag, &watch.flag)) {
                watchers.swap_remove(i);
            }
            if watchers.is_empty() {
                table.remove(&at);
            }
        }
        self.count.store(table.len(), Ordering::Relaxed);
    }

    /// Returns true if the key had expired when this watch began.
    pub(crate) fn began_expired(&self, watch: &Watch) -> bool {
        let table = self.table();
        let watchers = table.get(&(watch.db, watch.key.clone()));
        watchers
            .is_some_and(|all| all.iter().any(|w| w.expired && Arc::ptr_eq(&w.flag, &watch.flag)))
    }

    /// Returns the watched keys of a database.
    pub(crate) fn keys(&self, db: Db) -> Vec<Box<[u8]>> {
        self.table().keys().filter(|(of, _)| *of == db).map(|(_, key)| key.clone()).collect()
    }

    /// Records that a key changed, by a command, expiry or eviction.
    pub(crate) fn touch(&self, db: Db, key: &[u8], after: After) {
        if let Some(watchers) = self.table().get_mut(&(db, key.into())) {
            for watcher in watchers {
                if watcher.expired && after == After::Absent {
                    watcher.expired = false;
                } else {
                    watcher.flag.store(true, Ordering::Release);
                }
            }
        }
    }

    /// Records that the database of a key was emptied or swapped. To be called if the key existed
    /// before or exists now.
    pub(crate) fn touch_flushed(&self, db: Db, key: &[u8], was_there: bool, after: After) {
        if let Some(watchers) = self.table().get_mut(&(db, key.into())) {
            for watcher in watchers {
                match (watcher.expired, after) {
                    (true, After::Absent) => watcher.expired = false,
                    (true, After::Expired) => {}
                    (false, After::Expired) if !was_there => watcher.expired = true,
                    _ => watcher.flag.store(true, Ordering::Release),
                }
            }
        }
    }
}
