//! Latencies, as full distributions.
//!
//! A mean hides what matters most about a store: whether every hundredth request waits for a disk.
//! So every latency is recorded in a histogram with three significant digits (HdrHistogram), from
//! one nanosecond up, which takes about 34,000 counters. Histograms of threads, seconds and runs
//! can be added without loss, unlike percentiles.
//!
//! In JSON a histogram is the text that HdrHistogram's own tools read: V2, compressed, base64, with
//! values in nanoseconds.

use std::time::Duration;

use crate::results::Latency;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::{Serialize, Serializer as Into};

/// The maximum latency; longer ones are recorded as this.
const LONGEST: Duration = Duration::from_secs(3600);

/// A distribution of latencies.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    /// Returns an empty histogram.
    fn default() -> Histogram {
        let longest = LONGEST.as_nanos() as u64;
        Histogram(hdrhistogram::Histogram::new_with_bounds(1, longest, 3).expect("valid bounds"))
    }
}

impl Histogram {
    /// Records a latency; one longer than an hour counts as an hour.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds the latencies of another histogram.
    pub fn add(&mut self, other: &Histogram) {
        // This cannot fail: all histograms have the same bounds.
        let _ = self.0.add(&other.0);
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the maximum in microseconds; 0 if empty.
    pub fn highest(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// Returns a percentile in microseconds, not above the maximum; 0 if empty.
    pub fn percentile(&self, percent: f64) -> f64 {
        // 99.9 % of 10,000 is 9,990, but slightly more in floating point.
        let quantile = (percent - 1e-9) / 100.0;
        (self.0.value_at_quantile(quantile) as f64 / 1e3).min(self.highest())
    }

    /// Returns the figures that a report shows.
    pub fn summary(&self) -> Latency {
        Latency {
            mean: self.0.mean() / 1e3,
            p50: self.percentile(50.0),
            p90: self.percentile(90.0),
            p99: self.percentile(99.0),
            p999: self.percentile(99.9),
            p9999: self.percentile(99.99),
            p99999: self.percentile(99.999),
            max: self.highest(),
        }
    }

    /// Returns the histogram as text: V2, compressed, base64, with values in nanoseconds.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        // Writing into memory cannot fail, and no counter is above the format's limit of 2^63.
        let _ = V2DeflateSerializer::new().serialize(&self.0, &mut bytes);
        BASE64.encode(bytes)
    }
}

impl Serialize for Histogram {
    fn serialize<S: Into>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a histogram with one sample of each number of microseconds up to `last`.
    fn up_to(last: u64) -> Histogram {
        let mut histogram = Histogram::default();
        for micros in 1..=last {
            histogram.record(Duration::from_micros(micros));
        }
        histogram
    }

    /// Checks that two values agree to three significant digits.
    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() <= expected / 500.0, "{value} is not {expected}");
    }

    #[test]
    fn percentiles_of_known_samples_are_those() {
        let latency = up_to(100_000).summary();
        near(latency.mean, 50_000.5);
        near(latency.p50, 50_000.0);
        near(latency.p90, 90_000.0);
        near(latency.p99, 99_000.0);
        near(latency.p999, 99_900.0);
        near(latency.p9999, 99_990.0);
        near(latency.p99999, 99_999.0);
        near(latency.max, 100_000.0);
    }

    #[test]
    fn nothing_is_zero_everywhere() {
        assert_eq!(Histogram::default().summary(), Latency::default());
        assert_eq!(Histogram::default().count(), 0);
    }

    #[test]
    fn the_text_is_what_hdrhistograms_own_tools_read() {
        let text = up_to(5000).encode();
        let bytes = BASE64.decode(&text).expect("base64");
        let mut reader = hdrhistogram::serialization::Deserializer::new();
        let read = reader.deserialize::<u64, _>(&mut bytes.as_slice()).expect("a histogram");
        assert_eq!((&text[..5], read.len(), read.max()), ("HISTF", 5000, up_to(5000).0.max()));
    }

    #[test]
    fn what_is_out_of_range_counts_at_its_end() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::ZERO);
        histogram.record(Duration::from_secs(100_000));
        assert_eq!(histogram.count(), 2);
        near(histogram.highest(), LONGEST.as_micros() as f64);
    }
}
