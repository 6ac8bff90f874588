//! Keys and values: 16 bytes that look random, and random bytes that do not compress.
//!
//! Everything follows from a number, so that a process can check what another one wrote.

use fastrand::Rng;

/// A key.
pub type Key = [u8; 16];

/// Returns key number `n`: different for each number, and in no order that a tree could make use
/// of.
pub fn key(n: u64) -> Key {
    let mut key = [0; 16];
    let mut rest = mix(n);
    for digit in &mut key {
        *digit = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
    }
    key
}

/// Returns a permutation of the numbers of 64 bits (the last step of splitmix64).
fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Value number `n`, of `len` bytes.
pub fn value(n: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Rng::with_seed(n).fill(&mut bytes);
    bytes
}

/// Random bytes of which every piece is a value, so that making one costs nothing while the clock
/// runs.
pub struct Values {
    bytes: Vec<u8>,
    len: usize,
}

impl Values {
    /// Values of `len` bytes.
    pub fn new(len: usize) -> Values {
        Values { bytes: value(0, len + (1 << 20)), len }
    }

    /// Returns some value.
    pub fn any(&self, rng: &mut Rng) -> &[u8] {
        let at = rng.usize(..1 << 20);
        &self.bytes[at..at + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_differ_and_values_follow_from_their_number() {
        let keys: HashSet<Key> = (0..10_000).map(key).collect();
        assert_eq!(keys.len(), 10_000);
        assert_eq!(value(7, 100), value(7, 100));
        assert_ne!(value(7, 100), value(8, 100));
        assert_eq!(Values::new(100).any(&mut Rng::with_seed(1)).len(), 100);
    }
}
