//! The strings that are numbers in Redis, and its format of numbers: 64-bit integers, doubles, and
//! the x87 extended precision ([`LongDouble`]) of INCRBYFLOAT and HINCRBYFLOAT.

mod big;
mod float;
mod long_double;
mod round;

pub use float::{parse_f64, parse_f64_loosely, write_f64};
pub use long_double::LongDouble;

/// Reads a 64-bit integer as strictly as Redis: no sign but `-`, no white space, no leading zero,
/// no `-0`. The number has exactly this text.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    // 19 digits fit in 64 bits without a sign, and no i64 has more.
    if !matches!(digits, [b'1'..=b'9', ..]) || digits.len() > 19 {
        return None;
    }
    let mut value = 0u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// Removes a sign. Returns whether it was a minus, and the rest.
fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    }
}

fn is_infinity(unsigned: &[u8]) -> bool {
    unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity")
}

/// Returns a number of bytes with an optional unit (`k`, `kb`, `m`, `mb`, `g`, `gb`, `b`), limited
/// to 64 bits.
pub fn parse_memory(word: &[u8]) -> Option<u64> {
    let end = word.iter().position(|b| !b.is_ascii_digit()).unwrap_or(word.len());
    let (digits, unit) = word.split_at(end);
    let factor: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    if digits.is_empty() {
        return None;
    }
    let shift =
        |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, shift).saturating_mul(factor))
}

#[cfg(test)]
mod tests {
    use super::parse_i64;

    fn check(text: &str, expected: Option<i64>) {
        assert_eq!(parse_i64(text.as_bytes()), expected, "{text:?}");
    }

    #[test]
    fn integers_are_read_to_their_limits() {
        check("0", Some(0));
        check("7", Some(7));
        check("-7", Some(-7));
        check("9223372036854775807", Some(i64::MAX));
        check("-9223372036854775808", Some(i64::MIN));
        check("9223372036854775808", None);
        check("-9223372036854775809", None);
        check("18446744073709551616", None);
        check("99999999999999999999999", None);
    }

    #[test]
    fn anything_not_written_as_redis_would_is_refused() {
        for text in ["", "-", "+1", "-0", "00", "01", "-01", " 1", "1 ", "1.0", "1e3", "0x1", "1\0"]
        {
            check(text, None);
        }
    }

    #[test]
    fn what_is_read_is_written_the_same() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN, 1 << 40] {
            check(&value.to_string(), Some(value));
        }
    }
}
