//! The library: what its transactions leave after a crash, and that those of several threads
//! neither wait for each other forever nor see half of one another.
//!
//! A program of its own, since some of its tests disable fault points in the whole process.

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

/// One test at a time: a disabled fault point is that of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Keeps the other tests of this process waiting, whichever of them failed.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time of everything in these tests.
fn now() -> u64 {
    1_700_000_000_000
}

/// A store over a heap, without a thread of its own.
fn store(heap: Heap) -> Perdura {
    Perdura::over(heap, now)
}
