//! Texts of scripts by SHA-1, shared by all threads. Each thread compiles the scripts that it runs.
//!
//! As in Redis, SCRIPT FLUSH and a restart forget all of them. Scripts from SCRIPT LOAD stay until
//! then; of those that came with EVAL only, the oldest are dropped when there are too many, so that
//! clients that make up a new text for each call do not fill the memory. (Redis 7.4 does so.)

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::scripts::interpreter_memory::InterpreterMemory;

/// Maximum number of scripts that are kept though they came with EVAL only. (The number is that of
/// Redis 7.4.)
const MAX_EVALUATED: usize = 500;

/// The scripts of an engine.
#[derive(Default)]
pub struct ScriptCache {
    texts: RwLock<Texts>,
    /// Incremented by a flush, after which threads must not use what they compiled before.
    generation: AtomicU64,
    /// Scripts that access keys which they do not declare: they lock all shards at once.
    undeclared: RwLock<HashSet<Box<str>>>,
    undeclared_len: AtomicUsize,
    /// Scripts that took long when they ran last: they run on threads of their own at once.
    long: RwLock<HashSet<Box<str>>>,
    long_len: AtomicUsize,
    /// How often a script was rolled back and run again, because it needed a shard that was locked.
    reruns: AtomicU64,
    /// Memory of the threads' interpreters.
    interpreters: InterpreterMemory,
}

#[derive(Default)]
struct Texts {
    by_sha: HashMap<Box<str>, Cached>,
    /// Those that came with EVAL, the oldest first.
    evaluated: VecDeque<Box<str>>,
    bytes: usize,
}

struct Cached {
    text: Arc<[u8]>,
    is_loaded: bool,
}

/// The command that brought a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// SCRIPT LOAD: it stays.
    Loaded,
    /// EVAL.
    Evaluated,
}

impl ScriptCache {
    fn texts(&self) -> RwLockReadGuard<'_, Texts> {
        self.texts.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn texts_mut(&self) -> RwLockWriteGuard<'_, Texts> {
        self.texts.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number that every flush changes.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the text of a script. `sha` is in lower case.
    pub fn text(&self, sha: &str) -> Option<Arc<[u8]>> {
        self.texts().by_sha.get(sha).map(|cached| Arc::clone(&cached.text))
    }

    /// Returns true if the script is there. `sha` is in lower case.
    pub fn contains(&self, sha: &str) -> bool {
        self.texts().by_sha.contains_key(sha)
    }

    /// Returns how many scripts there are, and the bytes of their texts.
    pub fn size(&self) -> (usize, usize) {
        let texts = self.texts();
        (texts.by_sha.len(), texts.bytes)
    }

    /// Returns the memory of the threads' interpreters for scripts.
    pub fn interpreters(&self) -> &InterpreterMemory {
        &self.interpreters
    }

    /// Adds a script that compiles.
    pub fn add(&self, sha: &str, text: &[u8], origin: Origin) {
        let mut texts = self.texts_mut();
        let is_loaded = origin == Origin::Loaded;
        if let Some(cached) = texts.by_sha.get_mut(sha) {
            cached.is_loaded |= is_loaded;
            return;
        }
        texts.bytes += text.len();
        texts.by_sha.insert(sha.into(), Cached { text: text.into(), is_loaded });
        if !is_loaded {
            texts.evaluated.push_back(sha.into());
            texts.drop_oldest();
        }
    }

    /// Forgets all scripts.
    pub fn flush(&self) {
        *self.texts_mut() = Texts::default();
        self.undeclared.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.undeclared_len.store(0, Ordering::Relaxed);
        self.long.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.long_len.store(0, Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Returns true if the script is known to access keys that it does not declare.
    #[inline]
    pub fn is_undeclared(&self, name: &str) -> bool {
        self.undeclared_len.load(Ordering::Relaxed) > 0
            && self.undeclared.read().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    /// Returns true if the script took long when it ran last.
    #[inline]
    pub fn is_long(&self, name: &str) -> bool {
        self.long_len.load(Ordering::Relaxed) > 0
            && self.long.read().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    /// Remembers that a script took long.
    pub fn remember_long(&self, name: &str) {
        let mut names = self.long.write().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= 2 * MAX_EVALUATED {
            names.clear();
        }
        names.insert(name.into());
        self.long_len.store(names.len(), Ordering::Relaxed);
    }

    /// Forgets that a script took long: its last run did not.
    pub fn forget_long(&self, name: &str) {
        let mut names = self.long.write().unwrap_or_else(PoisonError::into_inner);
        names.remove(name);
        self.long_len.store(names.len(), Ordering::Relaxed);
    }

    /// Returns how often a script was rolled back and run again, because it needed a shard that
    /// another thread had locked.
    pub(crate) fn reruns(&self) -> u64 {
        self.reruns.load(Ordering::Acquire)
    }

    /// Remembers that the script, which is to be run again, accesses keys that it does not declare.
    pub fn remember_undeclared(&self, name: &str) {
        self.reruns.fetch_add(1, Ordering::Release);
        let mut names = self.undeclared.write().unwrap_or_else(PoisonError::into_inner);
        // Names of scripts that were dropped since are not worth a list of their own.
        if names.len() >= 2 * MAX_EVALUATED {
            names.clear();
        }
        names.insert(name.into());
        self.undeclared_len.store(names.len(), Ordering::Relaxed);
    }
}

impl Texts {
    fn drop_oldest(&mut self) {
        while self.evaluated.len() > MAX_EVALUATED {
            let Some(sha) = self.evaluated.pop_front() else { return };
            // SCRIPT LOAD may have added it again since.
            if self.by_sha.get(&sha).is_some_and(|cached| !cached.is_loaded)
                && let Some(cached) = self.by_sha.remove(&sha)
            {
                self.bytes -= cached.text.len();
            }
        }
    }
}
