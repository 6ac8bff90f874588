//! How much memory the Lua interpreters of all threads use, for INFO.
//!
//! Each thread has its own interpreters and records their size after each use, in a place that only
//! this thread writes; a reader adds the sizes up. An interpreter that is gone no longer counts.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The sizes of interpreters of one kind.
#[derive(Default)]
pub struct InterpreterMemory(Mutex<Vec<Weak<AtomicUsize>>>);

/// The size of one interpreter, written by its thread.
pub struct InterpreterSize(Arc<AtomicUsize>);

impl InterpreterMemory {
    /// Adds an interpreter, which counts until the returned value is dropped.
    pub fn add(&self) -> InterpreterSize {
        let size = Arc::default();
        let mut sizes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.retain(|size| size.strong_count() > 0);
        sizes.push(Arc::downgrade(&size));
        InterpreterSize(size)
    }

    /// Returns the bytes that all of them use.
    pub fn total(&self) -> usize {
        let sizes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.iter().filter_map(Weak::upgrade).map(|size| size.load(Relaxed)).sum()
    }
}

impl InterpreterSize {
    /// Records how many bytes it uses.
    #[inline]
    pub fn set(&self, bytes: usize) {
        self.0.store(bytes, Relaxed);
    }
}
