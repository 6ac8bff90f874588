//! MurmurHash64A (Austin Appleby, public domain) with Redis's seed: which register an element falls
//! into, and what it says there.

use super::registers::{COUNT, INDEX_BITS};

const SEED: u64 = 0xadc8_3b19;
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// Returns the register of an element, and the length of the run of zeros that it shows there, from
/// 1.
pub fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element);
    let index = hash as usize & (COUNT - 1);
    // A bit after the last one ends the run.
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
