//! What a store needs from the machine.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the Unix time in milliseconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
