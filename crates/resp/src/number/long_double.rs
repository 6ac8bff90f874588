//! The 80-bit floating-point numbers of x87, with which Redis computes INCRBYFLOAT and
//! HINCRBYFLOAT.
//!
//! They are computed with integers here, so that a reply is the same on every machine as that of a
//! redis-server on x86-64: 64 bits of mantissa, rounded half to even after reading and after the
//! addition, and written with 17 decimals (C's `%.17Lf`) without trailing zeros.
//!
//! Invariant: the mantissa of a finite number is zero or has its highest bit set.

use super::big::Big;
use super::round::{parse_hex, parse_power, round};
use super::{is_infinity, sign};

const PRECISION: u32 = 64;
/// The exponent of the single bit of the smallest number.
const LEAST: i64 = -16445;
/// A number whose highest bit has this exponent is too large.
const TOO_LARGE: i64 = 16384;
/// Decimals that are written.
const DECIMALS: u32 = 17;
/// Longer texts are no numbers in Redis.
const MAX_TEXT: usize = 5 * 1024;

/// An 80-bit floating-point number, infinity included, NaN excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    magnitude: Magnitude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Magnitude {
    Finite { mantissa: u64, exponent: i64 },
    Infinite,
}

use Magnitude::{Finite, Infinite};

impl LongDouble {
    /// Reads a number like C's `strtold`, from the whole text: no white space, no NaN, nothing that
    /// is too large or rounds to zero.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= MAX_TEXT {
            return None;
        }
        let (negative, unsigned) = sign(text);
        if is_infinity(unsigned) {
            return Some(LongDouble { negative, magnitude: Infinite });
        }
        let (is_zero, (mantissa, exponent)) = match unsigned {
            [b'0', b'x' | b'X', digits @ ..] => {
                let (digits, exponent, inexact) = parse_hex(digits)?;
                (digits == 0, round(digits, exponent, inexact, PRECISION, LEAST))
            }
            _ => from_decimal(unsigned)?,
        };
        let number = LongDouble::finite(negative, mantissa, exponent);
        (is_zero || mantissa != 0 && number.is_finite()).then_some(number)
    }

    /// Returns false for infinity.
    pub fn is_finite(&self) -> bool {
        self.magnitude != Infinite
    }

    /// Returns the sum, or None if it is not a finite number.
    pub fn checked_add(self, other: LongDouble) -> Option<LongDouble> {
        let (Finite { mantissa: a, exponent: i }, Finite { mantissa: b, exponent: j }) =
            (self.magnitude, other.magnitude)
        else {
            return None;
        };
        if a == 0 || b != 0 && i < j {
            return if b == 0 { Some(self) } else { other.add_smaller(self) };
        }
        self.add_smaller(other)
    }

    /// Returns the sum with a number whose exponent is not above this one's, or which is zero.
    fn add_smaller(self, other: LongDouble) -> Option<LongDouble> {
        // Below the 64 bits of the larger number are 63 more of the smaller, and below them one bit
        // that says whether any were set.
        const SHIFT: u32 = 63;
        let (Finite { mantissa: large, exponent }, Finite { mantissa: small, exponent: below }) =
            (self.magnitude, other.magnitude)
        else {
            return None;
        };
        let distance = u32::try_from(exponent - below).unwrap_or(u32::MAX);
        let wide = u128::from(small) << SHIFT;
        let shifted = wide.checked_shr(distance).unwrap_or(0);
        let inexact = wide != 0 && wide.trailing_zeros() < distance;
        let large = u128::from(large) << SHIFT;
        let sum = if self.negative == other.negative {
            large + shifted
        } else if large >= shifted {
            large - shifted - u128::from(inexact)
        } else {
            // Only if the exponents are equal, so that nothing was shifted out.
            return other.add_smaller(self);
        };
        let (mantissa, exponent) =
            round(sum, exponent - i64::from(SHIFT), inexact, PRECISION, LEAST);
        Some(LongDouble::finite(self.negative, mantissa, exponent)).filter(LongDouble::is_finite)
    }

    /// Returns the number times a thousand, rounded up to an integer. None if it does not fit.
    pub fn ceil_thousandfold(&self) -> Option<i64> {
        let Finite { mantissa, exponent } = self.magnitude else { return None };
        let product = u128::from(mantissa) * 1000;
        let (mantissa, exponent) = round(product, exponent, false, PRECISION, LEAST);
        let whole = match u32::try_from(exponent) {
            Ok(up) if mantissa == 0 || up < u64::BITS => u128::from(mantissa) << up.min(u64::BITS),
            Ok(_) => return None,
            Err(_) => {
                let down = u32::try_from(-exponent).unwrap_or(u32::MAX);
                let floor = u128::from(mantissa).checked_shr(down).unwrap_or(0);
                let fraction = mantissa != 0 && mantissa.trailing_zeros() < down;
                floor + u128::from(fraction && !self.negative)
            }
        };
        let whole = i128::try_from(whole).ok()?;
        i64::try_from(if self.negative { -whole } else { whole }).ok()
    }

    /// Appends the number with up to 17 decimals and without a power of ten, as in INCRBYFLOAT's
    /// reply and stored value.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Finite { mantissa, exponent } = self.magnitude else {
            return out.extend_from_slice(if self.negative { b"-inf" } else { b"inf" });
        };
        let text = if exponent >= 0 {
            let mut whole = Big::from_u64(mantissa);
            whole.shift_left(exponent as u32);
            whole.digits()
        } else {
            with_decimals(mantissa, exponent)
        };
        if self.negative && text != "0" {
            out.push(b'-');
        }
        out.extend_from_slice(text.as_bytes());
    }

    fn finite(negative: bool, mantissa: u64, exponent: i64) -> LongDouble {
        let spare = mantissa.leading_zeros();
        let magnitude = if mantissa == 0 {
            return LongDouble { negative: false, magnitude: Finite { mantissa: 0, exponent: 0 } };
        } else if exponent + i64::from(u64::BITS - spare) > TOO_LARGE {
            Infinite
        } else {
            Finite { mantissa: mantissa << spare, exponent: exponent - i64::from(spare) }
        };
        LongDouble { negative, magnitude }
    }
}

