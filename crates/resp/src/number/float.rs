//! Doubles: read like C's `strtod`, written like `%.17g`.

use std::io::Write;

use super::round::{parse_hex, round};
use super::{is_infinity, sign};

const PRECISION: u32 = f64::MANTISSA_DIGITS;
/// The exponent of the single bit of the smallest double.
const LEAST: i64 = -1074;
/// The power of ten from which on `%.17g` uses an exponent.
const SIGNIFICANT: i32 = 17;

/// Reads a double from the whole text: no white space, no NaN, nothing that is too large for a
/// double or rounds to zero.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let (negative, unsigned) = sign(text);
    let magnitude = match unsigned {
        [b'0', b'x' | b'X', digits @ ..] => from_hex(digits)?,
        _ if is_infinity(unsigned) => f64::INFINITY,
        [b'0'..=b'9' | b'.', ..] => from_decimal(unsigned)?,
        _ => return None,
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// Reads a double like SORT, which leaves everything to C's `strtod`: leading white space and
/// anything after a zero byte are ignored, and an empty text is 0. No NaN, nothing that is too
/// large for a double, or so small that digits are lost.
pub fn parse_f64_loosely(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let spaces = text.iter().take_while(|byte| is_space(byte)).count();
    parse_f64(&text[spaces..]).filter(|value| !value.is_subnormal())
}

fn from_decimal(unsigned: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(unsigned).ok()?.parse().ok()?;
    let is_zero = || {
        let digits = unsigned.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
        digits.into_iter().all(|byte| matches!(byte, b'0' | b'.'))
    };
    (value.is_finite() && (value != 0.0 || is_zero())).then_some(value)
}

fn from_hex(digits: &[u8]) -> Option<f64> {
    let (digits, exponent, inexact) = parse_hex(digits)?;
    let (mantissa, exponent) = round(digits, exponent, inexact, PRECISION, LEAST);
    let top = exponent + i64::from(u64::BITS - mantissa.leading_zeros());
    if digits == 0 {
        return Some(0.0);
    }
    if mantissa == 0 || top > i64::from(f64::MAX_EXP) {
        return None;
    }
    // In two exact steps, since the power alone may be below the smallest double.
    let half = (exponent / 2) as i32;
    Some(mantissa as f64 * 2f64.powi(half) * 2f64.powi(exponent as i32 - half))
}

/// Writes a double with 17 significant digits, like C's `%.17g`; infinities as `inf` and `-inf`.
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    if !value.is_finite() {
        let text: &[u8] = match (value.is_nan(), value.is_sign_negative()) {
            (true, false) => b"nan",
            (true, true) => b"-nan",
            (false, false) => b"inf",
            (false, true) => b"-inf",
        };
        return out.extend_from_slice(text);
    }
    let whole = value as i64;
    if whole as f64 == value
        && whole.unsigned_abs() < 1 << PRECISION
        && value.to_bits() != NEGATIVE_ZERO
    {
        return out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
    }
    write_digits(out, value);
}

const NEGATIVE_ZERO: u64 = 1 << 63;

fn write_digits(out: &mut Vec<u8>, value: f64) {
    let mut text = [0u8; 32];
    let mut rest = &mut text[..];
    // Longest: -d.dddddddddddddddde-308
    write!(rest, "{:.*e}", SIGNIFICANT as usize - 1, value.abs()).expect("24 bytes fit");
    let unused = rest.len();
    let text = &text[..32 - unused];
    let at = text.iter().rposition(|&byte| byte == b'e').unwrap_or(text.len());
    let power = std::str::from_utf8(&text[at + 1..]).ok().and_then(|p| p.parse().ok()).unwrap_or(0);
    let mut digits = [0u8; SIGNIFICANT as usize];
    digits[0] = text[0];
    digits[1..].copy_from_slice(&text[2..at]);
    let last = digits.iter().rposition(|&digit| digit != b'0').unwrap_or(0);
    let digits = &digits[..=last];

    if value.is_sign_negative() {
        out.push(b'-');
    }
    if (-4..SIGNIFICANT).contains(&power) {
        write_plain(out, digits, power);
    } else {
        write_power(out, digits, power);
    }
}

