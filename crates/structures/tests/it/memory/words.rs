//! A set of words, a bit for each: a range is looked through quickly, however long it is.

use std::ops::Range;

/// The words at multiples of 8.
#[derive(Debug, Default)]
pub(super) struct Words(Vec<u64>);

impl Words {
    pub(super) fn insert(&mut self, at: u64) {
        let word = (at / 8) as usize;
        if self.0.len() <= word / 64 {
            self.0.resize(word / 64 + 1, 0);
        }
        self.0[word / 64] |= 1 << (word % 64);
    }

    /// Returns true if one of the words that begin in this range of addresses is in the set.
    pub(super) fn any(&self, range: Range<u64>) -> bool {
        parts(range).any(|(place, bits)| self.0.get(place).is_some_and(|word| word & bits != 0))
    }

    pub(super) fn remove_all(&mut self, range: Range<u64>) {
        for (place, bits) in parts(range) {
            if let Some(word) = self.0.get_mut(place) {
                *word &= !bits;
            }
        }
    }
}

/// Returns the places of the words of a range of addresses, and their bits there.
fn parts(range: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let (from, to) = (range.start.div_ceil(8), range.end.div_ceil(8));
    (from / 64..to.div_ceil(64)).map(move |place| {
        let low = from.saturating_sub(place * 64);
        let high = (to - place * 64).min(64);
        let below = |bit: u64| if bit == 64 { u64::MAX } else { (1 << bit) - 1 };
        (place as usize, below(high) & !below(low))
    })
}

#[test]
fn a_range_has_the_words_that_begin_in_it() {
    let mut words = Words::default();
    [8, 504, 512, 4096].iter().for_each(|at| words.insert(*at));
    assert!(words.any(8..9) && words.any(1..9) && words.any(500..505) && words.any(0..10_000));
    assert!(!words.any(0..8) && !words.any(9..504) && !words.any(505..512) && !words.any(8..8));
    words.remove_all(505..4096);
    assert!(!words.any(505..4096) && words.any(504..505) && words.any(4096..5000));
}