impl From<i64> for LongDouble {
    fn from(value: i64) -> LongDouble {
        LongDouble::finite(value < 0, value.unsigned_abs(), 0)
    }
}

/// Reads decimal digits with or without a point and a power of ten. Returns the rounded number, and
/// whether all digits are zero.
fn from_decimal(unsigned: &[u8]) -> Option<(bool, (u64, i64))> {
    let at = unsigned.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (digits, power) = match at {
        Some(at) => (&unsigned[..at], parse_power(&unsigned[at + 1..])?),
        None => (unsigned, 0),
    };
    let point = digits.iter().position(|&byte| byte == b'.');
    let decimals = point.map_or(0, |point| digits.len() - point - 1);
    let well_formed = |(at, byte): (usize, &u8)| byte.is_ascii_digit() || Some(at) == point;
    if !digits.iter().enumerate().all(well_formed) || !digits.iter().any(u8::is_ascii_digit) {
        return None;
    }
    let significand = Big::from_digits(digits.iter().copied().filter(u8::is_ascii_digit));
    if significand.is_zero() {
        return Some((true, (0, 0)));
    }
    Some((false, scaled(significand, power - decimals as i64)))
}

/// Returns `significand * 10^power`, rounded.
fn scaled(mut significand: Big, power: i64) -> (u64, i64) {
    // Far beyond the format's range on either side, whatever the significand, which has at most
    // MAX_TEXT digits.
    if power > 5_000 {
        return (1, TOO_LARGE);
    }
    if power < -(5_000 + MAX_TEXT as i64) {
        return (0, 0);
    }
    if power >= 0 {
        significand.scale(power as u32);
        let (top, below, inexact) = significand.top();
        return round(top, i64::from(below), inexact, PRECISION, LEAST);
    }
    let mut divisor = Big::from_u64(1);
    divisor.scale(power.unsigned_abs() as u32);
    // A quotient of 66 or 67 bits: the mantissa, a bit for rounding, and one more.
    let wanted = i64::from(divisor.bits()) + 66 - i64::from(significand.bits());
    if wanted > 0 {
        significand.shift_left(wanted as u32);
    } else {
        divisor.shift_left(wanted.unsigned_abs() as u32);
    }
    let (quotient, inexact) = significand.divide(&divisor);
    round(quotient, -wanted, inexact, PRECISION, LEAST)
}

