//! The choice of the next key.
//!
//! A key is a prefix and a number. Each kind of request has its own [`Keys`], so that GETs do not
//! advance the sequence of SETs. The choices of YCSB count keys from the lowest number; those that
//! insert share one counter among all connections, since all connections add to the same keys.

use rand::RngExt;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Zipf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A range of keys, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl Range {
    /// Returns the number of keys.
    pub(crate) fn len(self) -> u64 {
        (self.high - self.low).saturating_add(1)
    }

    /// Returns the part of one of `of` connections, which must not be more than the keys. The parts
    /// cover the range, and their sizes differ by at most one key.
    pub(crate) fn part(self, connection: u64, of: u64) -> Range {
        let at = |connection: u64| {
            let keys = u128::from(self.len()) * u128::from(connection) / u128::from(of);
            self.low + keys as u64
        };
        Range { low: at(connection), high: at(connection + 1) - 1 }
    }
}

/// A choice of keys.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// Uniformly distributed.
    Random(Range),
    /// Consecutive keys, starting over at the lowest after the highest.
    Sequence { range: Range, next: u64 },
    /// Zipf distribution, with the frequent keys scattered over the range.
    Scrambled { range: Range, ranks: Zipf<f64> },
    /// Zipf distribution, in which the key inserted last is the most frequent.
    Latest { range: Range, ranks: Zipf<f64>, inserted: Arc<AtomicU64> },
    /// A new key each time.
    Insert { inserted: Arc<AtomicU64> },
}

/// Returns the FNV-1a hash of the eight bytes of a number; YCSB scatters its keys in this way.
fn scatter(number: u64) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    number.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

impl Keys {
    /// Returns the next key.
    pub(crate) fn next(&mut self, random: &mut SmallRng) -> u64 {
        match self {
            Keys::Random(range) => random.random_range(range.low..=range.high),
            Keys::Sequence { range, next } => {
                let key = *next;
                *next = if key >= range.high { range.low } else { key + 1 };
                key
            }
            Keys::Scrambled { range, ranks } => {
                range.low + scatter(rank(ranks, random)) % range.len()
            }
            Keys::Latest { range, ranks, inserted } => {
                let last = inserted.load(Ordering::Relaxed) - 1;
                last.saturating_sub(rank(ranks, random)).max(range.low)
            }
            Keys::Insert { inserted } => inserted.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// Returns a random rank, counted from 0.
fn rank(ranks: &Zipf<f64>, random: &mut SmallRng) -> u64 {
    ranks.sample(random) as u64 - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const SAMPLES: usize = 200_000;
    const RANGE: Range = Range { low: 100, high: 1099 };

    /// Returns how often each key of the range was drawn. Panics if a key is outside of the range.
    fn counts(mut keys: Keys) -> Vec<usize> {
        let mut random = SmallRng::seed_from_u64(7);
        let mut counts = vec![0; RANGE.len() as usize];
        for _ in 0..SAMPLES {
            counts[(keys.next(&mut random) - RANGE.low) as usize] += 1;
        }
        counts
    }

    /// Each key gets a thousandth of all samples, within five standard deviations.
    #[test]
    fn random_keys_are_equally_likely() {
        let expected = SAMPLES as f64 / 1000.0;
        for (key, count) in counts(Keys::Random(RANGE)).into_iter().enumerate() {
            let off = (count as f64 - expected).abs();
            assert!(off < 5.0 * expected.sqrt(), "key {key} came {count} times");
        }
    }

    /// P(rank k) = 1 / (k^s H), where H is the sum of all k^-s. Several ranks may fall on the same
    /// key.
    #[test]
    fn a_scrambled_zipf_follows_its_law_with_its_frequent_keys_apart() {
        let ranks = Zipf::new(1000.0, 0.99).expect("a distribution");
        let counts = counts(Keys::Scrambled { range: RANGE, ranks });
        let mut order: Vec<usize> = (0..counts.len()).collect();
        order.sort_by_key(|key| std::cmp::Reverse(counts[*key]));
        let place = |rank: u64| (scatter(rank) % 1000) as usize;
        assert_eq!(order[..2], [place(0), place(1)]);
        assert!(order[0].abs_diff(order[1]) > 10, "{:?}", &order[..2]);
        let sum: f64 = (1..=1000).map(|k| f64::from(k).powf(-0.99)).sum();
        let (found, expected) = (counts[order[0]] as f64, SAMPLES as f64 / sum);
        assert!((found / expected - 1.0).abs() < 0.1, "{found} is not {expected}");
    }

    #[test]
    fn the_latest_key_is_read_most_and_moves_with_inserts() {
        let inserted = Arc::new(AtomicU64::new(500));
        let ranks = Zipf::new(400.0, 0.99).expect("a distribution");
        let latest = Keys::Latest { range: RANGE, ranks, inserted: Arc::clone(&inserted) };
        let most = |keys: &Keys| {
            let counts = counts(keys.clone());
            let most = counts.iter().enumerate().max_by_key(|(_, count)| **count);
            most.expect("keys").0 as u64 + RANGE.low
        };
        assert_eq!(most(&latest), 499);
        let mut insert = Keys::Insert { inserted };
        assert_eq!(insert.next(&mut SmallRng::seed_from_u64(1)), 500);
        assert_eq!(most(&latest), 500);
    }

    #[test]
    fn parts_are_the_whole_without_overlap() {
        for (low, high, connections) in [(0, 9, 3), (0, 10_000_000, 200), (5, 12, 8), (1, 1, 1)] {
            let whole = Range { low, high };
            let parts: Vec<_> = (0..connections).map(|at| whole.part(at, connections)).collect();
            assert_eq!((parts[0].low, parts[parts.len() - 1].high), (low, high));
            assert!(parts.windows(2).all(|two| two[1].low == two[0].high + 1), "{parts:?}");
            let sizes = parts.iter().map(|part| part.len());
            assert!(sizes.clone().max() <= sizes.min().map(|least| least + 1), "{parts:?}");
        }
    }
}
