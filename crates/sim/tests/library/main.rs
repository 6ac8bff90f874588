//! The library: what its transactions leave after a crash, and that those of several threads
//! neither wait for each other forever nor see half of one another.
//!
//! A program of its own, since one of its tests disables a fault point in the whole process.

#![forbid(unsafe_code)]

mod crashes;
mod threads;

use heap::Heap;
use perdura::Perdura;

/// The time of everything in these tests.
fn now() -> u64 {
    1_700_000_000_000
}

/// A store over a heap, without a thread of its own.
fn store(heap: Heap) -> Perdura {
    Perdura::over(heap, now)
}
