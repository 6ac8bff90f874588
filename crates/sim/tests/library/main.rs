//! The library: what its transactions leave after a crash, and that those of several threads
//! neither wait for each other forever nor see half of one another.
//!
//! A separate program, since some of its tests disable fault points in the whole process.

#![forbid(unsafe_code)]

mod actors;
mod crashes;
mod iteration;
mod model;
mod threads;
mod waits;

use std::sync::{Mutex, MutexGuard, PoisonError};

use heap::Heap;
use perdura::Perdura;

/// One test at a time: a fault point is disabled in the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Keeps the other tests of this process waiting, whichever of them failed.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the time used everywhere in these tests.
fn now() -> u64 {
    1_700_000_000_000
}

/// Creates a store over a heap, without a background thread.
fn store(heap: Heap) -> Perdura {
    Perdura::over(heap, now)
}
