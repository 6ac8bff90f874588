//! The recorder of a simulated region: a trace of everything that was done to it, in program order.
//!
//! Crash images are made from the trace afterwards, not while the program runs: so the program is
//! not disturbed, and any moment can be examined with knowledge of what came later. A trace ends
//! when it is taken: what a store does while it is dropped happens after the crash, that is, never.

use crate::durability::Crash;
use crate::scheduler::{self, At};
use pmem::{Domain, FaultPointSet, Recorder};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes of the trace, `[from, from + len)`, were stored at `off`.
    Store {
        /// Offset in the region.
        off: u64,
        /// Index of the first byte in [`Trace::bytes`].
        from: usize,
        /// Number of bytes.
        len: usize,
    },
    /// A thread stored whole lines past the cache: bytes of the trace, `[from, from + len)`, at
    /// `off`.
    Stream {
        /// The thread.
        thread: u32,
        /// Offset in the region.
        off: u64,
        /// Index of the first byte in [`Trace::bytes`].
        from: usize,
        /// Number of bytes.
        len: usize,
    },
    /// A thread flushed a line, or a word of it.
    Flush {
        /// The thread.
        thread: u32,
        /// The offset of the line or word.
        line: u64,
    },
    /// A thread fenced.
    Fence {
        /// The thread.
        thread: u32,
    },
    /// The pages of `[off, off + len)` were written to the file.
    Sync {
        /// Offset in the region.
        off: u64,
        /// Number of bytes.
        len: u64,
    },
    /// The file under the region has this length.
    Grow(u64),
    /// The file's length was synced.
    SyncLength,
    /// A thread passed these fault points since its last event: an index into [`Trace::passed`].
    Passed(usize),
    /// A mark of the explorer.
    Mark(usize),
}

/// Everything that happened between a start and a crash.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In program order of each thread.
    pub events: Vec<Event>,
    /// The bytes that were stored.
    pub bytes: Vec<u8>,
    /// The fault points that were passed.
    pub passed: Vec<FaultPointSet>,
}

/// Records the trace of a region.
#[derive(Debug)]
pub struct Medium {
    crash: Crash,
    /// Whether copies past the cache are distinguished from other stores.
    streams: bool,
    trace: Mutex<Option<Trace>>,
    /// Ranges whose space was given back: a store there would end the process if the file system
    /// were full.
    holes: Mutex<Vec<(u64, u64)>>,
}

impl Medium {
    /// Creates a medium of persistent memory, with an empty trace.
    pub fn new() -> Arc<Medium> {
        Medium::of(Crash::Strict, false)
    }

    /// Creates a medium with an empty trace, for this crash model. With `streams`, copies past the
    /// cache behave as on a processor, where the model has both.
    pub fn of(crash: Crash, streams: bool) -> Arc<Medium> {
        let trace = Mutex::new(Some(Trace::default()));
        let streams = streams && matches!(crash, Crash::Strict | Crash::X86);
        Arc::new(Medium { crash, streams, trace, holes: Mutex::default() })
    }

    /// Puts a mark between the events.
    pub fn mark(&self, n: usize) {
        self.record(|trace| trace.events.push(Event::Mark(n)));
    }

    /// Returns the trace; nothing is recorded after that.
    pub fn take(&self) -> Trace {
        self.lock().take().unwrap_or_default()
    }

    fn record(&self, change: impl FnOnce(&mut Trace)) {
        if let Some(trace) = self.lock().as_mut() {
            let passed = pmem::take_passed_fault_points();
            if passed.iter().any(|set| *set != 0) {
                trace.events.push(Event::Passed(trace.passed.len()));
                trace.passed.push(passed);
            }
            change(trace);
        }
    }

    fn holes(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        self.holes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Trace>> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder for Medium {
    fn domain(&self) -> Domain {
        self.crash.domain()
    }

    fn flush_unit(&self) -> u64 {
        self.crash.flush_unit()
    }

    fn store(&self, off: u64, bytes: &[u8]) {
        let end = off + bytes.len() as u64;
        let hole = self.holes().iter().find(|(from, to)| off < *to && *from < end).copied();
        assert!(hole.is_none(), "a store at {off} into the hole {hole:?}");
        self.record(|trace| {
            let from = trace.bytes.len();
            trace.bytes.extend_from_slice(bytes);
            trace.events.push(Event::Store { off, from, len: bytes.len() });
        });
    }

    fn streams(&self) -> bool {
        self.streams
    }

    fn stream(&self, off: u64, bytes: &[u8]) {
        scheduler::pause(At::Flush);
        self.record(|trace| {
            let from = trace.bytes.len();
            trace.bytes.extend_from_slice(bytes);
            let len = bytes.len();
            trace.events.push(Event::Stream { thread: thread(), off, from, len });
        });
    }

    fn flush(&self, line: u64) {
        scheduler::pause(At::Flush);
        self.record(|trace| trace.events.push(Event::Flush { thread: thread(), line }));
    }

    fn fence(&self) {
        scheduler::pause(At::Fence);
        self.record(|trace| trace.events.push(Event::Fence { thread: thread() }));
        scheduler::pause(At::Fence);
    }

    fn sync(&self, off: u64, len: u64) {
        scheduler::pause(At::Fence);
        self.record(|trace| trace.events.push(Event::Sync { off, len }));
        scheduler::pause(At::Fence);
    }

    fn grow(&self, len: u64) {
        self.record(|trace| trace.events.push(Event::Grow(len)));
        scheduler::pause(At::Fence);
    }

    fn punch(&self, off: u64, len: u64) {
        self.holes().push((off, off + len));
        scheduler::pause(At::Fence);
    }

    fn hole_in(&self, from: u64, to: u64) -> Option<Range<u64>> {
        let holes = self.holes();
        let inside = holes.iter().map(|hole| hole.0.max(from)..hole.1.min(to));
        inside.filter(|hole| !hole.is_empty()).min_by_key(|hole| hole.start)
    }

    fn back(&self, off: u64, len: u64) {
        let (from, to) = (off, off + len);
        let mut holes = self.holes();
        let parts = holes.drain(..).flat_map(|(start, end)| {
            [(start, end.min(from)), (start.max(to), end)].map(|part| part)
        });
        *holes = parts.filter(|(start, end)| start < end).collect();
    }

    fn sync_length(&self) {
        self.record(|trace| trace.events.push(Event::SyncLength));
        scheduler::pause(At::Fence);
    }
}

/// Returns a number for the calling thread. It is only compared with others; a thread under the
/// scheduler has the same number in every run.
pub(crate) fn thread() -> u32 {
    if let Some(number) = scheduler::thread() {
        return u32::MAX - number as u32;
    }
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static NUMBER: u32 = NEXT.fetch_add(1, Relaxed);
    }
    NUMBER.with(|number| *number)
}
