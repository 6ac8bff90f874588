//! A filter for the elements that a collection may already have while it is created by one command.
//!
//! Without it, each new element of a packed collection would have to be compared with all elements
//! before it. Here the length and the two ends of an element select one of some hundred bits. If
//! the bit is clear, the element is new; if it is set, the caller must search for the element.

use structures::listpack::Item;

/// The number of words of bits: of a hundred new elements, about one in ten finds its bit set.
const WORDS: usize = 8;

/// The set of elements that were entered, with false positives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeenElements([u64; WORDS]);

impl SeenElements {
    /// Enters an element. Returns true if it may have been entered before.
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

/// Returns a number that depends on the length and up to eight bytes at each end.
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
