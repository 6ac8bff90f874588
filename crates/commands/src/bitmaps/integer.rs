//! Integers of any width at any bit of a string, as BITFIELD reads and writes them: highest bit first.

/// A signed or unsigned integer of 1 to 64 bits (63 without a sign).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Width {
    pub(super) signed: bool,
    pub(super) bits: u32,
}

/// What becomes of a result that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    /// Its lowest bits stay.
    Wrap,
    /// The nearest value that fits.
    Saturate,
    /// Nothing is written.
    Fail,
}

/// Bytes in which an integer of 64 bits lies, wherever it starts.
pub(super) const SPAN: usize = 9;

impl Width {
    /// `i16`, `u8` and the like.
    pub(super) fn parse(text: &[u8]) -> Option<Width> {
        let (&sign, digits) = text.split_first()?;
        let (signed, most) = match sign {
            b'i' => (true, 64),
            b'u' => (false, 63),
            _ => return None,
        };
        let bits = resp::number::parse_i64(digits)?;
        (1..=most).contains(&bits).then_some(Width { signed, bits: bits as u32 })
    }

    /// The integer at bit `offset`, below 8, of these bytes.
    pub(super) fn read(self, bytes: [u8; SPAN], offset: u32) -> i64 {
        let raw = (wide(bytes) >> self.shift(offset)) as u64 & self.mask();
        let unused = 64 - self.bits;
        if self.signed { (raw << unused) as i64 >> unused } else { raw as i64 }
    }

    /// The bytes with the integer at bit `offset` replaced.
    pub(super) fn write(self, bytes: [u8; SPAN], offset: u32, value: i64) -> [u8; SPAN] {
        let shift = self.shift(offset);
        let hole = u128::from(self.mask()) << shift;
        let bits = u128::from(value as u64 & self.mask()) << shift;
        let all = (wide(bytes) & !hole | bits).to_be_bytes();
        std::array::from_fn(|at| all[16 - SPAN + at])
    }

    /// What `value`, as wide as it is, becomes; `None` where it may not be written.
    pub(super) fn fit(self, value: i128, overflow: Overflow) -> Option<i64> {
        let (least, most) = if self.signed {
            (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1)
        } else {
            (0, i128::from(self.mask()))
        };
        if (least..=most).contains(&value) {
            return Some(value as i64);
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => Some(value.clamp(least, most) as i64),
            Overflow::Wrap => {
                let unused = 64 - self.bits;
                let raw = value as u64 & self.mask();
                Some(if self.signed { (raw << unused) as i64 >> unused } else { raw as i64 })
            }
        }
    }

    /// A new value as BITFIELD SET was given it: without a sign, a negative one is a very large one.
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
    fn what_is_written_is_read_and_nothing_beside_it_changes() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let signed = random.bool();
            let width = Width { signed, bits: random.u32(1..=if signed { 64 } else { 63 }) };
            let (offset, before) = (random.u32(..8), std::array::from_fn(|_| random.u8(..)));
            let fits = width.fit(i128::from(random.i64(..)), Overflow::Wrap);
            let value = fits.expect("wrapped values always fit");
            let after = width.write(before, offset, value);
            assert_eq!(width.read(after, offset), value, "{width:?} at {offset}");
            let old = width.read(before, offset);
            assert_eq!(width.write(after, offset, old), before, "{width:?} at {offset}");
        }
    }

    #[track_caller]
    fn check(width: &str, value: i128, overflow: Overflow, expect: Option<i64>) {
        let width = Width::parse(width.as_bytes()).expect("a width");
        assert_eq!(width.fit(value, overflow), expect);
    }

    #[test]
    fn values_that_do_not_fit_wrap_saturate_or_fail() {
        check("u8", 255, Overflow::Fail, Some(255));
        check("u8", 257, Overflow::Wrap, Some(1));
        check("u8", 257, Overflow::Saturate, Some(255));
        check("u8", 257, Overflow::Fail, None);
        check("u8", -1, Overflow::Wrap, Some(255));
        check("u8", -1, Overflow::Saturate, Some(0));
        check("i8", 128, Overflow::Wrap, Some(-128));
        check("i8", -129, Overflow::Wrap, Some(127));
        check("i8", -129, Overflow::Saturate, Some(-128));
        check("i64", 1 << 63, Overflow::Wrap, Some(i64::MIN));
        check("i64", 1 << 63, Overflow::Saturate, Some(i64::MAX));
        check("u63", 1 << 63, Overflow::Wrap, Some(0));
    }

    #[test]
    fn widths_have_their_limits() {
        for text in ["", "8", "u", "u0", "u64", "i65", "i-1", "i08", "U8", "i8 ", "x8"] {
            assert_eq!(Width::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Width::parse(b"i64"), Some(Width { signed: true, bits: 64 }));
    }
}
