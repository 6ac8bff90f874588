//! Pauses of clients: by CLIENT PAUSE up to a time, and by the server itself until it lets them go
//! on. Each has its own end: CLIENT UNPAUSE does not end a failover's.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::State;

/// Why the server itself pauses writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Hold {
    /// A replica is to have everything before it becomes the primary (FAILOVER).
    Failover = 1,
    /// Replicas are to have everything before the server ends.
    Shutdown = 2,
    /// A replica is to have everything before it becomes the primary (CLUSTER FAILOVER).
    Cluster = 4,
}

/// The requests that must wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paused {
    No,
    Writes,
    All,
}

/// The pauses.
#[derive(Default)]
pub(super) struct Pauses {
    /// The end of CLIENT PAUSE, unix ms; 0 if there is none.
    until_ms: AtomicU64,
    /// Whether that holds for all requests.
    all: AtomicBool,
    /// The bits of [`Hold`].
    holds: AtomicU8,
    /// Counts the ends of pauses.
    ended: AtomicU64,
}

impl State {
    /// Returns when it is to be seen whether the pause of clients is over, unix ms; 0 if there is
    /// none.
    pub fn paused_until_ms(&self) -> u64 {
        match self.pauses.until_ms.load(Relaxed) {
            0 if self.holds_writes() => i64::MAX as u64,
            until => until,
        }
    }

    /// Returns a number that changes whenever a pause is ended.
    pub fn ended_pauses(&self) -> u64 {
        self.pauses.ended.load(Relaxed)
    }

    /// Pauses clients. A running pause is only ever made longer and stricter.
    pub fn pause(&self, until_ms: u64, all: bool) {
        self.pauses.until_ms.fetch_max(until_ms, Relaxed);
        self.pauses.all.fetch_or(all, Relaxed);
    }

    /// Ends the pause of CLIENT PAUSE.
    pub fn unpause(&self) {
        self.pauses.until_ms.store(0, Relaxed);
        self.pauses.all.store(false, Relaxed);
        self.pauses.ended.fetch_add(1, Relaxed);
    }

    /// Returns true if the server itself pauses writes for this reason.
    pub fn holds_writes_for(&self, hold: Hold) -> bool {
        self.pauses.holds.load(Relaxed) & hold as u8 != 0
    }

    /// Returns true if the server itself pauses writes. Then it deletes no keys by itself either.
    pub fn holds_writes(&self) -> bool {
        self.pauses.holds.load(Relaxed) != 0
    }

    pub(crate) fn hold(&self, hold: Hold) {
        self.pauses.holds.fetch_or(hold as u8, SeqCst);
    }

    pub(crate) fn release(&self, hold: Hold) {
        self.pauses.holds.fetch_and(!(hold as u8), SeqCst);
        self.pauses.ended.fetch_add(1, Relaxed);
    }

    /// Returns what must wait at this time (unix ms), and ends a pause whose time is over.
    #[cold]
    pub(crate) fn paused_at(&self, now_ms: u64) -> Paused {
        let until = self.pauses.until_ms.load(Relaxed);
        let is_over = until != 0 && now_ms > until;
        if is_over {
            self.unpause();
        }
        match until {
            0 if self.holds_writes() => Paused::Writes,
            0 => Paused::No,
            _ if is_over && self.holds_writes() => Paused::Writes,
            _ if is_over => Paused::No,
            _ if self.pauses.all.load(Relaxed) => Paused::All,
            _ => Paused::Writes,
        }
    }
}
