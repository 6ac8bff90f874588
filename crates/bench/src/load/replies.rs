//! Finds the ends of replies, whatever pieces they arrive in, and classifies them as far as a load
//! generator needs: errors, nulls, values.
//!
//! Elements are counted and skipped, and none of them is kept: a long reply has millions, and the
//! generator shares the machine with the server. The parser is not recursive, so invalid replies
//! cannot overflow the stack.

use std::mem;

/// A complete RESP2 reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The text of an error reply.
    pub(crate) error: Option<String>,
    /// The number of values: one, or all those in an array and its nested arrays.
    pub(crate) values: u64,
    /// How many of the values are null.
    pub(crate) nulls: u64,
    pub(crate) bytes: u64,
}

/// The parser of one connection's replies.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// Elements that the current reply still lacks; 0 between two replies.
    missing: u64,
    /// Bytes of a string that are still to arrive, including its line end.
    skip: u64,
    /// The part of an incomplete line that has arrived.
    line: Vec<u8>,
    /// The part of the current reply that has been parsed.
    reply: Reply,
}

impl Replies {
    /// Parses the next bytes, and calls `each` for every reply that they complete.
    ///
    /// # Errors
    /// A sentence that quotes the bytes that are not a reply.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Reply),
    ) -> Result<(), String> {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = bytes.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
                bytes = &bytes[skipped..];
                self.skip -= skipped as u64;
                self.reply.bytes += skipped as u64;
                if self.skip == 0 {
                    self.end_element(&mut each);
                }
                continue;
            }
            if self.line.is_empty() && !b"+-:$*".contains(&bytes[0]) {
                return Err(nonsense(bytes));
            }
            let end = bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            bytes = rest;
            self.reply.bytes += line.len() as u64;
            if end.is_none() {
                self.line.extend_from_slice(line);
            } else if self.line.is_empty() {
                self.header(line, &mut each)?;
            } else {
                let mut whole = mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.header(&whole, &mut each)?;
            }
        }
        Ok(())
    }

    fn header(&mut self, line: &[u8], each: &mut impl FnMut(Reply)) -> Result<(), String> {
        let text = line[1..].trim_ascii_end();
        let is_first = self.missing == 0;
        if is_first {
            self.missing = 1;
        }
        match line[0] {
            b'$' | b'*' => {
                let number: Option<i64> =
                    std::str::from_utf8(text).ok().and_then(|t| t.parse().ok());
                let length = number.filter(|length| *length >= -1).ok_or_else(|| nonsense(line))?;
                match u64::try_from(length) {
                    Ok(length) if line[0] == b'$' => {
                        self.reply.values += 1;
                        self.skip = length.saturating_add(2);
                        return Ok(());
                    }
                    Ok(elements) => self.missing = self.missing.saturating_add(elements),
                    Err(_) => {
                        self.reply.values += 1;
                        self.reply.nulls += 1;
                    }
                }
            }
            sign => {
                self.reply.values += 1;
                if sign == b'-' && is_first {
                    self.reply.error = Some(String::from_utf8_lossy(text).into_owned());
                }
            }
        }
        self.end_element(each);
        Ok(())
    }

    fn end_element(&mut self, each: &mut impl FnMut(Reply)) {
        self.missing -= 1;
        if self.missing == 0 {
            each(mem::take(&mut self.reply));
        }
    }
}

fn nonsense(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(40)];
    format!("what the server sends is no reply: \"{}\"", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_the_same_in_any_pieces() {
        let all = [
            ("+PONG\r\n", None, 1, 0),
            ("$3\r\na\r\n\r\n", None, 1, 0),
            ("$-1\r\n", None, 1, 1),
            ("*0\r\n", None, 0, 0),
            ("*3\r\n:1\r\n*2\r\n$0\r\n\r\n-ERR in\r\n$1\r\n\n\r\n", None, 4, 0),
            ("-BUSY x\r\n", Some("BUSY x"), 1, 0),
            ("*-1\r\n", None, 1, 1),
            ("*3\r\n$-1\r\n$1\r\nx\r\n$-1\r\n", None, 3, 2),
        ];
        let expected = all.map(|(text, error, values, nulls)| Reply {
            error: error.map(str::to_owned),
            values,
            nulls,
            bytes: text.len() as u64,
        });
        let text = all.map(|(text, ..)| text).concat();
        for size in 1..=text.len() {
            let (mut replies, mut found) = (Replies::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                replies.feed(piece, |reply| found.push(reply)).expect("replies");
            }
            assert_eq!(found, expected, "{size}");
        }
    }

    #[test]
    fn nonsense_is_named_with_what_came() {
        for bytes in ["HTTP/1.1 400 Bad Request\r\n", "$abc\r\n", "$-7\r\n", "!!"] {
            let why = Replies::default().feed(bytes.as_bytes(), |_| {}).expect_err(bytes);
            assert!(why.contains(&bytes.escape_default().to_string()), "{why}");
        }
        let deep = "*1\r\n".repeat(20_000);
        Replies::default().feed(deep.as_bytes(), |_| panic!("it ends")).expect("the beginning");
    }
}
