//! Which kind of request comes next.

use rand::RngExt;
use rand::rngs::SmallRng;

use super::types::Ratio;

/// A choice between kinds of requests, each with its number.
#[derive(Clone, Debug)]
pub(crate) enum Mix {
    /// This many of the first, then this many of the second, and round again, as memtier_benchmark
    /// does.
    Rows(Rows),
    /// Drawn by weight: each with the sum of the weights up to it.
    Drawn(Vec<u64>),
}

/// Kinds in a row.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    lengths: Vec<u64>,
    at: usize,
    done: u64,
    waits: Option<Waits>,
}

/// WAITs between SETs.
#[derive(Clone, Debug)]
struct Waits {
    ratio: Ratio,
    sets: u64,
    waits: u64,
}

impl Mix {
    /// Rows of these lengths; some may be 0, not all.
    pub(crate) fn rows(lengths: Vec<u64>) -> Mix {
        Mix::Rows(Rows { lengths, at: 0, done: 0, waits: None })
    }

    /// Returns the same with WAITs after SETs, which are the first kind. A WAIT is the kind after
    /// the last.
    pub(crate) fn with_waits(self, ratio: Ratio) -> Mix {
        match self {
            Mix::Rows(rows) => {
                Mix::Rows(Rows { waits: Some(Waits { ratio, sets: 0, waits: 0 }), ..rows })
            }
            drawn @ Mix::Drawn(_) => drawn,
        }
    }

    /// Makes a mix that is drawn by these weights.
    pub(crate) fn drawn(weights: impl Iterator<Item = u64>) -> Mix {
        let mut sum = 0;
        Mix::Drawn(weights.map(|weight| (sum += weight, sum).1).collect())
    }

    /// Returns the next kind, and how many more of it would follow in a row, itself included.
    pub(crate) fn next(&mut self, random: &mut SmallRng) -> (usize, u64) {
        match self {
            Mix::Rows(rows) => rows.next(),
            Mix::Drawn(sums) => {
                let at = random.random_range(0..sums.last().copied().unwrap_or(1));
                (sums.iter().position(|sum| at < *sum).unwrap_or(0), 1)
            }
        }
    }

    /// Takes more of the row at once: a request for several keys represents several of one.
    pub(crate) fn skip(&mut self, more: u64) {
        if let Mix::Rows(rows) = self {
            rows.done += more;
        }
    }
}

impl Rows {
    fn next(&mut self) -> (usize, u64) {
        if let Some(waits) = &mut self.waits
            && waits.waits * waits.ratio.0 < waits.sets * waits.ratio.1
        {
            waits.waits += 1;
            return (self.lengths.len(), 1);
        }
        while self.done >= self.lengths[self.at] {
            self.at = (self.at + 1) % self.lengths.len();
            self.done = 0;
        }
        let left = self.lengths[self.at] - self.done;
        self.done += 1;
        if let Some(waits) = &mut self.waits
            && self.at == 0
        {
            waits.sets += 1;
        }
        (self.at, left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn kinds(mix: &mut Mix, count: usize) -> Vec<usize> {
        let mut random = SmallRng::seed_from_u64(5);
        (0..count).map(|_| mix.next(&mut random).0).collect()
    }

    #[test]
    fn a_ratio_is_rows_of_each() {
        assert_eq!(kinds(&mut Mix::rows(vec![2, 3]), 11), [0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 0]);
        assert_eq!(kinds(&mut Mix::rows(vec![0, 1]), 3), [1, 1, 1]);
        assert_eq!(kinds(&mut Mix::rows(vec![1, 0, 2]), 4), [0, 2, 2, 0]);
    }

    #[test]
    fn waits_come_after_their_share_of_sets() {
        let mut mix = Mix::rows(vec![1, 1]).with_waits(Ratio(2, 1));
        assert_eq!(kinds(&mut mix, 12), [0, 2, 1, 0, 1, 0, 2, 1, 0, 1, 0, 2]);
    }

    #[test]
    fn several_keys_at_once_use_the_row_up() {
        let mut mix = Mix::rows(vec![1, 10]);
        let mut random = SmallRng::seed_from_u64(5);
        let mut taken = Vec::new();
        for _ in 0..8 {
            let (kind, left) = mix.next(&mut random);
            let keys = if kind == 1 { left.min(4) } else { 1 };
            mix.skip(keys - 1);
            taken.push((kind, keys));
        }
        assert_eq!(taken, [(0, 1), (1, 4), (1, 4), (1, 2), (0, 1), (1, 4), (1, 4), (1, 2)]);
    }

    #[test]
    fn weights_are_shares() {
        let kinds = kinds(&mut Mix::drawn([95, 5].into_iter()), 100_000);
        let second: usize = kinds.iter().sum();
        assert!(second.abs_diff(5000) < 350, "{second}");
    }
}
