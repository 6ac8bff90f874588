//! Integers of up to 64 bits at any bit of a string, highest bit first.

/// The type of an integer: signed of 1 to 64 bits, or unsigned of 1 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitInteger {
    signed: bool,
    bits: u32,
}

/// The treatment of a result that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOverflow {
    /// Its lowest bits are kept.
    Wrap,
    /// The nearest value that fits is used.
    Saturate,
    /// Nothing is written.
    Fail,
}

/// The number of bytes that contain an integer of 64 bits, wherever it begins.
pub(super) const SPAN: usize = 9;

impl BitInteger {
    /// Returns a signed integer of this many bits; `None` unless there are 1 to 64.
    pub fn signed(bits: u32) -> Option<BitInteger> {
        (1..=64).contains(&bits).then_some(BitInteger { signed: true, bits })
    }

    /// Returns an unsigned integer of this many bits; `None` unless there are 1 to 63.
    pub fn unsigned(bits: u32) -> Option<BitInteger> {
        (1..=63).contains(&bits).then_some(BitInteger { signed: false, bits })
    }

    /// Returns its width in bits.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Returns the integer at bit `offset` of these bytes; `offset` must be below 8.
    pub(super) fn read(self, bytes: [u8; SPAN], offset: u32) -> i64 {
        let raw = (wide(bytes) >> self.shift(offset)) as u64 & self.mask();
        let unused = 64 - self.bits;
        if self.signed { (raw << unused) as i64 >> unused } else { raw as i64 }
    }

    /// Returns the bytes with the integer at bit `offset` replaced.
    pub(super) fn write(self, bytes: [u8; SPAN], offset: u32, value: i64) -> [u8; SPAN] {
        let shift = self.shift(offset);
        let hole = u128::from(self.mask()) << shift;
        let bits = u128::from(value as u64 & self.mask()) << shift;
        let all = (wide(bytes) & !hole | bits).to_be_bytes();
        std::array::from_fn(|at| all[16 - SPAN + at])
    }

    /// Returns the value to write for the result `value`; `None` if nothing may be written.
    pub(super) fn fit(self, value: i128, overflow: BitOverflow) -> Option<i64> {
        let (least, most) = if self.signed {
            (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1)
        } else {
            (0, i128::from(self.mask()))
        };
        if (least..=most).contains(&value) {
            return Some(value as i64);
        }
        match overflow {
            BitOverflow::Fail => None,
            BitOverflow::Saturate => Some(value.clamp(least, most) as i64),
            BitOverflow::Wrap => {
                let unused = 64 - self.bits;
                let raw = value as u64 & self.mask();
                Some(if self.signed { (raw << unused) as i64 >> unused } else { raw as i64 })
            }
        }
    }

    /// Returns a value that is to be set, as this type interprets it: if it is unsigned, a negative
    /// value is a very large one.
    pub(super) fn given(self, value: i64) -> i128 {
        if self.signed { i128::from(value) } else { i128::from(value as u64) }
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    fn shift(self, offset: u32) -> u32 {
        SPAN as u32 * 8 - offset - self.bits
    }
}

fn wide(bytes: [u8; SPAN]) -> u128 {
    bytes.iter().fold(0, |all, byte| all << 8 | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else_changes() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let signed = random.bool();
            let width = match signed {
                true => BitInteger::signed(random.u32(1..=64)),
                false => BitInteger::unsigned(random.u32(1..=63)),
            };
            let width = width.expect("as many bits as it may have");
            let (offset, before) = (random.u32(..8), std::array::from_fn(|_| random.u8(..)));
            let fits = width.fit(i128::from(random.i64(..)), BitOverflow::Wrap);
            let value = fits.expect("wrapped values always fit");
            let after = width.write(before, offset, value);
            assert_eq!(width.read(after, offset), value, "{width:?} at {offset}");
            let old = width.read(before, offset);
            assert_eq!(width.write(after, offset, old), before, "{width:?} at {offset}");
        }
    }

    #[track_caller]
    fn check(width: &str, value: i128, overflow: BitOverflow, expect: Option<i64>) {
        let (sign, bits) = width.split_at(1);
        let bits = bits.parse().expect("a number");
        let width = if sign == "i" { BitInteger::signed(bits) } else { BitInteger::unsigned(bits) };
        assert_eq!(width.expect("a width").fit(value, overflow), expect);
    }

    #[test]
    fn values_that_do_not_fit_wrap_saturate_or_fail() {
        check("u8", 255, BitOverflow::Fail, Some(255));
        check("u8", 257, BitOverflow::Wrap, Some(1));
        check("u8", 257, BitOverflow::Saturate, Some(255));
        check("u8", 257, BitOverflow::Fail, None);
        check("u8", -1, BitOverflow::Wrap, Some(255));
        check("u8", -1, BitOverflow::Saturate, Some(0));
        check("i8", 128, BitOverflow::Wrap, Some(-128));
        check("i8", -129, BitOverflow::Wrap, Some(127));
        check("i8", -129, BitOverflow::Saturate, Some(-128));
        check("i64", 1 << 63, BitOverflow::Wrap, Some(i64::MIN));
        check("i64", 1 << 63, BitOverflow::Saturate, Some(i64::MAX));
        check("u63", 1 << 63, BitOverflow::Wrap, Some(0));
    }

    #[test]
    fn widths_have_their_limits() {
        assert!([0, 65].into_iter().all(|bits| BitInteger::signed(bits).is_none()));
        assert!([0, 64].into_iter().all(|bits| BitInteger::unsigned(bits).is_none()));
        assert!(BitInteger::signed(64).is_some() && BitInteger::unsigned(63).is_some());
    }
}
