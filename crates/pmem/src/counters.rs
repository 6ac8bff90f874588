//! Counts the threads' use of the medium: fences, lines, streamed bytes, what goes to a journal.
//!
//! Budgets are per command, and a command runs on one thread: thread-local counts are exact and
//! cost one addition. Every domain but `Volatile` counts in the same way, whether or not its flush
//! is an instruction, so that a budget measured in one domain holds in the others. Only the bytes
//! that fences append to a journal are its own.
//!
//! A thread may register its counts in a list, so that anybody can add up the counts of all such
//! threads; when it ends, its counts are added to those of the ended threads. So a count stays a
//! plain load and store of the thread's own memory.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts; subtract two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Fences.
    pub fences: u64,
    /// Cache lines flushed.
    pub lines: u64,
    /// Bytes of whole lines that were copied past the cache, and so needed no flush.
    pub streamed: u64,
    /// Bytes that fences appended to a journal.
    pub appended: u64,
}

impl Counters {
    /// Returns the counts between `earlier` and this reading.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            fences: self.fences - earlier.fences,
            lines: self.lines - earlier.lines,
            streamed: self.streamed - earlier.streamed,
            appended: self.appended - earlier.appended,
        }
    }

    fn add(&mut self, other: &Counters) {
        self.fences += other.fences;
        self.lines += other.lines;
        self.streamed += other.streamed;
        self.appended += other.appended;
    }
}

/// The counts of one thread, which only that thread changes.
struct Counts {
    fences: AtomicU64,
    lines: AtomicU64,
    streamed: AtomicU64,
    appended: AtomicU64,
}

impl Counts {
    fn read(&self) -> Counters {
        Counters {
            fences: self.fences.load(Relaxed),
            lines: self.lines.load(Relaxed),
            streamed: self.streamed.load(Relaxed),
            appended: self.appended.load(Relaxed),
        }
    }
}

/// Adds to a count of the calling thread.
#[inline]
fn add(count: &AtomicU64, by: u64) {
    count.store(count.load(Relaxed) + by, Relaxed);
}

thread_local! {
    // Without a destructor, so that its memory exists until the thread has ended.
    static COUNTS: Counts = const {
        Counts {
            fences: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            streamed: AtomicU64::new(0),
            appended: AtomicU64::new(0),
        }
    };
    static ENTRY: Entry = Entry::new();
}

/// All registered threads.
#[derive(Default)]
struct Threads {
    /// The threads that share their counts and are running.
    running: Vec<Running>,
    /// The sum of the counts of ended threads.
    ended: Counters,
}

/// The address of the counts of a running thread.
#[derive(PartialEq, Eq)]
struct Running(*const Counts);

// SAFETY: counts are atomic, and in the list only while their thread runs.
unsafe impl Send for Running {}

impl Running {
    fn read(&self) -> Counters {
        // SAFETY: a thread removes itself from the list before its memory is freed, under the lock
        // that the caller holds.
        unsafe { &*self.0 }.read()
    }
}

static THREADS: Mutex<Threads> = Mutex::new(Threads {
    running: Vec::new(),
    ended: Counters { fences: 0, lines: 0, streamed: 0, appended: 0 },
});

fn threads() -> MutexGuard<'static, Threads> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calling thread's entry in the list; its destructor removes it.
struct Entry(*const Counts);

impl Entry {
    fn new() -> Entry {
        let counts = COUNTS.with(std::ptr::from_ref);
        threads().running.push(Running(counts));
        Entry(counts)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut threads = threads();
        threads.running.retain(|thread| thread.0 != self.0);
        threads.ended.add(&counters());
    }
}

/// Makes [`total_counters`] include the counts of the calling thread, from its start on and even
/// after it has ended. Does nothing if they are included already, or if the thread is ending.
pub fn share_counters() {
    let _ = ENTRY.try_with(|_| ());
}

/// Returns the counts of the calling thread since it started.
pub fn counters() -> Counters {
    COUNTS.with(Counts::read)
}

/// Returns the total of all threads that have called [`share_counters`].
pub fn total_counters() -> Counters {
    let threads = threads();
    let mut total = threads.ended;
    threads.running.iter().for_each(|thread| total.add(&thread.read()));
    total
}

#[inline]
pub(crate) fn count_fence() {
    COUNTS.with(|counts| add(&counts.fences, 1));
}

#[inline]
pub(crate) fn count_lines(n: u64) {
    COUNTS.with(|counts| add(&counts.lines, n));
}

#[inline]
pub(crate) fn count_streamed(bytes: u64) {
    COUNTS.with(|counts| add(&counts.streamed, bytes));
}

#[inline]
pub(crate) fn count_appended(bytes: u64) {
    COUNTS.with(|counts| add(&counts.appended, bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn threads_that_run_and_threads_that_ended_are_in_the_total() {
        let before = total_counters();
        let ended = std::thread::spawn(|| {
            count_lines(2_000_000);
            share_counters();
            count_fence();
            share_counters();
            count_streamed(3_000_000);
            counters()
        });
        let expected = Counters { fences: 1, lines: 2_000_000, streamed: 3_000_000, appended: 0 };
        assert_eq!(ended.join().expect("no panic"), expected);

        let (go_on, wait) = mpsc::channel::<()>();
        let (counted, is_counted) = mpsc::channel();
        let running = std::thread::spawn(move || {
            share_counters();
            count_fence();
            count_lines(5_000_000);
            counted.send(()).expect("a receiver");
            let _ = wait.recv();
        });
        is_counted.recv().expect("a sender");
        std::thread::spawn(|| count_lines(9_000_000)).join().expect("no panic");
        let expected = Counters { fences: 2, lines: 7_000_000, streamed: 3_000_000, appended: 0 };
        assert_eq!(total_counters().since(&before), expected);

        let mine = || threads().running.iter().any(|thread| thread.read().lines >= 5_000_000);
        assert!(mine());
        drop(go_on);
        running.join().expect("no panic");
        assert!(!mine(), "a thread that ended is not in the list");
        assert_eq!(total_counters().since(&before), expected);
    }
}
