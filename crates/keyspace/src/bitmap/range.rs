//! The part of a string whose bits are counted or searched.

/// Bits `from..to` of a string, within its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Bits {
    /// Returns all bits of a string of `len` bytes.
    pub fn all(len: usize) -> Bits {
        Bits { from: 0, to: len as u64 * 8 }
    }

    /// Returns the range from `start` to `end`, both inclusive and in bits or bytes; negative
    /// positions are counted from the end. Returns `None` if the range is empty.
    pub fn within(len: usize, start: i64, end: i64, in_bits: bool) -> Option<Bits> {
        let unit = if in_bits { 1 } else { 8 };
        let total = (len as u64 * 8 / unit) as i64;
        let from_end = |at: i64| if at < 0 { total.saturating_add(at).max(0) } else { at };
        let (start, end) = (from_end(start), from_end(end).min(total - 1));
        (start <= end).then(|| Bits { from: start as u64 * unit, to: (end as u64 + 1) * unit })
    }

    /// Returns the index of the byte that contains the first bit, and the index after that of the
    /// last.
    pub(super) fn bytes(self) -> (usize, usize) {
        ((self.from >> 3) as usize, self.to.div_ceil(8) as usize)
    }

    /// Returns a mask of the bits of byte `at` that are in the range.
    pub(super) fn mask(self, at: usize) -> u8 {
        let begin = at as u64 * 8;
        let first = self.from.saturating_sub(begin).min(8);
        let last = self.to.saturating_sub(begin).min(8);
        let upto = |n: u64| (0xff00u16 >> n) as u8;
        upto(last) & !upto(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(len: usize, start: i64, end: i64, in_bits: bool, expect: Option<(u64, u64)>) {
        let found = Bits::within(len, start, end, in_bits);
        assert_eq!(found.map(|bits| (bits.from, bits.to)), expect);
    }

    #[test]
    fn ranges_are_counted_from_both_ends() {
        check(3, 0, -1, false, Some((0, 24)));
        check(3, 1, 1, false, Some((8, 16)));
        check(3, -2, -2, false, Some((8, 16)));
        check(3, 5, 30, true, Some((5, 24)));
        check(3, -8, -1, true, Some((16, 24)));
        check(3, -100, 0, true, Some((0, 1)));
        check(3, 2, 1, false, None);
        check(3, 3, 9, false, None);
        check(0, 0, -1, false, None);
        check(3, i64::MIN, i64::MAX, true, Some((0, 24)));
    }

    #[test]
    fn masks_are_cut_at_both_ends() {
        let bits = Bits { from: 5, to: 18 };
        assert_eq!(bits.bytes(), (0, 3));
        assert_eq!([0, 1, 2].map(|at| bits.mask(at)), [0b0000_0111, 0xff, 0b1100_0000]);
        assert_eq!(Bits { from: 2, to: 4 }.mask(0), 0b0011_0000);
    }
}
