//! The engine's counters: calls, time, refusals and failures per command, errors per code.
//!
//! Counters are relaxed atomics in stripes; a thread adds to its own stripe and no other does, so
//! that threads do not share a cache line and an addition is a load and a store; a reader sums up
//! all stripes.

use crossbeam_utils::CachePadded;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Counts of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStats {
    /// Executions.
    pub calls: u64,
    /// Time in them, in nanoseconds.
    pub nanos: u64,
    /// Refused before execution (arity, authentication, memory ...).
    pub rejected: u64,
    /// Executions that ended with an error.
    pub failed: u64,
}

#[derive(Default)]
struct Cell {
    calls: AtomicU64,
    nanos: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
}

/// Adds to a counter that no other thread writes.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

/// All counters of an engine.
pub struct Stats {
    stripes: Vec<Box<[Cell]>>,
    changes: Vec<CachePadded<AtomicU64>>,
    errors: Mutex<BTreeMap<Vec<u8>, u64>>,
    error_replies: AtomicU64,
}

/// Maximum number of error codes, made up by scripts, that are counted by themselves; they must not
/// fill the memory.
const MAX_INVENTED_CODES: usize = 128;

/// The code by which the others are counted together, as in Valkey.
const OVERFLOW: &[u8] = b"ERRORSTATS_OVERFLOW";

/// Codes of commands' errors: each is always counted under its own name, whatever scripts make up.
const OWN_CODES: [&str; 28] = [
    "BUSY",
    "BUSYGROUP",
    "BUSYKEY",
    "CROSSSLOT",
    "DENIED",
    "ERR",
    "EXECABORT",
    "INVALIDOBJ",
    "IOERR",
    "LOADING",
    "MEDIAERR",
    "MISCONF",
    "NOAUTH",
    "NOGOODSLAVE",
    "NOGROUP",
    "NOPERM",
    "NOPROTO",
    "NOREPLICAS",
    "NOSCRIPT",
    "NOTBUSY",
    "OOM",
    "READONLY",
    "SYNTAX",
    "TRYAGAIN",
    "UNBLOCKED",
    "UNKILLABLE",
    "WRONGPASS",
    "WRONGTYPE",
];

impl Stats {
    /// Makes counters for `commands` commands and `threads` threads.
    pub fn new(commands: usize, threads: usize) -> Stats {
        let stripe = || (0..commands).map(|_| Cell::default()).collect();
        Stats {
            stripes: (0..threads.max(1)).map(|_| stripe()).collect(),
            changes: (0..threads.max(1)).map(|_| CachePadded::default()).collect(),
            errors: Mutex::default(),
            error_replies: AtomicU64::new(0),
        }
    }

    /// Counts executions that took this long each.
    #[inline]
    pub fn called(&self, stripe: usize, id: usize, calls: u64, nanos: u64) {
        let cell = self.cell(stripe, id);
        add(&cell.calls, calls);
        add(&cell.nanos, nanos * calls);
    }

    /// Counts an execution that failed.
    pub fn failed(&self, stripe: usize, id: usize) {
        add(&self.cell(stripe, id).failed, 1);
    }

    /// Counts a request that was refused before it was executed.
    pub fn rejected(&self, stripe: usize, id: usize) {
        add(&self.cell(stripe, id).rejected, 1);
    }

    /// Counts an error reply under its code, also one that a connection answers itself.
    pub fn error(&self, code: &[u8]) {
        self.error_replies.fetch_add(1, Relaxed);
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
            return;
        }
        let is_own = |code: &[u8]| OWN_CODES.iter().any(|own| own.as_bytes() == code);
        // Codes of commands are few: they are checked only when a code is new.
        let is_full = || errors.keys().filter(|code| !is_own(code)).count() >= MAX_INVENTED_CODES;
        let code = if !is_own(code) && is_full() { OVERFLOW } else { code };
        *errors.entry(code.to_vec()).or_default() += 1;
    }

    /// Counts a change of the data.
    #[inline]
    pub(crate) fn changed(&self, stripe: usize) {
        add(&self.changes[stripe.min(self.changes.len() - 1)], 1);
    }

    /// Returns the changes of the data, without the deletions of expiry and eviction.
    pub fn changes(&self) -> u64 {
        self.changes.iter().map(|changes| changes.load(Relaxed)).sum()
    }

    fn cell(&self, stripe: usize, id: usize) -> &Cell {
        &self.stripes[stripe.min(self.stripes.len() - 1)][id]
    }

    /// Returns the counts of the command with this number.
    pub fn command(&self, id: usize) -> CommandStats {
        let cells = || self.stripes.iter().map(|stripe| &stripe[id]);
        CommandStats {
            calls: cells().map(|c| c.calls.load(Relaxed)).sum(),
            nanos: cells().map(|c| c.nanos.load(Relaxed)).sum(),
            rejected: cells().map(|c| c.rejected.load(Relaxed)).sum(),
            failed: cells().map(|c| c.failed.load(Relaxed)).sum(),
        }
    }

    /// Returns how many commands were executed.
    pub fn total_calls(&self) -> u64 {
        self.stripes.iter().flat_map(|s| s.iter()).map(|c| c.calls.load(Relaxed)).sum()
    }

    /// Returns how many error replies were sent.
    pub fn error_replies(&self) -> u64 {
        self.error_replies.load(Relaxed)
    }

    /// Returns error replies by code.
    pub fn errors(&self) -> BTreeMap<Vec<u8>, u64> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets everything to zero: CONFIG RESETSTAT.
    pub fn reset(&self) {
        for cell in self.stripes.iter().flat_map(|s| s.iter()) {
            for counter in [&cell.calls, &cell.nanos, &cell.rejected, &cell.failed] {
                counter.store(0, Relaxed);
            }
        }
        self.error_replies.store(0, Relaxed);
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The shortest time between two log lines about a full store.
const LOG_EVERY_MS: u64 = 60_000;

/// Commands that were refused because the store was full.
#[derive(Default)]
pub struct Refusals {
    refused: AtomicU64,
    last_ms: AtomicU64,
    logged_ms: AtomicU64,
}

impl Refusals {
    /// Returns how many commands were refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Returns how many seconds ago the last one was refused.
    pub fn last_refused_s(&self, now_ms: u64) -> Option<u64> {
        (self.refused() > 0).then(|| now_ms.saturating_sub(self.last_ms.load(Relaxed)) / 1000)
    }

    /// Counts a refusal; true if it is to be logged.
    pub(crate) fn record(&self, now_ms: u64) -> bool {
        self.refused.fetch_add(1, Relaxed);
        self.last_ms.store(now_ms, Relaxed);
        let logged = self.logged_ms.load(Relaxed);
        (logged == 0 || now_ms.saturating_sub(logged) >= LOG_EVERY_MS)
            && self.logged_ms.compare_exchange(logged, now_ms, Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_codes_are_bounded_and_hide_no_others() {
        let stats = Stats::new(1, 1);
        (0..1000).for_each(|number| stats.error(format!("CODE{number}").as_bytes()));
        stats.error(b"OOM");
        (0..3).for_each(|_| stats.error(b"WRONGTYPE"));
        stats.error(b"CODE5");
        let errors = stats.errors();
        assert_eq!(errors.len(), MAX_INVENTED_CODES + 3);
        assert_eq!((errors[&b"OOM"[..]], errors[&b"WRONGTYPE"[..]]), (1, 3));
        assert_eq!(errors[&b"CODE5"[..]], 2);
        assert_eq!(errors[OVERFLOW], 1000 - MAX_INVENTED_CODES as u64);
        assert_eq!(stats.error_replies(), 1005);
    }
}
