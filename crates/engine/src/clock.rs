//! Time, passed in as a value: no command asks the machine for it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The engine's source of time. Tests use their own.
pub trait Clock: Send + Sync {
    /// Nanoseconds since 1970.
    fn unix_ns(&self) -> u64;

    /// Milliseconds since 1970.
    fn unix_ms(&self) -> u64 {
        self.unix_ns() / 1_000_000
    }

    /// Returns the time since some fixed moment, by a clock that nobody sets.
    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.unix_ns())
    }

    /// Waits for this long.
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_ns(&self) -> u64 {
        let now = clock_gettime(ClockId::Realtime);
        (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
    }

    fn monotonic(&self) -> Duration {
        let now = clock_gettime(ClockId::Monotonic);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }
}
