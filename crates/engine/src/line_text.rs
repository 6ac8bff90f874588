//! Clients' bytes in texts that consist of lines: INFO, CLIENT LIST, the log.
//!
//! A reader of such a text trusts its ends of lines and its separators. So bytes that a client
//! chose (the code of an error, a name, a message of a script) are never written there as they are,
//! but through one of these two functions.

use std::borrow::Cow;

/// Returns a text that stays on its line: control characters, ends of lines among them, and bytes
/// that are not UTF-8 are written as escapes.
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

/// Returns a name that stays in its field of a line: separators of fields, and characters that
/// would end the line, become `_`, as in Redis.
pub fn in_field(bytes: &[u8]) -> String {
    let is_separator = |letter: char| matches!(letter, '#' | ':' | ' ') || is_unsafe(letter);
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|letter| if is_separator(letter) { '_' } else { letter }).collect()
}

/// Returns true for control characters, and for those that some readers take for the end of a line.
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
