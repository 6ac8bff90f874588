//! The damage that a keyspace knows of, in DRAM: the damaged keys, and the entries that were lost
//! together with their names.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use heap::Ptr;
use structures::index::Near;

use crate::DamagedKey;

/// The maximum number of damaged keys that are remembered.
const REMEMBERED: usize = 1024;

/// The lost bytes of a shard's blocks: ranges (from, to) by the offset of the block.
pub(crate) type Hits = HashMap<u64, Vec<(u64, u64)>>;

/// The damage that a keyspace knows of.
#[derive(Default)]
pub(crate) struct Damage {
    /// Whether commands must call `key_damage`: one load for each command.
    pub(crate) has_media_errors: AtomicBool,
    pub(crate) in_resolution: Mutex<()>,
    pub(crate) unidentified: Mutex<Unidentified>,
    pub(crate) keys: Mutex<Vec<DamagedKey>>,
    /// Messages that were not taken for the log yet.
    pub(crate) events: Mutex<Vec<String>>,
    pub(crate) found: AtomicU64,
    pub(crate) stopped: OnceLock<String>,
    /// Whether a key that is not found may exist all the same.
    pub(crate) hides_keys: AtomicBool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Damage {
    /// Returns true if a command must ask for damage before it runs. One load.
    #[inline]
    pub(crate) fn has_media_errors(&self) -> bool {
        self.has_media_errors.load(Relaxed)
    }

    /// Returns the number of damaged keys found since the keyspace was opened.
    pub(crate) fn count(&self) -> u64 {
        self.found.load(Relaxed)
    }

    /// Returns the reason why the store was stopped, if it was.
    pub(crate) fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Returns true if the store was stopped by a loss that hides keys: reads are then refused too.
    pub(crate) fn hides_keys(&self) -> bool {
        self.hides_keys.load(Relaxed)
    }

    /// Returns messages for the log: the damage that was found, and what was done about it, since
    /// the last call.
    pub(crate) fn take_events(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.events))
    }

    /// Returns the pool offset of an entry that lost its name and may have belonged to this key. To
    /// be called for a key that was not found, while its shard is held.
    pub(crate) fn may_have_lost(&self, name: &Name) -> Option<u64> {
        lock(&self.unidentified).find(name).map(|lost| lost.at.raw())
    }

    pub(crate) fn report(&self, text: String) {
        lock(&self.events).push(text);
    }

    /// Remembers a damaged key. Returns true if it was not known yet.
    pub(crate) fn remember(&self, key: DamagedKey) -> bool {
        let mut keys = lock(&self.keys);
        if keys.iter().any(|known| is_known(known, &key)) {
            return false;
        }
        self.found.fetch_add(1, Relaxed);
        self.report(format!("Media error: {key}"));
        if keys.len() == REMEMBERED {
            keys.remove(0);
        }
        keys.push(key);
        true
    }
}

/// Names the damage of an entry that is marked.
pub(crate) const FOUND_BEFORE: &str = "value, found before";

/// Returns true if both are the same damage. An entry that is marked as damaged may have been
/// copied since, with its mark.
fn is_known(known: &DamagedKey, found: &DamagedKey) -> bool {
    let is_copy = found.what == FOUND_BEFORE && found.key.is_some() && known.db == found.db;
    known.shard == found.shard && known.key == found.key && (known.entry == found.entry || is_copy)
}

/// The entries that lost their names.
#[derive(Default)]
pub(crate) struct Unidentified {
    pub(crate) entries: Vec<Lost>,
    /// Keys that would fit a lost entry, but are known not to be its key.
    pub(crate) cleared: HashSet<Name>,
}

/// An entry whose name is lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) shard: usize,
    pub(crate) db: u8,
    pub(crate) at: Ptr,
    pub(crate) near: Near,
    /// A hash with which a lookup reaches its slot.
    pub(crate) slot: u64,
    /// Whether the log already has a name by which a client asked for this entry.
    pub(crate) named: bool,
}

/// A key, identified by its full hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) shard: usize,
    pub(crate) db: u8,
    pub(crate) hash: u64,
}

impl Lost {
    pub(crate) fn fits(&self, name: &Name) -> bool {
        (self.shard, self.db) == (name.shard, name.db) && self.near.fits(name.hash)
    }
}

impl Unidentified {
    /// Returns the first entry that may have belonged to this key.
    pub(crate) fn find(&self, name: &Name) -> Option<Lost> {
        let found = self.entries.iter().copied().find(|lost| lost.fits(name))?;
        (!self.cleared.contains(name)).then_some(found)
    }

    pub(crate) fn add(&mut self, lost: Lost) {
        let is_known = |known: &Lost| {
            (known.shard, known.db, known.at, known.near)
                == (lost.shard, lost.db, lost.at, lost.near)
        };
        if !self.entries.iter().any(is_known) {
            self.cleared.retain(|name| !lost.fits(name));
            self.entries.push(lost);
        }
    }

    /// Forgets the entries for which `stays` is false. Returns true if none is left.
    pub(crate) fn retain(&mut self, stays: impl Fn(&Lost) -> bool) -> bool {
        self.entries.retain(stays);
        if self.entries.is_empty() {
            self.cleared.clear();
        }
        self.entries.is_empty()
    }
}
