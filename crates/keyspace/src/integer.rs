//! Integers as Redis prints them: a string that spells one is stored as an integer.

/// Returns the integer that `bytes` spell exactly as Redis would print it.
pub(crate) fn canonical_int(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    match digits {
        b"0" => return (bytes.len() == 1).then_some(0),
        [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => {}
        _ => return None,
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
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
