//! Keys whose blocked clients could not be served when they were filled.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use keyspace::Db;

/// A key in a database.
pub(crate) type BlockedKey = (Db, Box<[u8]>);

/// Keys that hold something for clients that could not be served yet.
#[derive(Default)]
pub(crate) struct DeferredKeys {
    any: AtomicBool,
    places: Mutex<HashSet<BlockedKey>>,
}

impl DeferredKeys {
    pub(crate) fn add(&self, places: impl IntoIterator<Item = BlockedKey>) {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).extend(places);
        self.any.store(true, Relaxed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Relaxed)
    }

    pub(crate) fn take(&self) -> HashSet<BlockedKey> {
        if self.is_empty() || !self.any.swap(false, Relaxed) {
            return HashSet::new();
        }
        std::mem::take(&mut self.places.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Keys whose clients are to be served later.
#[derive(Default)]
pub(crate) struct Deferred {
    /// Serving failed: to be tried periodically.
    pub(crate) failed: DeferredKeys,
    /// Serving needs shards that were not locked: to be done as soon as the locked ones are
    /// unlocked.
    pub(crate) uncovered: DeferredKeys,
    /// Others have locked the shards: to be tried soon.
    pub(crate) contended: DeferredKeys,
}
