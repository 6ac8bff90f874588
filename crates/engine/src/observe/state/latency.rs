//! The latency monitor: samples of events that took at least `latency-monitor-threshold`.
//!
//! Each kind of event keeps its latest 160 samples, one per second (the worst of that second), and
//! the worst ever.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

const SAMPLES: usize = 160;

/// One measurement of an event.
#[derive(Clone, Copy)]
pub struct Sample {
    /// When it ended, unix seconds.
    pub unix_s: u64,
    /// Milliseconds that it took.
    pub ms: u64,
}

/// The latest samples of an event.
#[derive(Clone, Default)]
pub struct Series {
    /// The samples, from old to new.
    pub samples: VecDeque<Sample>,
    /// The longest time since the last reset, in milliseconds.
    pub worst_ms: u64,
}

/// Samples of all events.
#[derive(Default)]
pub struct Latency {
    threshold_ms: AtomicU64,
    events: Mutex<BTreeMap<String, Series>>,
}

impl Latency {
    /// Sets `latency-monitor-threshold`, in milliseconds; 0 for never.
    pub fn set_threshold_ms(&self, ms: u64) {
        self.threshold_ms.store(ms, Relaxed);
    }

    /// Returns `latency-monitor-threshold`.
    pub fn threshold_ms(&self) -> u64 {
        self.threshold_ms.load(Relaxed)
    }

    /// Returns true if events are recorded.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.threshold_ms.load(Relaxed) > 0
    }

    /// Records an event, if it was slow enough.
    #[inline]
    pub fn observe(&self, event: &str, ms: u64, unix_s: u64) {
        let threshold = self.threshold_ms.load(Relaxed);
        if threshold > 0 && ms >= threshold {
            self.enter(event, Sample { unix_s, ms });
        }
    }

    #[cold]
    fn enter(&self, event: &str, sample: Sample) {
        let mut events = self.events();
        let series = events.entry(event.to_owned()).or_default();
        series.worst_ms = series.worst_ms.max(sample.ms);
        if let Some(last) = series.samples.back_mut().filter(|last| last.unix_s == sample.unix_s) {
            last.ms = last.ms.max(sample.ms);
            return;
        }
        if series.samples.len() == SAMPLES {
            series.samples.pop_front();
        }
        series.samples.push_back(sample);
    }

    /// Locks all series, by their events.
    pub fn events(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Series>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
