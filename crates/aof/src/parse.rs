//! Finds commands in bytes: RESP arrays of bulk strings, and lines of annotation (`#TS:...`)
//! between them.
//!
//! Stricter than Redis in three ways, so that damage is noticed where it is: numbers are digits
//! only, every line ends with CR LF, and so does every string. Claimed lengths cause no allocation.

use std::ops::Range;

/// The longest line of digits; Redis writes far shorter ones.
const LONGEST_NUMBER: usize = 32;

/// The longest line of annotation.
const LONGEST_ANNOTATION: usize = 1024;

/// A command, as its words.
#[derive(Clone, Copy)]
pub struct Command<'a> {
    bytes: &'a [u8],
    words: &'a [Range<usize>],
}

impl<'a> Command<'a> {
    /// Returns its words; there is at least one.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.words.iter().map(move |word| &bytes[word.clone()])
    }

    /// Returns true if it is this word alone.
    pub(crate) fn is(&self, name: &[u8]) -> bool {
        self.words.len() == 1 && self.words().all(|word| word.eq_ignore_ascii_case(name))
    }
}

/// The beginning of some bytes: a command, an incomplete one, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A command of this many bytes; [`Parser::command`] has its words.
    Command(usize),
    /// A line of annotation of this many bytes.
    Annotation(usize),
    /// An incomplete command or annotation, which is at least this many bytes long.
    Incomplete(usize),
    /// Neither.
    Malformed {
        /// The position.
        at: usize,
        /// The expected text.
        expected: &'static str,
    },
}

/// Finds commands in bytes; keeps the memory for their words.
#[derive(Default)]
pub struct Parser {
    words: Vec<Range<usize>>,
}

enum Stop {
    Incomplete(usize),
    Malformed(usize, &'static str),
}

impl Parser {
    /// Parses what `bytes` begins with.
    pub fn parse(&mut self, bytes: &[u8]) -> Parsed {
        self.words.clear();
        let found = match bytes.first() {
            Some(b'#') => annotation(bytes),
            _ => self.array(bytes).map(Parsed::Command),
        };
        match found {
            Ok(parsed) => parsed,
            Err(Stop::Incomplete(need)) => Parsed::Incomplete(need),
            Err(Stop::Malformed(at, expected)) => Parsed::Malformed { at, expected },
        }
    }

    /// Returns the command that was found at the beginning of `bytes`.
    pub fn command<'a>(&'a self, bytes: &'a [u8]) -> Command<'a> {
        Command { bytes, words: &self.words }
    }

    fn array(&mut self, bytes: &[u8]) -> Result<usize, Stop> {
        let (count, mut at) = number(bytes, 0, b'*', "'*' and a number")?;
        if count == 0 {
            return Err(Stop::Malformed(1, "a number above 0"));
        }
        for _ in 0..count {
            let (len, start) = number(bytes, at, b'$', "'$' and a number")?;
            let end = start.saturating_add(len);
            at = end.saturating_add(2);
            match bytes.get(end..at) {
                Some(b"\r\n") => self.words.push(start..end),
                Some(_) => return Err(Stop::Malformed(end, "CR LF")),
                None => return Err(Stop::Incomplete(at)),
            }
        }
        Ok(at)
    }
}

fn annotation(bytes: &[u8]) -> Result<Parsed, Stop> {
    match memchr::memchr(b'\n', &bytes[..bytes.len().min(LONGEST_ANNOTATION)]) {
        Some(end) => Ok(Parsed::Annotation(end + 1)),
        None if bytes.len() < LONGEST_ANNOTATION => Err(Stop::Incomplete(bytes.len() + 1)),
        None => Err(Stop::Malformed(0, "a shorter annotation")),
    }
}

/// Returns the number after `sign` at `at`, and the position of the next line.
fn number(
    bytes: &[u8],
    at: usize,
    sign: u8,
    expected: &'static str,
) -> Result<(usize, usize), Stop> {
    match bytes.get(at) {
        Some(first) if *first == sign => {}
        Some(_) => return Err(Stop::Malformed(at, expected)),
        None => return Err(Stop::Incomplete(at + 1)),
    }
    let mut value = 0_usize;
    let digits = &bytes[at + 1..bytes.len().min(at + LONGEST_NUMBER)];
    for (n, byte) in digits.iter().enumerate() {
        let here = at + 1 + n;
        match byte {
            b'0'..=b'9' => {
                let digit = usize::from(byte - b'0');
                let next = value.checked_mul(10).and_then(|value| value.checked_add(digit));
                value = next.ok_or(Stop::Malformed(at, "a smaller number"))?;
            }
            b'\r' if n > 0 => {
                return match bytes.get(here + 1) {
                    Some(b'\n') => Ok((value, here + 2)),
                    Some(_) => Err(Stop::Malformed(here + 1, "LF")),
                    None => Err(Stop::Incomplete(here + 2)),
                };
            }
            _ => return Err(Stop::Malformed(here, expected)),
        }
    }
    match digits.len() + 1 < LONGEST_NUMBER {
        true => Err(Stop::Incomplete(bytes.len() + 1)),
        false => Err(Stop::Malformed(at, "a smaller number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::encode;
    use proptest::prelude::*;

    fn check(bytes: &str, expected: Parsed) {
        assert_eq!(Parser::default().parse(bytes.as_bytes()), expected, "{bytes:?}");
    }

    #[test]
    fn what_is_not_a_command_is_distinguished_from_what_is_cut_short() {
        let malformed = |at, expected| Parsed::Malformed { at, expected };
        check("", Parsed::Incomplete(1));
        check("*", Parsed::Incomplete(2));
        check("*1\r\n$4\r\nPI", Parsed::Incomplete(14));
        check("*1\r\n$4\r\nPING\r\n*", Parsed::Command(14));
        check("#TS:1\r\n*1", Parsed::Annotation(7));
        check("#TS:1", Parsed::Incomplete(6));
        check("PING\r\n", malformed(0, "'*' and a number"));
        check("*0\r\n", malformed(1, "a number above 0"));
        check("*-1\r\n", malformed(1, "'*' and a number"));
        check("*1\n", malformed(2, "'*' and a number"));
        check("*1\r\n:4\r\n", malformed(4, "'$' and a number"));
        check("*1\r\n$4\r\nPINGS\r\n", malformed(12, "CR LF"));
        check("*1\r\n$18446744073709551616\r\n", malformed(4, "a smaller number"));
        check("*1\r\n$18446744073709551615\r\n", Parsed::Incomplete(usize::MAX));
        check("*00000000000000000000000000000000001\r\n", malformed(0, "a smaller number"));
        check("\0\0\0", malformed(0, "'*' and a number"));
    }

    proptest! {
        #[test]
        fn a_command_is_found_again_and_every_cut_is_incomplete(
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6),
        ) {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let mut bytes = Vec::new();
            encode(&mut bytes, &words);
            let mut parser = Parser::default();
            prop_assert_eq!(parser.parse(&bytes), Parsed::Command(bytes.len()));
            prop_assert_eq!(parser.command(&bytes).words().collect::<Vec<_>>(), words);
            for cut in 0..bytes.len() {
                match parser.parse(&bytes[..cut]) {
                    Parsed::Incomplete(need) => prop_assert!(need > cut && need <= bytes.len()),
                    other => prop_assert!(false, "cut at {}: {:?}", cut, other),
                }
            }
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, array: bool) {
            let bytes = if array { [b"*3\r\n$1\r\n", bytes.as_slice()].concat() } else { bytes };
            let _ = Parser::default().parse(&bytes);
        }
    }
}
