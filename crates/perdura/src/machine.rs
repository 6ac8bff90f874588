//! What a store needs from the machine: the time, and which boot this is.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix time in milliseconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// The present boot of the machine; zeros where the kernel does not tell.
pub(crate) fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut digits = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8);
    std::array::from_fn(|_| digits.next().unwrap_or(0) << 4 | digits.next().unwrap_or(0))
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
