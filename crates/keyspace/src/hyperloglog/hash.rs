//! MurmurHash64A (Austin Appleby, public domain) with Redis's seed: determines an element's
//! register, and the value that the element gives it.

use super::registers::{COUNT, INDEX_BITS};

const SEED: u64 = 0xadc8_3b19;
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// Returns the register of an element, and the element's value there: one more than the number of
/// trailing zeros of the remaining bits.
pub fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element);
    let index = hash as usize & (COUNT - 1);
    // A bit above the last one ends the run of zeros.
    let rest = hash >> INDEX_BITS | 1 << (u64::BITS - INDEX_BITS);
    (index, rest.trailing_zeros() as u8 + 1)
}

fn murmur64a(bytes: &[u8]) -> u64 {
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mut mixed = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> SHIFT;
        hash = (hash ^ mixed.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        let last = tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ last).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}
