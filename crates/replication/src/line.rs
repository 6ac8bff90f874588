//! Lines of the handshake: bounded, and resumable after a read that timed out.
//!
//! A primary sends bare newlines to keep the link alive while it prepares an answer. They are
//! skipped here, so that no one else has to know of them.

use std::io::{self, BufRead, ErrorKind};

/// Characters of a peer's line that are shown in an error.
const SHOWN: usize = 512;

/// The line that is arriving, or the one that was read last.
#[derive(Debug, Default)]
pub(crate) struct Line {
    text: Vec<u8>,
    is_whole: bool,
}

/// A line could not be read.
#[derive(Debug)]
pub(crate) enum LineError {
    /// The input failed or ended. After a timeout the same call goes on where it stopped.
    Io(io::Error),
    /// There is no end of line within the limit.
    TooLong,
}

impl Line {
    /// Reads the next line that is not empty, of at most `limit` bytes, and takes nothing beyond
    /// its end. Returns it without its end. A second call returns the same line, until
    /// [`Line::clear`].
    pub(crate) fn read(
        &mut self,
        input: &mut (impl BufRead + ?Sized),
        limit: usize,
    ) -> Result<&[u8], LineError> {
        while !self.is_whole {
            let arrived = match input.fill_buf() {
                Ok([]) => return Err(LineError::Io(ErrorKind::UnexpectedEof.into())),
                Ok(arrived) => arrived,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(LineError::Io(error)),
            };
            let end = memchr::memchr(b'\n', arrived);
            let piece = &arrived[..end.unwrap_or(arrived.len())];
            if self.text.len() + piece.len() > limit {
                return Err(LineError::TooLong);
            }
            self.text.extend_from_slice(piece);
            let used = piece.len() + usize::from(end.is_some());
            input.consume(used);
            if end.is_some() {
                self.text.pop_if(|last| *last == b'\r');
                self.is_whole = !self.text.is_empty();
            }
        }
        Ok(&self.text)
    }

    /// Forgets the line, so that the next one is read.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.is_whole = false;
    }
}

/// Returns a peer's text for an error message: control characters escaped, a long text cut.
pub(crate) fn shown(text: &[u8]) -> String {
    let mut shown = String::new();
    for (at, character) in String::from_utf8_lossy(text).chars().enumerate() {
        if at == SHOWN {
            shown.push_str("...");
            break;
        }
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_a_newline_and_empty_ones_are_skipped() {
        let mut input = &b"\n\r\n+PONG\r\n\n-ERR x\nrest"[..];
        let mut line = Line::default();
        assert_eq!(line.read(&mut input, 5 + 1).unwrap(), b"+PONG");
        assert_eq!(line.read(&mut input, 100).unwrap(), b"+PONG");
        line.clear();
        assert_eq!(line.read(&mut input, 100).unwrap(), b"-ERR x");
        assert_eq!(input, b"rest");
        line.clear();
        let ended = line.read(&mut input, 100);
        assert!(
            matches!(&ended, Err(LineError::Io(e)) if e.kind() == ErrorKind::UnexpectedEof),
            "{ended:?}"
        );
    }

    #[test]
    fn a_line_without_an_end_takes_no_more_memory_than_its_limit() {
        let mut endless = io::BufReader::new(io::repeat(b'x'));
        let mut line = Line::default();
        for _ in 0..2 {
            let result = line.read(&mut endless, 1000);
            assert!(matches!(result, Err(LineError::TooLong)), "{result:?}");
            assert!(line.text.capacity() <= 1000);
        }
    }

    #[test]
    fn a_text_is_shown_without_control_characters_and_cut() {
        assert_eq!(shown("ERR é 'x'\u{1b}[1m\0".as_bytes()), "ERR é 'x'\\u{1b}[1m\\u{0}");
        assert_eq!(shown(&[b'x'; 1000]).len(), SHOWN + 3);
    }
}
