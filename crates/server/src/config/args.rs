//! Splitting and quoting one configuration line.
//!
//! Redis reads configuration lines, inline commands and `CONFIG SET` words with one rule: words
//! are separated by blanks, `"…"` knows escapes (`\n`, `\xff`, …), `'…'` knows only `\'`, and a
//! closing quote must be followed by a blank. Directives are bytes, not text: a password may hold
//! anything. The functions here are pure, and `quote` is the inverse that `split` reads back.

/// Splits `line` into words; `None` if a quote is not balanced.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while at < line.len() && line[at].is_ascii_whitespace() {
            at += 1;
        }
        if at >= line.len() {
            return Some(words);
        }
        let (word, next) = word(line, at)?;
        words.push(word);
        at = next;
    }
}

fn word(line: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut word = Vec::new();
    while let Some(&byte) = line.get(at) {
        match byte {
            b'"' => {
                at = double_quoted(line, at + 1, &mut word)?;
                return ends_here(line, at).then_some((word, at));
            }
            b'\'' => {
                at = single_quoted(line, at + 1, &mut word)?;
                return ends_here(line, at).then_some((word, at));
            }
            b if b.is_ascii_whitespace() || b == 0 => break,
            b => word.push(b),
        }
        at += 1;
    }
    Some((word, at.max(1)))
}

fn ends_here(line: &[u8], at: usize) -> bool {
    line.get(at).is_none_or(u8::is_ascii_whitespace)
}

fn double_quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => {
                let next = *line.get(at + 1)?;
                if let Some(byte) = hex_escape(&line[at..]) {
                    word.push(byte);
                    at += 4;
                    continue;
                }
                word.push(match next {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => other,
                });
                at += 2;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

fn hex_escape(rest: &[u8]) -> Option<u8> {
    let digits = rest.get(1).filter(|b| **b == b'x').and_then(|_| rest.get(2..4))?;
    let digits = std::str::from_utf8(digits).ok()?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u8::from_str_radix(digits, 16).ok())?
}

fn single_quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(at)? {
            b'\'' => return Some(at + 1),
            b'\\' if line.get(at + 1) == Some(&b'\'') => {
                word.push(b'\'');
                at += 2;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

/// `word` in double quotes, every byte that is not printable escaped.
pub fn quote(word: &[u8]) -> String {
    let mut out = String::with_capacity(word.len() + 2);
    out.push('"');
    for &byte in word {
        match byte {
            b'\\' | b'"' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            7 => out.push_str("\\a"),
            8 => out.push_str("\\b"),
            0x20..=0x7e => out.push(char::from(byte)),
            other => out.push_str(&format!("\\x{other:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: &[&str]) {
        let words = split(line.as_bytes()).expect("balanced");
        let words: Vec<String> =
            words.iter().map(|w| String::from_utf8_lossy(w).into_owned()).collect();
        assert_eq!(words, expect, "{line}");
    }

    #[test]
    fn words_are_split_as_redis_does() {
        check("", &[]);
        check("   ", &[]);
        check("port 6379", &["port", "6379"]);
        check("  save   900 1 ", &["save", "900", "1"]);
        check("requirepass \"a b\"", &["requirepass", "a b"]);
        check("x \"\"", &["x", ""]);
        check(r#"x "a\nb\x41\"""#, &["x", "a\nbA\""]);
        check(r"x 'it\'s \n'", &["x", r"it's \n"]);
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in ["x \"a", "x 'a", "x \"a\"b", "x 'a'b", "x \"a\\"] {
            assert!(split(line.as_bytes()).is_none(), "{line}");
        }
    }

    #[test]
    fn quoting_is_undone_by_splitting() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(split(quote(&all).as_bytes()), Some(vec![all]));
    }
}
