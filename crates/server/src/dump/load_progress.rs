//! The progress of loading, at the start and of a primary's dump, for INFO; and the number of
//! loaded keys.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use commands::admin::LoadingFacts;

/// Written by the thread that loads, read by INFO.
#[derive(Default)]
pub(crate) struct LoadProgress {
    /// When it began, in unix seconds; 0 before.
    started_s: AtomicU64,
    total: AtomicU64,
    done: AtomicU64,
    /// Keys that were loaded from a dump.
    pub(crate) keys: AtomicU64,
    /// Keys of a dump that had expired.
    pub(crate) expired: AtomicU64,
}

impl LoadProgress {
    /// Records that loading begins.
    pub(crate) fn begin(&self, now_ms: u64) {
        self.started_s.store(now_ms / 1000, Relaxed);
    }

    /// Records how many bytes were read, of how many.
    pub(crate) fn show(&self, done: u64, total: u64) {
        self.done.store(done, Relaxed);
        self.total.store(total, Relaxed);
    }

    /// Returns the figures for INFO.
    pub(crate) fn facts(&self, now_ms: u64) -> Option<LoadingFacts> {
        let started_s = self.started_s.load(Relaxed);
        (started_s != 0).then(|| LoadingFacts {
            started_s,
            total: self.total.load(Relaxed),
            loaded: self.done.load(Relaxed),
            elapsed_s: (now_ms / 1000).saturating_sub(started_s),
        })
    }
}
