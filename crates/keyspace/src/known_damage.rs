//! What a keyspace knows of damage, in DRAM: the keys that are damaged, and the entries that were
//! lost with their names.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use heap::Ptr;
use structures::index::Near;

use crate::DamagedKey;

/// Damaged keys that are remembered by name.
const REMEMBERED: usize = 1024;

/// The lost bytes of a shard's blocks: from, to, by the block's begin.
pub(crate) type Hits = HashMap<u64, Vec<(u64, u64)>>;

/// What a keyspace knows of damage.
#[derive(Default)]
pub(crate) struct Damage {
    /// Whether `key_damage` has anything to say: one load for each command.
    pub(crate) has_media_errors: AtomicBool,
    pub(crate) in_resolution: Mutex<()>,
    pub(crate) unidentified: Mutex<Unidentified>,
    pub(crate) keys: Mutex<Vec<DamagedKey>>,
    /// What happened and was not told yet.
    pub(crate) events: Mutex<Vec<String>>,
    pub(crate) found: AtomicU64,
    pub(crate) stopped: OnceLock<String>,
    /// Whether a key that is not found may be there all the same.
    pub(crate) hides_keys: AtomicBool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Damage {
    /// Returns true if a command is to ask what is lost. One load.
    #[inline]
    pub(crate) fn has_media_errors(&self) -> bool {
        self.has_media_errors.load(Relaxed)
    }

    /// Returns the number of damaged keys found since the keyspace was opened.
    pub(crate) fn count(&self) -> u64 {
        self.found.load(Relaxed)
    }

    /// Returns why the store was stopped, if it was.
    pub(crate) fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Returns true if the store was stopped by a loss that hides keys: then reads are refused too.
    pub(crate) fn hides_keys(&self) -> bool {
        self.hides_keys.load(Relaxed)
    }

    /// Returns what was found and done since this was asked last, for the log.
    pub(crate) fn take_events(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.events))
    }

    /// Returns where an entry is that lost its name and may have been this key's: for a key that
    /// was not found, while its shard is held.
    pub(crate) fn may_have_lost(&self, name: &Name) -> Option<u64> {
        lock(&self.unidentified).find(name).map(|lost| lost.at.raw())
    }

    pub(crate) fn report(&self, text: String) {
        lock(&self.events).push(text);
    }

    /// Remembers a damaged key; whether it is news.
    pub(crate) fn remember(&self, key: DamagedKey) -> bool {
        let mut keys = lock(&self.keys);
        if keys.iter().any(|known| {
            (known.entry, known.shard) == (key.entry, key.shard) && known.key == key.key
        }) {
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

/// What is remembered of entries without names.
#[derive(Default)]
pub(crate) struct Unidentified {
    pub(crate) entries: Vec<Lost>,
    /// Keys that fit a lost entry which is not theirs.
    pub(crate) cleared: HashSet<Name>,
}

/// An entry that leads to no name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) shard: usize,
    pub(crate) db: u8,
    pub(crate) at: Ptr,
    pub(crate) near: Near,
    /// A hash that leads to its slot.
    pub(crate) slot: u64,
    /// Whether the log was told the name by which somebody asked for it.
    pub(crate) named: bool,
}

/// A key by its whole hash.
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
    /// Returns the first entry that this key may have led to.
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

    /// Forgets entries; whether none is left.
    pub(crate) fn retain(&mut self, stays: impl Fn(&Lost) -> bool) -> bool {
        self.entries.retain(stays);
        if self.entries.is_empty() {
            self.cleared.clear();
        }
        self.entries.is_empty()
    }
}
