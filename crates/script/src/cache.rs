//! The compiled scripts of one interpreter, by SHA-1.

use crate::Script;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Scripts that were compiled to run once, as EVAL does it, and are kept: as many as Redis 7.4
/// keeps. Programs that write values into the text of scripts would fill the memory with them.
const MOST_EVALUATED: usize = 500;

#[derive(Default)]
pub(crate) struct Cache {
    scripts: HashMap<String, Entry, BuildHasherDefault<FirstDigits>>,
    /// How many of them may be evicted.
    evictable: usize,
    /// Counts uses.
    clock: Cell<u64>,
}

/// Takes the first 16 digits of a SHA-1 for its hash. Of the scripts that are added each text has
/// its own SHA-1, which nobody can choose at will; whatever else is looked up is compared with few.
#[derive(Default)]
struct FirstDigits(u64);

impl Hasher for FirstDigits {
    fn write(&mut self, digits: &[u8]) {
        if let Some((first, rest)) = digits.split_first_chunk::<8>()
            && let Some(second) = rest.first_chunk::<8>()
        {
            // Each digit has four bits that vary, in the low half of its byte, or nearly so.
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

    /// Says that a script must not be evicted.
    pub(crate) fn retain(&mut self, sha: &str) {
        if let Some(entry) = self.scripts.get_mut(sha)
            && entry.is_evictable
        {
            entry.is_evictable = false;
            self.evictable -= 1;
        }
    }

    /// Adds a script that is not there, and evicts the least recently used if there are too many.
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

    /// Forgets the scripts that may be evicted; returns false if there were none.
    pub(crate) fn evict(&mut self) -> bool {
        self.scripts.retain(|_, entry| !entry.is_evictable);
        std::mem::take(&mut self.evictable) > 0
    }

    pub(crate) fn clear(&mut self) {
        self.scripts.clear();
        self.evictable = 0;
    }
}
