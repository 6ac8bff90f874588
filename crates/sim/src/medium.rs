//! The recorder of a simulated region: a trace of all that was done to it, in program order.
//!
//! Crash images are made from the trace afterwards, not while the program runs: so the program is not disturbed,
//! and any moment can be looked at knowing what came later. A trace ends when it is taken: what a store does as it
//! is dropped happens after the crash, that is, never.

use crate::baton::{self, At};
use pmem::{Recorder, StepSet};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One thing that happened.
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
    /// A thread flushed a line.
    Flush {
        /// The thread.
        thread: u32,
        /// The line's offset.
        line: u64,
    },
    /// A thread fenced.
    Fence {
        /// The thread.
        thread: u32,
    },
    /// The region grew to this length.
    Grow(u64),
    /// A thread came by these steps of the protocol since its last event: an index into [`Trace::steps`].
    Steps(usize),
    /// The explorer's own remark.
    Mark(usize),
}

/// All that happened between a start and a crash.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In program order of each thread.
    pub events: Vec<Event>,
    /// The bytes that were stored.
    pub bytes: Vec<u8>,
    /// Steps of the protocol.
    pub steps: Vec<StepSet>,
}

/// Records the trace of a region.
#[derive(Debug)]
pub struct Medium {
    trace: Mutex<Option<Trace>>,
}

impl Medium {
    /// With an empty trace.
    pub fn new() -> Arc<Medium> {
        Arc::new(Medium { trace: Mutex::new(Some(Trace::default())) })
    }

    /// Notes something between the events.
    pub fn mark(&self, n: usize) {
        self.record(|trace| trace.events.push(Event::Mark(n)));
    }

    /// The trace; nothing is recorded any more.
    pub fn take(&self) -> Trace {
        self.lock().take().unwrap_or_default()
    }

    fn record(&self, note: impl FnOnce(&mut Trace)) {
        if let Some(trace) = self.lock().as_mut() {
            let steps = pmem::take_steps();
            if steps.iter().any(|set| *set != 0) {
                trace.events.push(Event::Steps(trace.steps.len()));
                trace.steps.push(steps);
            }
            note(trace);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Trace>> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder for Medium {
    fn store(&self, off: u64, bytes: &[u8]) {
        self.record(|trace| {
            let from = trace.bytes.len();
            trace.bytes.extend_from_slice(bytes);
            trace.events.push(Event::Store { off, from, len: bytes.len() });
        });
    }

    fn flush(&self, line: u64) {
        baton::pause(At::Flush);
        self.record(|trace| trace.events.push(Event::Flush { thread: thread(), line }));
    }

    fn fence(&self) {
        baton::pause(At::Fence);
        self.record(|trace| trace.events.push(Event::Fence { thread: thread() }));
        baton::pause(At::Fence);
    }

    fn grow(&self, len: u64) {
        self.record(|trace| trace.events.push(Event::Grow(len)));
    }
}

/// A number for the calling thread. Only compared with others; threads that take turns have the same in every run.
fn thread() -> u32 {
    if let Some(place) = baton::place() {
        return u32::MAX - place as u32;
    }
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static NUMBER: u32 = NEXT.fetch_add(1, Relaxed);
    }
    NUMBER.with(|number| *number)
}
