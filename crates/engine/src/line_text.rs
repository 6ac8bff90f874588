//! Bytes of clients in texts that consist of lines: INFO, CLIENT LIST, the log.
//!
//! Whoever reads such a text takes an end of line for one, and what follows a separator for a
//! value. So what a client chose (the code of an error, a name, a message of a script) never gets
//! there as it is, but through one of these two functions.

use std::borrow::Cow;

/// Returns a text that stays in its line: control characters, ends of lines among them, and bytes
/// that are no UTF-8 are written as escapes.
pub fn in_line(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(bytes)
        && !text.contains(is_unsafe)
    {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                letter if is_unsafe(letter) => safe.extend(letter.escape_default()),
                letter => safe.push(letter),
            }
        }
        for byte in chunk.invalid() {
            safe.extend(format!("\\x{byte:02x}").chars());
        }
    }
    Cow::Owned(safe)
}

/// Returns a name that stays in its field of a line: what separates fields, and what does not stay
/// in a line, is `_`, as in Redis.
pub fn in_field(bytes: &[u8]) -> String {
    let is_separator = |letter: char| matches!(letter, '#' | ':' | ' ') || is_unsafe(letter);
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|letter| if is_separator(letter) { '_' } else { letter }).collect()
}

/// Returns true for control characters, and for what some readers take for the end of a line.
fn is_unsafe(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_line_or_its_field() {
        assert_eq!(in_line(b"plain text: \xc3\xa9"), "plain text: \u{e9}");
        assert_eq!(in_line(b"a\r\nb\tc\x00\x1b[1m"), "a\\r\\nb\\tc\\u{0}\\u{1b}[1m");
        assert_eq!(in_line(b"\xff\xc3"), "\\xff\\xc3");
        assert_eq!(in_line("\u{2028}\u{85}".as_bytes()), "\\u{2028}\\u{85}");
        assert_eq!(in_field(b"MY\r\nused_memory:1 #x"), "MY__used_memory_1__x");
        assert_eq!(in_field(b"WRONGTYPE"), "WRONGTYPE");
        assert_eq!(in_field(b"a\xff"), "a\u{fffd}");
    }
}
