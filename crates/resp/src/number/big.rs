//! Natural numbers of any size, as far as reading and writing extended precision needs them.
//!
//! Little-endian limbs, the highest never zero.

/// A natural number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Big(Vec<u32>);

const CHUNK: u32 = 1_000_000_000;
const CHUNK_DIGITS: usize = 9;

impl Big {
    /// Returns the value of decimal digits.
    pub(super) fn from_digits(digits: impl Iterator<Item = u8>) -> Big {
        let mut big = Big::default();
        let (mut chunk, mut scale) = (0, 1);
        for digit in digits {
            chunk = chunk * 10 + u32::from(digit - b'0');
            scale *= 10;
            if scale == CHUNK {
                big.multiply_add(scale, chunk);
                (chunk, scale) = (0, 1);
            }
        }
        big.multiply_add(scale, chunk);
        big
    }

    pub(super) fn from_u64(value: u64) -> Big {
        let mut big = Big(vec![value as u32, (value >> 32) as u32]);
        big.trim();
        big
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of bits, without leading zeros.
    pub(super) fn bits(&self) -> u32 {
        let high = self.0.last().map_or(0, |limb| u32::BITS - limb.leading_zeros());
        (self.0.len().saturating_sub(1) as u32) * u32::BITS + high
    }

    /// Multiplies by ten to the `power`.
    pub(super) fn scale(&mut self, power: u32) {
        for _ in 0..power / CHUNK_DIGITS as u32 {
            self.multiply_add(CHUNK, 0);
        }
        self.multiply_add(10u32.pow(power % CHUNK_DIGITS as u32), 0);
    }

    fn multiply_add(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    pub(super) fn shift_left(&mut self, bits: u32) {
        let (limbs, bits) = ((bits / 32) as usize, bits % 32);
        let mut carry = 0;
        for limb in &mut self.0 {
            let wide = u64::from(*limb) << bits | carry;
            *limb = wide as u32;
            carry = wide >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
        self.0.splice(0..0, std::iter::repeat_n(0, limbs));
        self.trim();
    }

    /// Returns the highest 128 bits (all, if there are fewer), the number of lower ones, and
    /// whether any of those is set.
    pub(super) fn top(&self) -> (u128, u32, bool) {
        let below = self.bits().saturating_sub(128);
        let mut top = 0u128;
        for at in (0..self.bits().min(128)).rev() {
            top = top << 1 | u128::from(self.bit(below + at));
        }
        (top, below, (0..below).any(|at| self.bit(at)))
    }

    /// Returns the quotient by `divisor`, and whether there is a remainder. The quotient must have
    /// at most 128 bits.
    pub(super) fn divide(&self, divisor: &Big) -> (u128, bool) {
        let whole = divisor.bits().saturating_sub(1).min(self.bits());
        let mut rest = self.high_bits(whole);
        let mut quotient = 0u128;
        for at in (0..self.bits() - whole).rev() {
            rest.double_add(self.bit(at));
            quotient <<= 1;
            if rest.at_least(divisor) {
                rest.subtract(divisor);
                quotient |= 1;
            }
        }
        (quotient, !rest.is_zero())
    }

    /// Returns decimal digits.
    pub(super) fn digits(mut self) -> String {
        let mut chunks = Vec::new();
        while !self.is_zero() {
            let mut rest = 0u64;
            for limb in self.0.iter_mut().rev() {
                rest = rest << 32 | u64::from(*limb);
                *limb = (rest / u64::from(CHUNK)) as u32;
                rest %= u64::from(CHUNK);
            }
            chunks.push(rest);
            self.trim();
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            text.push_str(&format!("{chunk:0CHUNK_DIGITS$}"));
        }
        text
    }

    fn bit(&self, at: u32) -> bool {
        self.0.get((at / 32) as usize).is_some_and(|limb| limb >> (at % 32) & 1 == 1)
    }

    /// Returns the number that the highest `count` bits make.
    fn high_bits(&self, count: u32) -> Big {
        let drop = self.bits() - count;
        let limbs = &self.0[((drop / 32) as usize).min(self.0.len())..];
        let shifted = limbs.iter().enumerate().map(|(at, &limb)| {
            let above = limbs.get(at + 1).copied().unwrap_or(0);
            ((u64::from(above) << 32 | u64::from(limb)) >> (drop % 32)) as u32
        });
        let mut high = Big(shifted.collect());
        high.trim();
        high
    }

    fn double_add(&mut self, bit: bool) {
        self.multiply_add(2, u32::from(bit));
    }

    fn at_least(&self, other: &Big) -> bool {
        let length = self.0.len().cmp(&other.0.len());
        length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev())).is_ge()
    }

    /// Subtracts a number that is not larger.
    fn subtract(&mut self, other: &Big) {
        let mut borrow = false;
        for (at, limb) in self.0.iter_mut().enumerate() {
            let (less, first) = limb.overflowing_sub(other.0.get(at).copied().unwrap_or(0));
            let (less, second) = less.overflowing_sub(u32::from(borrow));
            *limb = less;
            borrow = first || second;
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Big;

    fn big(text: &str) -> Big {
        Big::from_digits(text.bytes())
    }

    #[test]
    fn digits_come_back() {
        for text in ["0", "9", "1000000000", "123456789012345678901234567890", "4294967296"] {
            assert_eq!(big(text).digits(), text);
        }
        assert_eq!(big("000012").digits(), "12");
        assert_eq!(Big::from_u64(u64::MAX).digits(), u64::MAX.to_string());
    }

    #[test]
    fn scaling_and_shifting() {
        let mut scaled = big("7");
        scaled.scale(20);
        assert_eq!(scaled.digits(), "700000000000000000000");
        let mut shifted = big("3");
        shifted.shift_left(70);
        assert_eq!(shifted.digits(), (3u128 << 70).to_string());
        let mut zero = big("0");
        zero.shift_left(40);
        assert!(zero.is_zero());
    }

    #[test]
    fn division() {
        let check = |a: u128, b: u128| {
            let found = big(&a.to_string()).divide(&big(&b.to_string()));
            assert_eq!(found, (a / b, !a.is_multiple_of(b)), "{a} / {b}");
        };
        for (a, b) in [(0, 1), (1, 1), (6, 3), (7, 3), (3, 7), (u128::MAX, 1), (u128::MAX, 10)] {
            check(a, b);
        }
        check(10u128.pow(38), 10u128.pow(19));
        check(10u128.pow(38) - 1, 10u128.pow(19));
    }

    #[test]
    fn the_top_of_a_long_number() {
        let mut long = Big::from_u64(0b101);
        long.shift_left(200);
        assert_eq!(long.top(), (0b101 << 125, 75, false));
        assert_eq!(big("12").top(), (12, 0, false));
        let mut odd = long.clone();
        odd.multiply_add(1, 1);
        assert_eq!(odd.top(), (0b101 << 125, 75, true));
    }
}
