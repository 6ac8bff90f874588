//! Counters of each worker: connections, reads, writes, bytes, fences.
//!
//! A worker writes its own meter only, with a plain load and store; others read it. Fences are
//! counted by `pmem` per thread, and published here periodically.

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The counters of one worker; in `CachePadded`, so that no two workers write one line.
#[derive(Default)]
pub(crate) struct Meter {
    /// Connections that it serves now.
    pub(crate) serving: AtomicUsize,
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    /// Blocks that the defragmenter moved.
    pub(crate) moved: AtomicU64,
    fences: AtomicU64,
    lines: AtomicU64,
    streamed: AtomicU64,
}

/// Adds to a counter that only the calling thread writes.
#[inline]
pub(crate) fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

impl Meter {
    /// Publishes the fences, lines and bytes of the calling thread, which is this meter's worker.
    pub(crate) fn publish(&self) {
        let counters = pmem::counters();
        self.fences.store(counters.fences, Relaxed);
        self.lines.store(counters.lines, Relaxed);
        self.streamed.store(counters.streamed, Relaxed);
    }
}

/// The sum over all workers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) moved: u64,
    pub(crate) fences: u64,
    pub(crate) lines: u64,
    pub(crate) streamed: u64,
}

impl Totals {
    pub(crate) fn of(meters: &[CachePadded<Meter>]) -> Totals {
        let sum =
            |pick: fn(&Meter) -> &AtomicU64| meters.iter().map(|m| pick(m).load(Relaxed)).sum();
        Totals {
            reads: sum(|m| &m.reads),
            writes: sum(|m| &m.writes),
            bytes_in: sum(|m| &m.bytes_in),
            bytes_out: sum(|m| &m.bytes_out),
            moved: sum(|m| &m.moved),
            fences: sum(|m| &m.fences),
            lines: sum(|m| &m.lines),
            streamed: sum(|m| &m.streamed),
        }
    }
}

/// Zeroes the counters of CONFIG RESETSTAT. A count that a worker is just adding to may survive.
pub(crate) fn reset(meters: &[CachePadded<Meter>]) {
    for meter in meters {
        for counter in [&meter.reads, &meter.writes, &meter.bytes_in, &meter.bytes_out] {
            counter.store(0, Relaxed);
        }
    }
}

/// Returns the bytes that this thread has appended to a journal since its counters were read.
pub(crate) fn appended_since(before: &pmem::Counters) -> u64 {
    pmem::counters().since(before).appended
}
