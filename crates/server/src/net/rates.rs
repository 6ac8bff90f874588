//! Commands and bytes per second recently: the mean of sixteen samples, taken ten times a second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const SAMPLES: usize = 16;

#[derive(Default)]
struct State {
    last: Option<(Duration, [u64; 3])>,
    samples: [[u64; 3]; SAMPLES],
    at: usize,
}

/// Rates of three counters.
#[derive(Default)]
pub(crate) struct Rates {
    state: Mutex<State>,
}

impl Rates {
    /// Takes a sample of the counters.
    pub(crate) fn sample(&self, counters: [u64; 3], now: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((then, earlier)) = state.last {
            let ms = now.saturating_sub(then).as_millis().max(1) as u64;
            let at = state.at;
            for n in 0..3 {
                // Counters decrease when they are reset.
                let grown = counters[n].saturating_sub(earlier[n]);
                state.samples[at][n] = grown.saturating_mul(1000) / ms;
            }
            state.at = (at + 1) % SAMPLES;
        }
        state.last = Some((now, counters));
    }

    /// Returns the means.
    pub(crate) fn per_second(&self) -> [u64; 3] {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mean = |n: usize| state.samples.iter().map(|s| s[n]).sum::<u64>() / SAMPLES as u64;
        [mean(0), mean(1), mean(2)]
    }
}
