//! Where replies end, in whatever pieces they come.
//!
//! Long replies have millions of elements, and the probes share the machine with whoever reads
//! them: so elements are counted and skipped, and nothing is kept of them.

use std::mem;

/// Counts replies of RESP2.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// Elements that the reply still lacks; 0 between two replies.
    missing: u64,
    /// Bytes of a bulk string that are still to come, its line end included.
    skip: u64,
    /// The beginning of a line.
    line: Vec<u8>,
    complete: u64,
    errors: u64,
    error: Option<String>,
}

impl Replies {
    /// Returns how many replies are complete with these bytes, since the beginning.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> u64 {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = bytes.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
                bytes = &bytes[skipped..];
                self.skip -= skipped as u64;
                if self.skip == 0 {
                    self.end_element();
                }
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (line, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            self.line.extend_from_slice(line);
            bytes = rest;
            if end.is_some() {
                self.header();
            }
        }
        self.complete
    }

    /// Returns how many replies were errors.
    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    /// Returns the last error, once.
    pub(super) fn take_error(&mut self) -> Option<String> {
        self.error.take()
    }

    fn header(&mut self) {
        let line = mem::take(&mut self.line);
        let text = String::from_utf8_lossy(line.get(1..).unwrap_or_default());
        let number = text.trim_end().parse::<i64>().ok().and_then(|n| u64::try_from(n).ok());
        let is_first = self.missing == 0;
        if is_first {
            self.missing = 1;
        }
        match (line.first(), number) {
            (Some(b'$'), Some(length)) => {
                self.skip = length.saturating_add(2);
                return;
            }
            (Some(b'*'), Some(elements)) => self.missing = self.missing.saturating_add(elements),
            (Some(b'-'), _) if is_first => {
                self.errors += 1;
                self.error = Some(text.trim_end().to_owned());
            }
            _ => {}
        }
        self.end_element();
    }

    fn end_element(&mut self) {
        self.missing -= 1;
        self.complete += u64::from(self.missing == 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_end_where_they_end_in_any_pieces() {
        let text = "+PONG\r\n$3\r\na\r\n\r\n$-1\r\n*0\r\n*3\r\n:1\r\n*2\r\n$0\r\n\r\n-ERR in\r\n$1\r\n\n\r\n-BUSY x\r\n*-1\r\n";
        for size in 1..=text.len() {
            let mut replies = Replies::default();
            let counts: Vec<u64> =
                text.as_bytes().chunks(size).map(|piece| replies.feed(piece)).collect();
            assert_eq!(counts.last(), Some(&7), "{size}");
            assert!(counts.is_sorted(), "{counts:?}");
            assert_eq!(replies.errors(), 1);
            assert_eq!(replies.take_error().as_deref(), Some("BUSY x"));
            assert_eq!(replies.take_error(), None);
        }
    }
}
