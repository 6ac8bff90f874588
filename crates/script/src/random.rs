//! The generator of `math.random`: POSIX's `lrand48`, so that a seed gives the same sequence on
//! every machine as in redis-server.

/// A 48-bit linear congruential generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lrand48(u64);

impl Lrand48 {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const INCREMENT: u64 = 0xB;
    const MASK: u64 = (1 << 48) - 1;
    /// One more than the largest number in Redis, which divides by it.
    const MAX: i64 = i32::MAX as i64;

    /// Returns a generator seeded like `srand48`.
    pub(crate) fn new(seed: i32) -> Lrand48 {
        Lrand48((u64::from(seed.cast_unsigned()) << 16) | 0x330E)
    }

    /// Returns the generator of a redis-server that has just been started.
    pub(crate) fn initial() -> Lrand48 {
        Lrand48(0x1234_ABCD_330E)
    }

    /// Returns the next number, 31 bits.
    fn next(&mut self) -> i64 {
        self.0 = self.0.wrapping_mul(Self::MULTIPLIER).wrapping_add(Self::INCREMENT) & Self::MASK;
        (self.0 >> 17) as i64
    }

    /// Returns the next number as a fraction, from 0 to less than 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() % Self::MAX) as f64 / Self::MAX as f64
    }
}
