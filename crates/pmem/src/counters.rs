//! What a thread has asked of the medium: fences, lines, streamed bytes.
//!
//! Budgets are counted per command, and a command runs on one thread: thread-local cells are exact
//! and cost an add. Every domain but `Volatile` counts the same, whether or not its flush is an
//! instruction, so that a budget measured in one domain holds in the others.

use std::cell::Cell;

/// Counts of the calling thread since it started; subtract two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Fences.
    pub fences: u64,
    /// Cache lines flushed.
    pub lines: u64,
    /// Bytes of whole lines that were copied past the cache, and so needed no flush.
    pub streamed: u64,
}

impl Counters {
    /// Returns what was counted between `earlier` and this reading.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            fences: self.fences - earlier.fences,
            lines: self.lines - earlier.lines,
            streamed: self.streamed - earlier.streamed,
        }
    }
}

thread_local! {
    static FENCES: Cell<u64> = const { Cell::new(0) };
    static LINES: Cell<u64> = const { Cell::new(0) };
    static STREAMED: Cell<u64> = const { Cell::new(0) };
}

/// Returns the calling thread's counts.
pub fn counters() -> Counters {
    Counters { fences: FENCES.get(), lines: LINES.get(), streamed: STREAMED.get() }
}

#[inline]
pub(crate) fn count_fence() {
    FENCES.set(FENCES.get() + 1);
}

#[inline]
pub(crate) fn count_lines(n: u64) {
    LINES.set(LINES.get() + n);
}

#[inline]
pub(crate) fn count_streamed(bytes: u64) {
    STREAMED.set(STREAMED.get() + bytes);
}
