//! The delay after each key of a dump (`rdb-key-save-delay`), so that tests can observe a running
//! dump for as long as they need.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use crate::config::Values;

/// How long to sleep between two checks whether to go on.
const STEP: Duration = Duration::from_millis(10);

/// The delay of one dump.
pub(crate) struct KeyDelay {
    /// In microseconds; if negative, one microsecond for each group of this many keys.
    delay: AtomicI64,
}

fn of(values: &Values) -> i64 {
    values.rdb_key_save_delay
}

impl KeyDelay {
    pub(crate) fn new(values: &Values) -> KeyDelay {
        KeyDelay { delay: AtomicI64::new(of(values)) }
    }

    /// Waits after the key with this number, while `goes_on`; shorter if the directive changes
    /// meanwhile. Returns whether to go on.
    pub(crate) fn wait(
        &self,
        key: u64,
        values: impl Fn() -> Values,
        goes_on: impl Fn() -> bool,
    ) -> bool {
        let mut waited = Duration::ZERO;
        while goes_on() {
            let left = self.after(key).saturating_sub(waited);
            if left.is_zero() {
                return true;
            }
            let step = left.min(STEP);
            std::thread::sleep(step);
            waited += step;
            if step == STEP {
                self.delay.store(of(&values()), Relaxed);
            }
        }
        false
    }

    fn after(&self, key: u64) -> Duration {
        match self.delay.load(Relaxed) {
            0 => Duration::ZERO,
            delay @ 1.. => Duration::from_micros(delay.unsigned_abs()),
            delay if key.is_multiple_of(delay.unsigned_abs()) => Duration::from_micros(1),
            _ => Duration::ZERO,
        }
    }
}
