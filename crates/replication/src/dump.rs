//! The dump that a primary sends before the stream.
//!
//! It comes as `$<length>` and so many bytes, or, from a primary that writes it straight to the
//! connection and does not know its size, as `$EOF:<40 bytes>`, bytes, and the same 40 bytes again.
//! While a primary prepares the dump it sends newlines. After the second form it waits for the
//! replica's first `REPLCONF ACK` before it sends the stream.
//!
//! Invariant: nothing beyond the dump's last byte, or the mark's, is taken from the input.

use std::io::{self, BufRead, ErrorKind, Read};

use crate::line::{Line, LineError, shown};
use crate::mark::{MARK, MarkSearch};

/// Maximum length of the line before a dump, in bytes. An error may stand there.
const MAX_HEADER: usize = 1024;

/// Reads a dump out of the input from a primary: [`Read`] gives the bytes of the dump alone, and
/// 0 bytes at its end.
///
/// A read that times out (`WouldBlock`, `TimedOut`) changes nothing: the same call goes on. Every
/// other error ends the link. An input that ends before the dump does is `UnexpectedEof`; what is
/// wrong with the dump's first line is a [`DumpError`] inside of an `InvalidData`.
#[derive(Debug)]
pub struct DumpReader<R> {
    input: R,
    header: Line,
    rest: Rest,
    total: Option<u64>,
    received: u64,
}

/// The part of a dump that is still to come.
#[derive(Debug)]
enum Rest {
    /// All of it.
    Header,
    /// So many bytes.
    Sized(u64),
    /// All bytes before the mark.
    Marked(Box<MarkSearch>),
    /// Nothing.
    Nothing,
}

/// A dump that does not come.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The connection failed, ended (`UnexpectedEof`) or timed out.
    #[error("the connection to the primary failed: {0}")]
    Io(#[from] io::Error),
    /// The primary sent an error in place of a dump. The text is without the `-`, with control
    /// characters escaped, and cut if it is long.
    #[error("the primary sends no dump: {0}")]
    Refused(String),
    /// The primary sent something else in place of a dump.
    #[error("the primary sent no dump, but: {0}")]
    NotADump(String),
    /// The primary sent a line without an end in place of a dump.
    #[error("the line before the dump has no end in its first KiB")]
    LineTooLong,
}

impl From<LineError> for DumpError {
    fn from(error: LineError) -> DumpError {
        match error {
            LineError::Io(error) => DumpError::Io(error),
            LineError::TooLong => DumpError::LineTooLong,
        }
    }
}

impl From<DumpError> for io::Error {
    fn from(error: DumpError) -> io::Error {
        match error {
            DumpError::Io(error) => error,
            error => io::Error::new(ErrorKind::InvalidData, error),
        }
    }
}

impl<R: BufRead> DumpReader<R> {
    /// Returns a reader of the dump that follows in `input`. Reads nothing yet.
    pub fn new(input: R) -> DumpReader<R> {
        let header = Line::default();
        DumpReader { input, header, rest: Rest::Header, total: None, received: 0 }
    }

    /// Waits until the dump begins, unless it has begun. The first read does the same.
    pub fn begin(&mut self) -> Result<(), DumpError> {
        if !matches!(self.rest, Rest::Header) {
            return Ok(());
        }
        let line = self.header.read(&mut self.input, MAX_HEADER)?;
        if let Some(error) = line.strip_prefix(b"-") {
            return Err(DumpError::Refused(shown(error)));
        }
        self.rest = read_header(line).ok_or_else(|| DumpError::NotADump(shown(line)))?;
        if let Rest::Sized(length) = self.rest {
            self.total = Some(length);
        }
        self.end_if_complete();
        Ok(())
    }

    /// Returns how many bytes of the dump were read from here.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns how many bytes the dump has. None before it begins, and if the primary does not say
    /// it.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Returns true if the whole dump was read, and its mark was taken.
    pub fn is_complete(&self) -> bool {
        matches!(self.rest, Rest::Nothing)
    }

    /// Returns the input. If the dump is complete, its next byte is the first one after the dump.
    pub fn into_inner(self) -> R {
        self.input
    }

    fn end_if_complete(&mut self) {
        if let Rest::Sized(0) = self.rest {
            self.rest = Rest::Nothing;
        }
    }
}

impl<R: BufRead> Read for DumpReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.begin()?;
        if out.is_empty() {
            return Ok(0);
        }
        let mut given = 0;
        while given == 0 && !self.is_complete() {
            if let Rest::Marked(search) = &mut self.rest {
                given = search.give_owed(out);
                if given > 0 {
                    break;
                }
            }
            let arrived = self.input.fill_buf()?;
            if arrived.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let taken = match &mut self.rest {
                Rest::Header | Rest::Nothing => 0,
                Rest::Sized(left) => {
                    let most = usize::try_from(*left).unwrap_or(usize::MAX);
                    given = most.min(arrived.len()).min(out.len());
                    out[..given].copy_from_slice(&arrived[..given]);
                    *left -= given as u64;
                    given
                }
                Rest::Marked(search) => {
                    let step = search.step(arrived, out);
                    given = step.given;
                    if step.found {
                        self.rest = Rest::Nothing;
                    }
                    step.taken
                }
            };
            self.input.consume(taken);
            self.end_if_complete();
        }
        self.received += given as u64;
        Ok(given)
    }
}

/// Reads the line before a dump. Returns none if it is not such a line.
fn read_header(line: &[u8]) -> Option<Rest> {
    let line = line.strip_prefix(b"$")?;
    if let Some(mark) = line.strip_prefix(b"EOF:") {
        let mark: [u8; MARK] = mark.try_into().ok()?;
        return Some(Rest::Marked(Box::new(MarkSearch::new(mark))));
    }
    Some(Rest::Sized(u64::try_from(resp::number::parse_i64(line)?).ok()?))
}