/// Writes `d.ddd` times ten to the `power`, with the point in its place.
fn write_plain(out: &mut Vec<u8>, digits: &[u8], power: i32) {
    if power < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-power - 1) as usize));
        return out.extend_from_slice(digits);
    }
    let whole = power as usize + 1;
    out.extend_from_slice(&digits[..whole.min(digits.len())]);
    if whole < digits.len() {
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    } else {
        out.extend(std::iter::repeat_n(b'0', whole - digits.len()));
    }
}

/// Writes `d.ddde+XX`.
fn write_power(out: &mut Vec<u8>, digits: &[u8], power: i32) {
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    out.extend_from_slice(if power < 0 { b"e-" } else { b"e+" });
    if power.abs() < 10 {
        out.push(b'0');
    }
    out.extend_from_slice(itoa::Buffer::new().format(power.unsigned_abs()).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::{parse_f64, parse_f64_loosely, write_f64};

    fn read(text: &str, expected: Option<f64>) {
        let bits = |value: Option<f64>| value.map(f64::to_bits);
        assert_eq!(bits(parse_f64(text.as_bytes())), bits(expected), "{text:?}");
    }

    fn written(value: f64, expected: &str) {
        let mut out = Vec::new();
        write_f64(&mut out, value);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn doubles_are_read_as_c_reads_them() {
        read("2.75", Some(2.75));
        read("+1", Some(1.0));
        read("-.5e1", Some(-5.0));
        read("5.", Some(5.0));
        read("1E+2", Some(100.0));
        read("-0", Some(-0.0));
        read("0e999999999999", Some(0.0));
        read("inf", Some(f64::INFINITY));
        read("-Infinity", Some(f64::NEG_INFINITY));
        read("4.9e-324", Some(f64::from_bits(1)));
        for text in
            ["", "-", ".", "e5", "1e", "1e+", " 1", "1 ", "nan", "1_0", "infin", "1.2.3", "1\0"]
        {
            read(text, None);
        }
    }

    #[test]
    fn what_sort_takes_for_a_number_is_what_strtod_leaves_nothing_of() {
        let read = |text: &[u8], expected: Option<f64>| {
            assert_eq!(parse_f64_loosely(text), expected, "{}", text.escape_ascii());
        };
        read(b"", Some(0.0));
        read(b" \t\n\x0b\x0c\r-2.5", Some(-2.5));
        read(b"7\0 and more", Some(7.0));
        read(b"\0junk", Some(0.0));
        read(b"0x1p4", Some(16.0));
        read(b"-inf", Some(f64::NEG_INFINITY));
        for text in ["7 ", " ", "abc", "nan", "1e309", "1e-310", "- 1"] {
            read(text.as_bytes(), None);
        }
    }

    #[test]
    fn out_of_range_is_refused() {
        read("1e309", None);
        read("-1e99999999999999999999", None);
        read("1e-400", None);
        read("0x1p1024", None);
        read("0x1p-1076", None);
    }

    #[test]
    fn hexadecimal_doubles_are_read() {
        read("0x1.8p3", Some(12.0));
        read("-0XfF", Some(-255.0));
        read("0x.8", Some(0.5));
        read("0x1p-1074", Some(f64::from_bits(1)));
        read("0x1.fffffffffffffp1023", Some(f64::MAX));
        read("0x0", Some(0.0));
        read("0x1.00000000000008p0", Some(1.0));
        read("0x1.000000000000080000000000000000000000001p0", Some(1.0 + f64::EPSILON));
        for text in ["0x", "0x.", "0xg", "0x1p", "0x1p1.5", "x1"] {
            read(text, None);
        }
    }

    #[test]
    fn doubles_are_written_with_17_digits() {
        written(f64::NAN, "nan");
        written(-f64::NAN, "-nan");
        written(0.0, "0");
        written(-0.0, "-0");
        written(3.0, "3");
        written(-1234567.0, "-1234567");
        written(0.1, "0.10000000000000001");
        written(1.5, "1.5");
        written(100.25, "100.25");
        written(9_007_199_254_740_992.0, "9007199254740992");
        written(1e16, "10000000000000000");
        written(1e17, "1e+17");
        written(1.5e300, "1.5000000000000001e+300");
        written(0.0001, "0.0001");
        written(0.00001, "1.0000000000000001e-05");
        written(5e-324, "4.9406564584124654e-324");
        written(f64::MAX, "1.7976931348623157e+308");
        written(1_234_567_890_123.0 + 0.03125, "1234567890123.0312");
        written(f64::INFINITY, "inf");
        written(f64::NEG_INFINITY, "-inf");
    }
}