/// Returns `mantissa * 2^exponent` for a negative exponent, rounded to 17 decimals, without
/// trailing zeros.
fn with_decimals(mantissa: u64, exponent: i64) -> String {
    const UNIT: u128 = 10u128.pow(DECIMALS);
    let drop = u32::try_from(-exponent).unwrap_or(u32::MAX);
    // 64 + 57 bits.
    let scaled = u128::from(mantissa) * UNIT;
    let rounded = match drop {
        0 => scaled,
        1..128 => {
            let (half, kept) = (1u128 << (drop - 1), scaled >> drop);
            let rest = scaled & (half | (half - 1));
            kept + u128::from(rest > half || rest == half && kept & 1 == 1)
        }
        _ => 0,
    };
    let text = format!("{}.{:0width$}", rounded / UNIT, rounded % UNIT, width = DECIMALS as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::LongDouble;

    fn sum(a: &str, b: &str, expected: &str) {
        let read = |text: &str| LongDouble::parse(text.as_bytes()).expect("a number");
        let mut out = Vec::new();
        read(a).checked_add(read(b)).expect("finite").write(&mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected, "{a} + {b}");
    }

    #[test]
    fn checksums_are_those_of_redis() {
        sum("10.50", "0.1", "10.6");
        sum("5.0e3", "2.0e2", "5200");
        sum("3", "-1.2", "1.8");
        sum("0.1", "0.2", "0.3");
        sum("1e15", "0.1", "1000000000000000.0999755859375");
    }

    #[test]
    fn a_thousandfold_is_rounded_up() {
        let check = |text: &str, expected: Option<i64>| {
            let number = LongDouble::parse(text.as_bytes()).expect("a number");
            assert_eq!(number.ceil_thousandfold(), expected, "{text}");
        };
        check("0", Some(0));
        check("-0.0001", Some(0));
        check("0.0001", Some(1));
        check("1e-4000", Some(1));
        check("0.1", Some(100));
        check("2.5", Some(2500));
        check("-1", Some(-1000));
        check("9223372036854775", Some(9_223_372_036_854_775_000));
        check("9223372036854775.807", Some(i64::MAX));
        check("9223372036854775.808", None);
        check("1e400", None);
        check("-1e400", None);
        check("inf", None);
    }

    #[test]
    fn zero_has_no_sign() {
        sum("-0", "0", "0");
        sum("1.5", "-1.5", "0");
        sum("-1e-30", "0", "0");
        sum("0", "-1e-4950", "0");
    }

    #[test]
    fn large_numbers_are_written_in_full() {
        sum("1e22", "0", "10000000000000000000000");
        sum("18446744073709551615", "0", "18446744073709551615");
        sum("18446744073709551615", "1", "18446744073709551616");
        sum("18446744073709551616", "1", "18446744073709551616");
        sum("1e4000", "1", &{
            let mut out = Vec::new();
            LongDouble::parse(b"1e4000").expect("a number").write(&mut out);
            String::from_utf8(out).expect("digits")
        });
    }

    #[test]
    fn the_range_ends_where_c_ends_it() {
        let finite = |text: &str| LongDouble::parse(text.as_bytes()).is_some_and(|n| n.is_finite());
        assert!(finite("1.18973149535723176502e+4932"));
        assert!(finite("1e-4950"));
        for text in
            ["1.18973149535723176509e+4932", "1e4933", "1e-4960", "0x1p16384", "1e999999999999"]
        {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text}");
        }
        let infinity = LongDouble::parse(b"-inf").expect("infinity is a number");
        assert!(!infinity.is_finite());
        assert_eq!(infinity.checked_add(1.into()), None);
        let largest = LongDouble::parse(b"1e4932").expect("finite");
        assert!(largest.checked_add(largest).is_none());
    }

    #[test]
    fn no_number_is_refused() {
        for text in
            ["", "-", "+-1", ".", "e1", "1e", "1.2.3", " 1", "1 ", "nan", "0x", "1\0", "abc"]
        {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(LongDouble::parse(&[b'1'; 5120]), None);
        assert!(LongDouble::parse(&[b'0'; 5119]).is_some());
    }
}
