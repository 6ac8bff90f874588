//! Latency histograms per command: LATENCY HISTOGRAM and INFO latencystats.
//!
//! A histogram has 64 linear steps per power of two, from 1 ns on, so that a percentile is off by
//! 1.6 percent at most; longer times count as two minutes. Each thread counts into a stripe of its
//! own, made when the thread first runs the command, so that counting is a load and a store.
//! Readers sum up the stripes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const STEPS: u64 = 64;
const POWERS: usize = 32;
const BUCKETS: usize = POWERS * STEPS as usize;

type Buckets = Box<[AtomicU64]>;

/// Histograms of all commands.
pub struct Histograms {
    stripes: Vec<Box<[OnceLock<Buckets>]>>,
}

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(1);
    if nanos < STEPS {
        return nanos as usize;
    }
    let power = 63 - nanos.leading_zeros() as usize;
    let step = (nanos >> (power - 6)) as usize - STEPS as usize;
    ((power - 5) * STEPS as usize + step).min(BUCKETS - 1)
}

/// Returns the largest value that falls into a bucket.
fn upper_end(bucket: usize) -> u64 {
    let (power, step) = (bucket / STEPS as usize, bucket as u64 % STEPS);
    if power == 0 {
        return step;
    }
    ((STEPS + step + 1) << (power - 1)) - 1
}

/// Returns the value in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let below = bucket.checked_sub(1).map_or(0, upper_end);
    (below + 1 + upper_end(bucket)) / 2
}

impl Histograms {
    pub(crate) fn new(commands: usize, threads: usize) -> Histograms {
        let stripe = || (0..commands).map(|_| OnceLock::new()).collect();
        Histograms { stripes: (0..threads.max(1)).map(|_| stripe()).collect() }
    }

    /// Counts executions that took this long each. Each stripe is written by one thread only.
    #[inline]
    pub(crate) fn add(&self, stripe: usize, command: usize, calls: u64, nanos: u64) {
        let stripe = &self.stripes[stripe.min(self.stripes.len() - 1)];
        let Some(cell) = stripe.get(command) else { return };
        let buckets = cell.get_or_init(|| (0..BUCKETS).map(|_| AtomicU64::new(0)).collect());
        let count = &buckets[bucket(nanos)];
        count.store(count.load(Relaxed) + calls, Relaxed);
    }

    /// Returns the counts of one command over all threads; `None` if it never ran.
    pub fn of(&self, command: usize) -> Option<Counts> {
        let mut cells = self.stripes.iter().filter_map(|s| s.get(command)?.get()).peekable();
        cells.peek()?;
        let mut counts = vec![0u64; BUCKETS];
        for buckets in cells {
            for (sum, bucket) in counts.iter_mut().zip(buckets.iter()) {
                *sum += bucket.load(Relaxed);
            }
        }
        let total = counts.iter().sum();
        (total > 0).then_some(Counts { counts, total })
    }

    pub fn reset(&self) {
        for buckets in self.stripes.iter().flat_map(|s| s.iter()).filter_map(OnceLock::get) {
            buckets.iter().for_each(|count| count.store(0, Relaxed));
        }
    }
}

/// The counts of one command.
pub struct Counts {
    counts: Vec<u64>,
    /// Executions.
    pub total: u64,
}

impl Counts {
    /// Returns the time within which `percent` of the executions ended, in nanoseconds.
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = ((percent / 100.0 * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_end(bucket);
            }
        }
        upper_end(BUCKETS - 1)
    }

    /// Returns how many executions ended within each of the ascending `bounds`, in nanoseconds.
    pub fn within<const N: usize>(&self, bounds: [u64; N]) -> [u64; N] {
        let (mut seen, mut bucket) = (0, 0);
        bounds.map(|bound| {
            while bucket < BUCKETS && middle(bucket) <= bound {
                seen += self.counts[bucket];
                bucket += 1;
            }
            seen
        })
    }

    /// Returns the total time of all executions, in nanoseconds, as exactly as it is known.
    pub fn sum_ns(&self) -> f64 {
        let time = |(bucket, count): (usize, &u64)| middle(bucket) as f64 * *count as f64;
        self.counts.iter().enumerate().map(time).sum()
    }

    /// Returns bounds in microseconds, doubling from 1 on, with the number of executions that ended
    /// within each, if that grew.
    pub fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut rows = Vec::new();
        let (mut seen, mut bucket, mut shown) = (0, 0, 0);
        let mut limit = 1024u64;
        while shown < self.total {
            while bucket < BUCKETS && upper_end(bucket) <= limit {
                seen += self.counts[bucket];
                bucket += 1;
            }
            if bucket == BUCKETS {
                seen = self.total;
            }
            if seen > shown {
                // Two digits are exact, as in the histograms of Redis.
                rows.push(((limit + (limit >> 7) - 1) / 1000, seen));
                shown = seen;
            }
            limit *= 2;
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_falls_into_them() {
        for nanos in (0..100_000).chain((1..35).map(|p| (1u64 << p) - 1)) {
            let at = bucket(nanos);
            assert!(upper_end(at) >= nanos, "{nanos}");
            assert!(upper_end(at) <= nanos.max(1) + nanos / 64 + 1, "{nanos} {}", upper_end(at));
            assert!(at == 0 || upper_end(at - 1) < nanos.max(1), "{nanos}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_and_rows() {
        let histograms = Histograms::new(3, 2);
        for nanos in [1_500, 3_000, 3_100, 60_000] {
            histograms.add(7, 1, 1, nanos);
        }
        assert!(histograms.of(0).is_none());
        let counts = histograms.of(1).expect("ran");
        assert_eq!(counts.total, 4);
        assert!((3_000..3_060).contains(&counts.percentile(50.0)));
        assert!((60_000..61_000).contains(&counts.percentile(100.0)));
        assert_eq!(counts.cumulative(), [(2, 1), (4, 3), (66, 4)]);
        assert_eq!(counts.within([1_000, 2_000, 3_050, 1_000_000]), [0, 1, 2, 4]);
        assert!((counts.sum_ns() - 67_600.0).abs() < 600.0, "{}", counts.sum_ns());
        histograms.reset();
        assert!(histograms.of(1).is_none());
    }
}
