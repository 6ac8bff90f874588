//! A request with places for what changes, written onto the wire.
//!
//! `HSET __key__ field __data__` is taken apart once. What does not change is kept as it goes onto
//! the wire, so that a request costs little more than copying it.

/// A piece of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Words that do not change, encoded.
    Fixed(Vec<u8>),
    /// A word with a key in it.
    Key { before: Vec<u8>, after: Vec<u8> },
    /// A value.
    Data,
    /// Several keys, as many as the request is told.
    Keys,
}

/// A request with places for keys and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    /// The command's name, upper case.
    pub(crate) name: String,
    /// How many words there are, without those of `Piece::Keys`.
    pub(crate) words: usize,
    pub(crate) pieces: Vec<Piece>,
}

const KEY: &str = "__key__";
const DATA: &str = "__data__";

impl Template {
    /// Parses text such as `SET __key__ "two words"`.
    pub(crate) fn parse(text: &str) -> Result<Template, String> {
        let words = split(text)?;
        Template::from_words(&words)
    }

    fn from_words(words: &[Vec<u8>]) -> Result<Template, String> {
        let name = words.first().filter(|name| !name.is_empty());
        let name = name.ok_or("the command is empty")?;
        let name = String::from_utf8_lossy(name).to_uppercase();
        let mut pieces = Vec::new();
        for word in words {
            if word == DATA.as_bytes() {
                pieces.push(Piece::Data);
            } else if let Some(at) = find(word, KEY.as_bytes()) {
                let (before, rest) = word.split_at(at);
                let after = &rest[KEY.len()..];
                if find(after, KEY.as_bytes()).is_some() {
                    return Err(format!("a word may contain {KEY} once"));
                }
                pieces.push(Piece::Key { before: before.to_vec(), after: after.to_vec() });
            } else if find(word, DATA.as_bytes()).is_some() {
                return Err(format!("{DATA} must be a word of its own"));
            } else {
                fix(&mut pieces, word);
            }
        }
        Ok(Template { name, words: words.len(), pieces })
    }

    /// Returns the same request with several keys at its end.
    pub(crate) fn with_keys(mut self) -> Template {
        self.pieces.push(Piece::Keys);
        self
    }

    /// Returns true if a value is sent.
    pub(crate) fn sends_data(&self) -> bool {
        self.pieces.contains(&Piece::Data)
    }
}

/// Adds a word that does not change.
fn fix(pieces: &mut Vec<Piece>, word: &[u8]) {
    if !matches!(pieces.last(), Some(Piece::Fixed(_))) {
        pieces.push(Piece::Fixed(Vec::new()));
    }
    if let Some(Piece::Fixed(bytes)) = pieces.last_mut() {
        write_word(bytes, word);
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// Appends the head of an array or a string: its sign and its length.
pub(crate) fn write_head(out: &mut Vec<u8>, sign: u8, length: usize) {
    out.push(sign);
    out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends a word.
pub(crate) fn write_word(out: &mut Vec<u8>, word: &[u8]) {
    write_head(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Appends a word that consists of several parts.
pub(crate) fn write_parts(out: &mut Vec<u8>, parts: [&[u8]; 4]) {
    write_head(out, b'$', parts.iter().map(|part| part.len()).sum());
    for part in parts {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a whole request of given words.
pub(crate) fn write_request(out: &mut Vec<u8>, words: &[&str]) {
    write_head(out, b'*', words.len());
    for word in words {
        write_word(out, word.as_bytes());
    }
}

/// Returns the words of a text. Single quotes keep everything; double quotes know `\n`, `\r`, `\t`,
/// `\xHH` and a backslash before any other character.
fn split(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut rest = text.bytes().peekable();
    loop {
        while rest.next_if(u8::is_ascii_whitespace).is_some() {}
        if rest.peek().is_none() {
            return Ok(words);
        }
        let mut word = Vec::new();
        while let Some(byte) = rest.next_if(|byte| !byte.is_ascii_whitespace()) {
            match byte {
                b'\'' => loop {
                    match rest.next().ok_or("a quote is not closed")? {
                        b'\'' => break,
                        byte => word.push(byte),
                    }
                },
                b'"' => loop {
                    match rest.next().ok_or("a quote is not closed")? {
                        b'"' => break,
                        b'\\' => word.push(escaped(&mut rest)?),
                        byte => word.push(byte),
                    }
                },
                byte => word.push(byte),
            }
        }
        words.push(word);
    }
}

/// Returns the byte that a backslash represents.
fn escaped(rest: &mut impl Iterator<Item = u8>) -> Result<u8, String> {
    match rest.next().ok_or("a quote is not closed")? {
        b'n' => Ok(b'\n'),
        b'r' => Ok(b'\r'),
        b't' => Ok(b'\t'),
        b'x' => {
            let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
            let byte = digit().and_then(|high| digit().map(|low| high * 16 + low));
            byte.map(|byte| byte as u8).ok_or("\\x wants two hexadecimal digits".into())
        }
        byte => Ok(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, words: &[&str]) {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        assert_eq!(split(text), Ok(words), "{text}");
    }

    #[test]
    fn words_are_separated_by_spaces_outside_of_quotes() {
        check("", &[]);
        check("  a  b ", &["a", "b"]);
        check(
            r#"set k "two words" 'and three "more"'"#,
            &["set", "k", "two words", "and three \"more\""],
        );
        check(r#"a"b c"d"#, &["ab cd"]);
        check(r#""\x41\n\"\\" '' "#, &["A\n\"\\", ""]);
        for open in ["'a", "\"a", "\"a\\", "\"\\xg0\""] {
            assert!(split(open).is_err(), "{open}");
        }
    }

    #[test]
    fn what_does_not_change_is_encoded_once() {
        let template = Template::parse("hset {__key__}:h field __data__ EX 1").expect("a command");
        assert_eq!((template.name.as_str(), template.words), ("HSET", 6));
        let expected = [
            Piece::Fixed(b"$4\r\nhset\r\n".into()),
            Piece::Key { before: b"{".into(), after: b"}:h".into() },
            Piece::Fixed(b"$5\r\nfield\r\n".into()),
            Piece::Data,
            Piece::Fixed(b"$2\r\nEX\r\n$1\r\n1\r\n".into()),
        ];
        assert_eq!(template.pieces, expected);
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for text in ["", "'' a", "get __key____key__", "set k a__data__", "set 'k"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }
}
