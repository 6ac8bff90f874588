//! The cache lines that a range of bytes touches.
//!
//! A flush that misses the last line of a range, or rounds its start up, is a bug that no ordinary
//! test sees. So the arithmetic is only here, in a pure function that every flush uses, and is
//! tested for every address and length of a window.

/// Bytes of a cache line, on every CPU that Perdura runs on.
pub const LINE: u64 = 64;

/// Returns the offset of each line that `[at, at + len)` touches, in ascending order; none for an
/// empty range.
///
/// The range must not wrap around the end of the address space; callers have checked it against
/// their bounds.
#[inline]
pub fn lines(at: u64, len: usize) -> impl ExactSizeIterator<Item = u64> + Clone {
    let first = at / LINE;
    let count = if len == 0 { 0 } else { (at + (len as u64 - 1)) / LINE - first + 1 };
    (0..count as usize).map(move |n| (first + n as u64) * LINE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks byte by byte that each line that holds a byte of the range is listed once, and no
    /// other.
    fn check(at: u64, len: usize) {
        let touched: Vec<u64> = lines(at, len).collect();
        let mut expected: Vec<u64> = (at..at + len as u64).map(|byte| byte & !63).collect();
        expected.dedup();
        assert_eq!(touched, expected, "range of {len} bytes at {at}");
    }

    #[test]
    fn every_address_and_length_of_a_window() {
        for at in 0..3 * LINE {
            for len in 0..=4 * LINE as usize {
                check(at, len);
            }
        }
    }

    proptest! {
        #[test]
        fn anywhere(at in 0..1u64 << 40, len in 0..20_000usize) {
            check(at, len);
        }
    }
}
