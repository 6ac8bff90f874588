//! Denials for ACL LOG: the newest first, with similar ones as one entry.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Reason;

/// The number of entries that a new one is compared with, and the time within which two are the
/// same.
const COMPARED: usize = 10;
const SAME_WITHIN_MS: u64 = 60_000;

/// Where a command was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A request by itself.
    Toplevel,
    /// A command inside MULTI.
    Multi,
    /// A command that a script called.
    Lua,
}

impl Context {
    /// Returns the name that ACL LOG prints.
    pub fn name(self) -> &'static str {
        match self {
            Context::Toplevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

/// A denial.
#[derive(Clone, Debug)]
pub struct Entry {
    /// How often it happened.
    pub count: u64,
    /// Why.
    pub reason: Reason,
    /// The context of the command.
    pub context: Context,
    /// The command, key, channel or user.
    pub object: Vec<u8>,
    /// The name of the user.
    pub username: Vec<u8>,
    /// When it happened last, unix milliseconds.
    pub at_ms: u64,
    /// The client's line of CLIENT LIST.
    pub client: String,
}

impl Entry {
    fn is_like(&self, other: &Entry) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && self.object == other.object
            && self.username == other.username
            && self.at_ms.abs_diff(other.at_ms) <= SAME_WITHIN_MS
    }
}

/// The entries.
#[derive(Debug)]
pub struct DeniedLog {
    max_len: AtomicUsize,
    entries: Mutex<VecDeque<Entry>>,
}

impl Default for DeniedLog {
    fn default() -> DeniedLog {
        DeniedLog { max_len: AtomicUsize::new(DeniedLog::MAX_LEN), entries: Mutex::default() }
    }
}

impl DeniedLog {
    /// How many entries are kept, unless set.
    pub const MAX_LEN: usize = 128;

    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry, or counts a similar one again.
    pub(crate) fn enter(&self, mut entry: Entry) {
        let mut entries = self.entries();
        let same = entries.iter().take(COMPARED).position(|known| known.is_like(&entry));
        if let Some(known) = same.and_then(|at| entries.remove(at)) {
            entry.count += known.count;
        }
        entries.push_front(entry);
        entries.truncate(self.max_len.load(Relaxed));
    }

    /// Returns the newest entries, at most `count`.
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries().iter().take(count).cloned().collect()
    }

    /// Drops all entries.
    pub fn reset(&self) {
        self.entries().clear();
    }

    /// Sets `acllog-max-len`.
    pub(crate) fn set_max_len(&self, entries: usize) {
        self.max_len.store(entries, Relaxed);
        self.entries().truncate(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str, at_ms: u64) -> Entry {
        Entry {
            count: 1,
            reason: Reason::Key,
            context: Context::Toplevel,
            object: object.into(),
            username: b"u".to_vec(),
            at_ms,
            client: String::new(),
        }
    }

    fn shown(log: &DeniedLog) -> Vec<(String, u64)> {
        let text = |entry: &Entry| String::from_utf8_lossy(&entry.object).into_owned();
        log.newest(99).iter().map(|entry| (text(entry), entry.count)).collect()
    }

    #[test]
    fn what_is_alike_within_a_minute_is_one_entry() {
        let log = DeniedLog::default();
        for (object, at_ms) in [("a", 0), ("b", 1), ("a", 60_000), ("a", 120_001)] {
            log.enter(entry(object, at_ms));
        }
        let expected = [("a", 1), ("a", 2), ("b", 1)].map(|(name, count)| (name.into(), count));
        assert_eq!(shown(&log), expected);
    }

    #[test]
    fn the_oldest_entries_go_first() {
        let log = DeniedLog::default();
        for object in ["a", "b", "c", "d"] {
            log.enter(entry(object, 0));
        }
        log.set_max_len(2);
        assert_eq!(shown(&log), [("d".to_owned(), 1), ("c".to_owned(), 1)]);
        log.reset();
        assert_eq!(shown(&log), []);
    }
}
