//! Time, passed in as a value: no command asks the machine for it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Where the engine takes the time from. Tests put their own in its place.
pub trait Clock: Send + Sync {
    /// Nanoseconds since 1970.
    fn unix_ns(&self) -> u64;

    /// Milliseconds since 1970.
    fn unix_ms(&self) -> u64 {
        self.unix_ns() / 1_000_000
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_ns(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
    }
}
