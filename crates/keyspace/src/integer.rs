//! Integers as Redis prints them: a string that spells one is stored as an integer.

/// The number of digits of the greatest integer. No number of as many digits exceeds 64 bits.
const MAX_DIGITS: usize = 19;

/// Returns the integer that `bytes` spell exactly as Redis would print it.
pub(crate) fn canonical_int(bytes: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        b"0" => return (!is_negative).then_some(0),
        [b'1'..=b'9', ..] if digits.len() <= MAX_DIGITS => {}
        _ => return None,
    }
    let mut value = 0u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    if is_negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<i64>) {
        assert_eq!(canonical_int(text.as_bytes()), expect, "{text:?}");
    }

    #[test]
    fn only_the_canonical_spelling_of_an_integer_is_one() {
        check("0", Some(0));
        check("-1", Some(-1));
        check("9223372036854775807", Some(i64::MAX));
        check("-9223372036854775808", Some(i64::MIN));
        for text in ["", "-", "-0", "00", "01", "+1", " 1", "1 ", "1e3", "9223372036854775808"] {
            check(text, None);
        }
    }
}
