//! The words of a manifest's line: split at blanks, with Redis's two kinds of quotes.
//!
//! Only what `sdssplitargs` and `sdscatrepr` of Redis do; the manifest is the one text file here.

/// Splits a line into its words; `None` where quotes do not match.
pub(crate) fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let (word, after) = first(rest)?;
        words.push(word);
        rest = after.trim_ascii_start();
    }
    Some(words)
}

fn first(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => return closed(double_quoted(&mut word, rest)?, word),
            b'\'' => return closed(single_quoted(&mut word, rest)?, word),
            byte if byte.is_ascii_whitespace() => break,
            byte => word.push(byte),
        }
    }
    Some((word, rest))
}

/// A closing quote must be followed by a blank or nothing.
fn closed(rest: &[u8], word: Vec<u8>) -> Option<(Vec<u8>, &[u8])> {
    rest.first().is_none_or(u8::is_ascii_whitespace).then_some((word, rest))
}

fn single_quoted<'a>(word: &mut Vec<u8>, mut rest: &'a [u8]) -> Option<&'a [u8]> {
    loop {
        match rest {
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                rest = after;
            }
            [b'\'', after @ ..] => return Some(after),
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

fn double_quoted<'a>(word: &mut Vec<u8>, mut rest: &'a [u8]) -> Option<&'a [u8]> {
    loop {
        match rest {
            [b'\\', b'x', high, low, after @ ..] if hex(*high).is_some() && hex(*low).is_some() => {
                word.push(hex(*high)? * 16 + hex(*low)?);
                rest = after;
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = after;
            }
            [b'"', after @ ..] => return Some(after),
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}

/// Appends a word, in quotes where it would not be read back without.
pub(crate) fn quote(out: &mut Vec<u8>, word: &[u8]) {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'"' | b'\'');
    if !word.is_empty() && word.iter().all(plain) {
        out.extend_from_slice(word);
        return;
    }
    out.push(b'"');
    for &byte in word {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            7 => out.extend_from_slice(b"\\a"),
            8 => out.extend_from_slice(b"\\b"),
            byte if byte.is_ascii_graphic() || byte == b' ' => out.push(byte),
            byte => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, words: &[&str]) {
        let found = split(line.as_bytes()).expect("the quotes match");
        let found: Vec<_> = found.iter().map(|word| String::from_utf8_lossy(word)).collect();
        assert_eq!(found, words, "{line}");
    }

    #[test]
    fn words_are_split_as_in_redis() {
        check("file a.aof seq 1 type b", &["file", "a.aof", "seq", "1", "type", "b"]);
        check(r#"  file "a b.aof"  seq 1"#, &["file", "a b.aof", "seq", "1"]);
        check(r#""\x41\n\"" 'it\'s \n'"#, &["A\n\"", r"it's \n"]);
        check("", &[]);
        for broken in [r#""a"#, "'a", r#""a"b"#, "'a'b"] {
            assert_eq!(split(broken.as_bytes()), None, "{broken}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_quoted_word_is_read_back(word: Vec<u8>) {
            let mut line = Vec::new();
            quote(&mut line, &word);
            assert_eq!(split(&line), Some(vec![word]));
        }

        #[test]
        fn no_line_panics(line: Vec<u8>) {
            let _ = split(&line);
        }
    }
}
