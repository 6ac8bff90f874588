//! Which elements a collection that is made in one go may have already.
//!
//! Each new element of a packed collection would have to be compared with all before it. Here each
//! has one bit of some hundred, from its length and its two ends: where the bit is clear the
//! element is new. Where it is set somebody has to look.

use structures::listpack::Item;

/// Words of bits: about one in ten new elements of a hundred finds its bit set.
const WORDS: usize = 8;

/// The elements that were entered, and some that were not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeenElements([u64; WORDS]);

impl SeenElements {
    /// Enters an element; returns true if it may have been entered before.
    #[inline]
    pub(crate) fn enter(&mut self, item: Item<'_>) -> bool {
        let hash = match item {
            Item::Int(int) => int as u64,
            Item::Bytes(bytes) => ends(bytes),
        };
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (word, bit) = ((mixed >> 61) as usize % WORDS, 1 << (mixed >> 55 & 63));
        let was_there = self.0[word] & bit != 0;
        self.0[word] |= bit;
        was_there
    }
}

/// Returns a number that follows from the length and up to eight bytes at each end.
#[inline]
fn ends(bytes: &[u8]) -> u64 {
    let len = (bytes.len() as u64) << 56;
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            len ^ u64::from_le_bytes(*first).rotate_left(23) ^ u64::from_le_bytes(*last)
        }
        _ => bytes.iter().fold(len, |word, &byte| word.rotate_left(8) ^ u64::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_entered_is_seen_and_little_else() {
        let mut seen = SeenElements::default();
        let texts: Vec<String> = (0..50).map(|n| format!("{}{n}", "m".repeat(n % 12))).collect();
        let taken_for_seen = texts.iter().filter(|text| seen.enter(Item::Bytes(text.as_bytes())));
        assert!(taken_for_seen.count() <= 12);
        let ints = (0..50).filter(|int| seen.enter(Item::Int(int * 1000)));
        assert!(ints.count() <= 20);
        assert!(texts.iter().all(|text| seen.enter(Item::Bytes(text.as_bytes()))));
        assert!((0..50).all(|int| seen.enter(Item::Int(int * 1000))));
    }
}
