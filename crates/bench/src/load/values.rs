//! What a value consists of, and how long it is.
//!
//! Bytes come out of one buffer that is made once: `x` throughout, or random bytes of which each
//! value is another stretch. So a value costs a copy and no more, whatever its size.

use rand::RngExt;
use rand::rngs::SmallRng;

use super::keys::Range;

/// How long values are, in bytes.
#[derive(Clone, Debug)]
pub(crate) enum Size {
    /// All the same.
    Fixed(usize),
    /// Drawn from a range, both ends included.
    Drawn(usize, usize),
    /// From a range, growing with the number of the key.
    Growing { low: usize, high: usize, keys: Range },
    /// One of some, each with the sum of the weights up to it.
    Weighted(Vec<(usize, u64)>),
}

impl Size {
    fn longest(&self) -> usize {
        match self {
            Size::Fixed(size) | Size::Drawn(_, size) | Size::Growing { high: size, .. } => *size,
            Size::Weighted(sizes) => sizes.iter().map(|(size, _)| *size).max().unwrap_or(0),
        }
    }

    fn of(&self, key: u64, random: &mut SmallRng) -> usize {
        match self {
            Size::Fixed(size) => *size,
            Size::Drawn(low, high) => random.random_range(*low..=*high),
            Size::Growing { low, high, keys } => {
                let part = key.saturating_sub(keys.low) as f64 / keys.len().max(2) as f64;
                low + ((high - low + 1) as f64 * part) as usize
            }
            Size::Weighted(sizes) => {
                let whole = sizes.last().map_or(1, |(_, sum)| *sum);
                let at = random.random_range(0..whole);
                sizes.iter().find(|(_, sum)| at < *sum).map_or(0, |(size, _)| *size)
            }
        }
    }
}

/// Makes values.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    size: Size,
    bytes: Vec<u8>,
    random: bool,
}

/// How many different stretches of random bytes there are, of each length.
const STRETCHES: usize = 8192;

impl Values {
    pub(crate) fn new(size: Size, random: Option<&mut SmallRng>) -> Values {
        let longest = size.longest();
        match random {
            None => Values { size, bytes: vec![b'x'; longest], random: false },
            Some(source) => {
                let mut bytes = vec![0; longest + STRETCHES];
                source.fill(&mut bytes[..]);
                Values { size, bytes, random: true }
            }
        }
    }

    /// Returns the value to write to a key.
    pub(crate) fn next(&mut self, key: u64, random: &mut SmallRng) -> &[u8] {
        let size = self.size.of(key, random).min(self.bytes.len());
        let from = if self.random { random.random_range(0..STRETCHES) } else { 0 };
        &self.bytes[from..from + size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use std::collections::{HashMap, HashSet};

    fn sizes(size: Size) -> Vec<usize> {
        let mut random = SmallRng::seed_from_u64(3);
        let mut values = Values::new(size, None);
        (0..10_000).map(|key| values.next(key % 1000, &mut random).len()).collect()
    }

    #[test]
    fn a_fixed_size_is_that() {
        assert!(sizes(Size::Fixed(32)).iter().all(|size| *size == 32));
    }

    #[test]
    fn a_range_is_used_from_end_to_end() {
        let seen: HashSet<_> = sizes(Size::Drawn(5, 14)).into_iter().collect();
        assert_eq!(seen, (5..=14).collect());
    }

    #[test]
    fn sizes_grow_with_the_key_to_the_end_of_the_range() {
        let sizes = sizes(Size::Growing { low: 10, high: 19, keys: Range { low: 0, high: 999 } });
        assert!(sizes[..1000].is_sorted());
        assert_eq!((sizes[0], sizes[500], sizes[999]), (10, 15, 19));
    }

    #[test]
    fn weights_are_shares() {
        let mut counts: HashMap<usize, usize> = HashMap::new();
        for size in sizes(Size::Weighted(vec![(32, 9), (4096, 10)])) {
            *counts.entry(size).or_default() += 1;
        }
        assert!(counts[&32].abs_diff(9000) < 150, "{counts:?}");
        assert_eq!(counts[&32] + counts[&4096], 10_000);
    }

    #[test]
    fn random_values_differ() {
        let mut random = SmallRng::seed_from_u64(3);
        let mut values = Values::new(Size::Fixed(16), Some(&mut random.clone()));
        let seen: HashSet<_> = (0..100).map(|_| values.next(0, &mut random).to_vec()).collect();
        assert!(seen.len() > 90, "{}", seen.len());
    }
}
