//! Words of a line and their quotes, by the rules of inline commands, `redis-cli` and redis.conf:
//! `"..."` with `\n \r \t \b \a \xHH` and `\` before any other byte, `'...'` with `\'` alone; a
//! closing quote ends the word and must be followed by white space or the end.
//!
//! For the request parser a word without quotes is a range of the line, and a word with quotes is
//! unescaped into a buffer that the parser keeps.
//!
//! One difference from Redis is deliberate: a NUL byte is an ordinary byte. Redis searches for the
//! end of the line in a C string, and so waits forever after a NUL.

/// Returns the words of a line; None if its quotes are not closed, or closed in the middle of a
/// word.
pub fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut unescaped, mut found) = (Vec::new(), Vec::new());
    split(line, &mut unescaped, |word| found.push(word)).ok()?;
    let cut = |word| match word {
        Word::Plain(start, end) => line[start..end].to_vec(),
        Word::Unescaped(start, end) => unescaped[start..end].to_vec(),
    };
    Some(found.into_iter().map(cut).collect())
}

/// Appends a word in double quotes, such that [`words`] returns it and any terminal can show it.
pub fn quoted(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b'"');
    for &byte in word {
        let letter = match byte {
            b'\\' | b'"' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x07 => b'a',
            0x08 => b'b',
            b' '..=b'~' => {
                out.push(byte);
                continue;
            }
            _ => {
                let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                out.extend([b'\\', b'x', digit(byte >> 4), digit(byte & 15)]);
                continue;
            }
        };
        out.extend([b'\\', letter]);
    }
    out.push(b'"');
}

/// A line whose quotes are not closed, or closed in the middle of a word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unbalanced;

/// The position of a word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Bytes `start..end` of the line.
    Plain(usize, usize),
    /// Bytes `start..end` of the buffer of unescaped words.
    Unescaped(usize, usize),
}

/// Calls `found` for every word of `line`, in order.
pub(crate) fn split(
    line: &[u8],
    unescaped: &mut Vec<u8>,
    mut found: impl FnMut(Word),
) -> Result<(), Unbalanced> {
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|&b| is_space(b)) {
            at += 1;
        }
        if at == line.len() {
            return Ok(());
        }
        let (word, end) = word(line, at, unescaped)?;
        found(word);
        at = end;
    }
}

fn word(line: &[u8], start: usize, unescaped: &mut Vec<u8>) -> Result<(Word, usize), Unbalanced> {
    let mut at = start;
    while let Some(&byte) = line.get(at) {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => break,
            b'"' | b'\'' => {
                let first = unescaped.len();
                unescaped.extend_from_slice(&line[start..at]);
                let end = match byte {
                    b'"' => double_quoted(line, at + 1, unescaped)?,
                    _ => single_quoted(line, at + 1, unescaped)?,
                };
                if line.get(end).is_some_and(|&b| !is_space(b)) {
                    return Err(Unbalanced);
                }
                return Ok((Word::Unescaped(first, unescaped.len()), end));
            }
            _ => at += 1,
        }
    }
    Ok((Word::Plain(start, at), at))
}

/// Unescapes up to the closing quote. Returns the position after it.
fn double_quoted(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Result<usize, Unbalanced> {
    loop {
        match line.get(at..).ok_or(Unbalanced)? {
            [] => return Err(Unbalanced),
            [b'"', ..] => return Ok(at + 1),
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(hex(*high) << 4 | hex(*low));
                at += 4;
            }
            [b'\\', escaped, ..] => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                at += 2;
            }
            [plain, ..] => {
                out.push(*plain);
                at += 1;
            }
        }
    }
}

/// Unescapes up to the closing quote. Returns the position after it.
fn single_quoted(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Result<usize, Unbalanced> {
    loop {
        match line.get(at..).ok_or(Unbalanced)? {
            [] => return Err(Unbalanced),
            [b'\\', b'\'', ..] => {
                out.push(b'\'');
                at += 2;
            }
            [b'\'', ..] => return Ok(at + 1),
            [plain, ..] => {
                out.push(*plain);
                at += 1;
            }
        }
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

/// Returns true for white space of C's `isspace`, which includes two bytes more than end a word.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

#[cfg(test)]
mod tests {
    use super::{quoted, words};

    fn check(line: &[u8], expected: &[&[u8]]) {
        assert_eq!(words(line).expect("balanced"), expected, "{}", line.escape_ascii());
    }

    fn refused(line: &[u8]) {
        assert_eq!(words(line), None, "{}", line.escape_ascii());
    }

    #[test]
    fn words_are_separated_by_any_white_space() {
        check(b"", &[]);
        check(b" \t\x0b\x0c\r ", &[]);
        check(b"  set  a\tb ", &[b"set", b"a", b"b"]);
        check(b"a\x0bb", &[b"a\x0bb"]);
    }

    #[test]
    fn double_quotes_know_escapes() {
        check(b"\"a b\" c", &[b"a b", b"c"]);
        check(br#""\x00\xfF\n\r\t\b\a\\\"\q""#, &[b"\x00\xff\n\r\t\x08\x07\\\"q"]);
        check(br#""\xg0" "\x0""#, &[b"xg0", b"x0"]);
        check(b"\"\"", &[b""]);
        check(b"ab\"c d\"", &[b"abc d"]);
    }

    #[test]
    fn single_quotes_know_one_escape() {
        check(br"'a\n\'b'", &[br"a\n'b"]);
        check(b"''", &[b""]);
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in [&b"\"a"[..], b"'a", b"\"a\"b", b"'a'b", b"\"a\\", b"\"\\x0", b"\"", b"a\""] {
            refused(line);
        }
    }

    #[test]
    fn a_nul_is_an_ordinary_byte() {
        check(b"a\0b \"c\0\"", &[b"a\0b", b"c\0"]);
    }

    #[test]
    fn a_quoted_word_comes_back() {
        let every: Vec<u8> = (0..=255).collect();
        let mut out = Vec::new();
        quoted(&mut out, &every);
        check(&out, &[&every]);
        let mut out = Vec::new();
        quoted(&mut out, b"a \"\\\n\x00\xff");
        assert_eq!(out, br#""a \"\\\n\x00\xff""#);
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line: Vec<u8>) {
            let _ = words(&line);
        }

        #[test]
        fn any_quoted_word_comes_back(word: Vec<u8>) {
            let mut line = Vec::new();
            quoted(&mut line, &word);
            check(&line, &[&word]);
        }
    }
}
