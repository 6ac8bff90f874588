//! A request with placeholders, encoded in advance.
//!
//! A command such as `HSET __key__ field __data__` is parsed once. The constant parts are kept in
//! their encoded form, so that a request costs little more than copying them.

/// A piece of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Constant words, encoded.
    Fixed(Vec<u8>),
    /// A word that contains a key.
    Key { before: Vec<u8>, after: Vec<u8> },
    /// A value.
    Data,
    /// Several keys; their number is chosen for each request.
    Keys,
}

/// A request with placeholders for keys and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    /// The name of the command in upper case.
    pub(crate) name: String,
    /// The number of words, without those of `Piece::Keys`.
    pub(crate) words: usize,
    pub(crate) pieces: Vec<Piece>,
}

const KEY: &str = "__key__";
const DATA: &str = "__data__";

impl Template {
    /// Parses a text such as `SET __key__ __data__`, in which spaces separate the words.
    pub(crate) fn parse(text: &str) -> Result<Template, String> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let name = words.first().ok_or("the command is empty")?.to_uppercase();
        let mut pieces = Vec::new();
        for word in &words {
            match word.split_once(KEY) {
                _ if *word == DATA => pieces.push(Piece::Data),
                _ if word.contains(DATA) => {
                    return Err(format!("{DATA} must be a word of its own"));
                }
                Some((_, after)) if after.contains(KEY) => {
                    return Err(format!("a word may contain {KEY} once"));
                }
                Some((before, after)) => {
                    pieces.push(Piece::Key { before: before.into(), after: after.into() });
                }
                None => fix(&mut pieces, word.as_bytes()),
            }
        }
        Ok(Template { name, words: words.len(), pieces })
    }

    /// Returns the same request followed by several keys.
    pub(crate) fn with_keys(mut self) -> Template {
        self.pieces.push(Piece::Keys);
        self
    }

    /// Returns true if the request sends a value.
    pub(crate) fn sends_data(&self) -> bool {
        self.pieces.contains(&Piece::Data)
    }
}

/// Adds a constant word.
fn fix(pieces: &mut Vec<Piece>, word: &[u8]) {
    if !matches!(pieces.last(), Some(Piece::Fixed(_))) {
        pieces.push(Piece::Fixed(Vec::new()));
    }
    if let Some(Piece::Fixed(bytes)) = pieces.last_mut() {
        write_word(bytes, word);
    }
}

/// Appends the header of an array or a string: its type byte and its length.
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

/// Appends a word made of several parts.
pub(crate) fn write_parts(out: &mut Vec<u8>, parts: [&[u8]; 4]) {
    write_head(out, b'$', parts.iter().map(|part| part.len()).sum());
    for part in parts {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for text in ["", "get __key____key__", "set k a__data__"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }
}
