//! The compiled scripts of one interpreter, by SHA-1.

use crate::Script;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Maximum number of scripts that were compiled by EVAL and are kept, as in Redis 7.4. Programs
/// that write values into the text of scripts would otherwise fill the memory.
const MOST_EVALUATED: usize = 500;

#[derive(Default)]
pub(crate) struct Cache {
    scripts: HashMap<String, Entry, BuildHasherDefault<FirstDigits>>,
    /// How many of the scripts may be evicted.
    evictable: usize,
    /// Counts uses.
    clock: Cell<u64>,
}

/// Uses the first 16 digits of a SHA-1 as its hash. Each added text has its own SHA-1, which nobody
/// can choose at will; other names that are looked up are compared with few.
#[derive(Default)]
struct FirstDigits(u64);

impl Hasher for FirstDigits {
    fn write(&mut self, digits: &[u8]) {
        if let Some((first, rest)) = digits.split_first_chunk::<8>()
            && let Some(second) = rest.first_chunk::<8>()
        {
            // In each digit about four bits vary, in the low half of its byte.
            let (first, second) = (u64::from_le_bytes(*first), u64::from_le_bytes(*second));
            self.0 = (first ^ second << 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

struct Entry {
    script: Script,
    is_evictable: bool,
    last_used: Cell<u64>,
}

impl Cache {
    /// Returns a script, which is then the most recently used.
    pub(crate) fn get(&self, sha: &str) -> Option<&Script> {
        let entry = self.scripts.get(sha)?;
        entry.last_used.set(self.tick());
        Some(&entry.script)
    }

    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Keeps a script from being evicted.
    pub(crate) fn retain(&mut self, sha: &str) {
        if let Some(entry) = self.scripts.get_mut(sha)
            && entry.is_evictable
        {
            entry.is_evictable = false;
            self.evictable -= 1;
        }
    }

    /// Adds a new script, and evicts the least recently used one if there are too many.
    pub(crate) fn add(&mut self, sha: String, script: Script) {
        if self.evictable >= MOST_EVALUATED {
            let evictable = self.scripts.iter().filter(|(_, entry)| entry.is_evictable);
            let oldest = evictable.min_by_key(|(_, entry)| entry.last_used.get());
            if let Some(sha) = oldest.map(|(sha, _)| sha.clone()) {
                self.scripts.remove(&sha);
                self.evictable -= 1;
            }
        }
        let last_used = Cell::new(self.tick());
        self.scripts.insert(sha, Entry { script, is_evictable: true, last_used });
        self.evictable += 1;
    }

    /// Evicts all scripts that may be evicted. Returns false if there were none.
    pub(crate) fn evict(&mut self) -> bool {
        self.scripts.retain(|_, entry| !entry.is_evictable);
        std::mem::take(&mut self.evictable) > 0
    }

    pub(crate) fn clear(&mut self) {
        self.scripts.clear();
        self.evictable = 0;
    }
}
