//! Which strings Redis takes for numbers, and how it writes them.

/// Reads a 64-bit integer as strictly as Redis: no sign but `-`, no white space, no leading zero, no `-0`. What
/// this accepts can be had back from the number byte for byte.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits, [b'1'..=b'9', ..]) || digits.len() > 19 {
        return None;
    }
    let mut value = 0u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // 19 digits fit in 64 bits.
        value = value * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// Reads a double as C's `strtod` does, all of the text: no white space, no NaN, nothing that is too large or rounds
/// to zero.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().filter(|value: &f64| !value.is_nan())
}

/// Writes a double as C's `%.17g` does.
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(value.to_string().as_bytes());
}
