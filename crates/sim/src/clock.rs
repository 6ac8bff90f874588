//! A clock that a simulation moves.
//!
//! A thread that lets time pass sleeps while the scheduler runs others. Without a scheduler the
//! clock simply moves forward.

use crate::scheduler;
use pmem::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A clock that starts at 0. Clones share the same time.
#[derive(Clone, Debug, Default)]
pub struct SimulatedClock(Arc<AtomicU64>);

impl SimulatedClock {
    /// Lets this much time pass for the calling thread.
    pub fn pass(&self, time: Duration) {
        let until = self.now() + time;
        if !scheduler::sleep_until(self, until) {
            self.set(until);
        }
    }

    /// Moves forward to a time; never back.
    pub(crate) fn set(&self, time: Duration) {
        self.0.fetch_max(time.as_nanos() as u64, Relaxed);
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Relaxed))
    }
}
