//! The request parser: commands as ranges of a connection's read buffer.
//!
//! All input of one read is parsed, so that a batch of commands can be examined before the first is
//! executed. So the parser keeps the ranges of every complete command since the last
//! [`Parser::release`], followed by those of the command that is still arriving. Parsing never
//! starts over: the parser remembers its position down to a half-read length line. It owns ranges
//! only; the bytes are the caller's, who must pass the same bytes (and any that arrived after them)
//! to every call until `release` returns how many at the front may be dropped.
//!
//! Invariants:
//! - `pos` is the position of the next unread byte, and no complete command reaches beyond
//!   `released`;
//! - a range is inside the input that was given when it was made;
//! - an error changes nothing: the same call returns it again;
//! - empty requests are progress: `release` counts their bytes, and a call skips a bounded number
//!   of them.
//!
//! Limits and leniencies are Redis 7.0.15's: the two bytes after a length or an argument are
//! skipped unchecked, a count below one is an empty request, and a count may be as large as an
//! `int`.

use crate::ProtocolError;
use crate::number;
use crate::words::{Word, split};

/// The length from which on a half-read argument deserves a buffer of its final size
/// ([`Next::Partial`]).
pub const BIG_BULK: usize = 32 * 1024;

/// Maximum length of an inline command, and of a line that contains a count or a length.
const MAX_LINE: usize = 64 * 1024;
/// Bytes of empty requests after which [`Parser::next`] returns.
const EMPTY_RUN: usize = 4 * 1024;
const UNAUTHENTICATED_ARGUMENTS: usize = 10;
const UNAUTHENTICATED_BULK: usize = 16 * 1024;
/// Ranges kept allocated between batches.
const KEPT_RANGES: usize = 4096;
/// Set in a range's start: the bytes are in `unescaped`, not in the input.
const UNESCAPED: usize = 1 << (usize::BITS - 1);

/// The limits of a client's requests.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest argument: `proto-max-bulk-len`. Inline commands have their own limit of 64 KiB.
    pub max_bulk: usize,
    /// Maximum number of arguments of one command.
    pub max_arguments: usize,
    /// Whether the client has authenticated (or need not): before that it is limited to ten
    /// arguments of 16 KiB.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { max_bulk: 512 << 20, max_arguments: i32::MAX as usize, authenticated: true }
    }
}

/// The result of [`Parser::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// One more command is complete.
    Command,
    /// Many empty requests were skipped, and there may be more: others may be served before the
    /// next call.
    Empty,
    /// The input ends inside a command, or between two. At least `missing` more bytes are needed (1
    /// if that is unknown); from [`BIG_BULK`] on, making space for all of them before the next read
    /// pays off.
    Partial {
        /// How many bytes.
        missing: usize,
    },
}

#[derive(Clone, Copy, Debug)]
struct Range {
    start: usize,
    len: usize,
}

/// Parses commands in a read buffer. The module's text says who owns what.
#[derive(Debug, Default)]
pub struct Parser {
    pos: usize,
    /// The end of the last complete command.
    released: usize,
    /// Arguments of the current command still to come; 0 between commands.
    awaited: usize,
    /// Length of the argument at `pos`, once its length line is read.
    bulk: Option<usize>,
    /// Bytes of the line at `pos` already searched for its end.
    searched: usize,
    ranges: Vec<Range>,
    /// The end of each complete command's ranges.
    ends: Vec<usize>,
    unescaped: Vec<u8>,
}

/// The arguments of one command.
#[derive(Clone, Copy)]
pub struct Command<'a> {
    ranges: &'a [Range],
    input: &'a [u8],
    unescaped: &'a [u8],
}

impl Parser {
    /// Returns a parser at the start of a connection.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Parses on in `input`, which starts with the bytes that the last [`release`](Parser::release)
    /// left.
    ///
    /// Before authentication, ask for one command at a time and execute it, since it may lift the
    /// limits for the next.
    pub fn next(&mut self, input: &[u8], limits: &Limits) -> Result<Next, ProtocolError> {
        let begin = self.pos;
        loop {
            if self.awaited == 0 {
                let complete = match input.get(self.pos) {
                    None => return Ok(Next::Partial { missing: 1 }),
                    Some(b'*') => self.count(input, limits)?,
                    Some(_) => self.inline(input)?,
                };
                match complete {
                    Progress::Partial => return Ok(Next::Partial { missing: 1 }),
                    Progress::Nothing if self.pos - begin >= EMPTY_RUN => return Ok(Next::Empty),
                    Progress::Nothing => continue,
                    Progress::Some => {}
                }
            }
            self.short_arguments(input, limits);
            while self.awaited > 0 {
                if let Some(missing) = self.argument(input, limits)? {
                    return Ok(Next::Partial { missing });
                }
            }
            self.released = self.pos;
            self.ends.push(self.ranges.len());
            return Ok(Next::Command);
        }
    }

    /// Returns how many complete commands there are since the last [`release`](Parser::release).
    pub fn complete(&self) -> usize {
        self.ends.len()
    }

    /// Returns the `index`th complete command, over the input of the last [`next`](Parser::next).
    ///
    /// # Panics
    /// If there is no such command, or `input` is shorter than it was.
    pub fn command<'a>(&'a self, index: usize, input: &'a [u8]) -> Command<'a> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Command { ranges: &self.ranges[start..self.ends[index]], input, unescaped: &self.unescaped }
    }

    /// Returns the words of the complete commands from the `first`th on, one after the other: a
    /// list for a whole batch.
    ///
    /// # Panics
    /// If `input` is shorter than it was.
    #[inline]
    pub fn words<'a>(
        &'a self,
        first: usize,
        input: &'a [u8],
    ) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let start = if first == 0 { 0 } else { self.ends[first - 1] };
        let end = self.ends.last().copied().unwrap_or(0);
        Command { ranges: &self.ranges[start..end], input, unescaped: &self.unescaped }.arguments()
    }

    /// Returns how many words the `index`th complete command has.
    ///
    /// # Panics
    /// If there is no such command.
    #[inline]
    pub fn word_count(&self, index: usize) -> usize {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.ends[index] - start
    }

    /// Returns every complete command since the last [`release`](Parser::release), in order.
    pub fn commands<'a>(&'a self, input: &'a [u8]) -> impl ExactSizeIterator<Item = Command<'a>> {
        (0..self.complete()).map(move |index| self.command(index, input))
    }

    /// Forgets the complete commands. Returns how many bytes at the front of the input belonged to
    /// them or to empty requests. The caller drops exactly these before the next call of
    /// [`next`](Parser::next).
    pub fn release(&mut self) -> usize {
        let gone = std::mem::take(&mut self.released);
        let forgotten = self.ends.last().copied().unwrap_or(0);
        self.ranges.drain(..forgotten);
        for range in &mut self.ranges {
            range.start -= gone;
        }
        self.pos -= gone;
        self.ends.clear();
        self.unescaped.clear();
        if self.ranges.is_empty() && self.ranges.capacity() > KEPT_RANGES {
            self.ranges.shrink_to(KEPT_RANGES);
        }
        if self.unescaped.capacity() > MAX_LINE {
            self.unescaped.shrink_to(MAX_LINE);
        }
        gone
    }

    /// Releases unused memory.
    pub fn shrink(&mut self) {
        self.ranges.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.unescaped.shrink_to_fit();
    }

    /// Returns its memory in bytes.
    pub fn memory(&self) -> usize {
        self.ranges.capacity() * size_of::<Range>()
            + self.ends.capacity() * size_of::<usize>()
            + self.unescaped.capacity()
    }

    /// Returns how many bytes of the input belong to a command that is still arriving.
    pub fn pending(&self, input: &[u8]) -> usize {
        input.len().saturating_sub(self.released)
    }

    /// Reads `*<count>\r\n`.
    #[inline]
    fn count(&mut self, input: &[u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        let (count, end) = match short_line(&input[self.pos..]) {
            Some((count, len)) => (count as i64, self.pos + len),
            None => match self.long_count(input)? {
                None => return Ok(Progress::Partial),
                Some(found) => found,
            },
        };
        let count = usize::try_from(count).unwrap_or(0);
        if count > limits.max_arguments {
            return Err(ProtocolError::InvalidCount);
        }
        if count > UNAUTHENTICATED_ARGUMENTS && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedCount);
        }
        self.pos = end;
        self.searched = 0;
        if count == 0 {
            self.released = end;
            return Ok(Progress::Nothing);
        }
        self.awaited = count;
        Ok(Progress::Some)
    }

    /// Reads the arguments that have arrived completely, as long as they are of the usual short
    /// form: nearly every argument is.
    #[inline]
    fn short_arguments(&mut self, input: &[u8], limits: &Limits) {
        if self.bulk.is_some() {
            return;
        }
        let (mut pos, mut awaited) = (self.pos, self.awaited);
        while awaited > 0 {
            let Some(rest) = input.get(pos..) else { break };
            let Some((len, line)) = short_line(rest) else { break };
            if rest[0] != b'$' || len > limits.max_bulk || line + len + 2 > rest.len() {
                break;
            }
            self.ranges.push(Range { start: pos + line, len });
            pos += line + len + 2;
            awaited -= 1;
        }
        if pos > self.pos {
            self.searched = 0;
        }
        (self.pos, self.awaited) = (pos, awaited);
    }

    /// Reads `$<length>\r\n<bytes>\r\n`, or says how many bytes are missing.
    #[cold]
    fn argument(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        let len = match self.bulk {
            // The authentication may have been lost since the length was read.
            Some(len) if len > UNAUTHENTICATED_BULK && !limits.authenticated => {
                return Err(ProtocolError::UnauthenticatedLength);
            }
            Some(len) => len,
            None => match self.length(input, limits)? {
                Some(len) => len,
                None => return Ok(Some(1)),
            },
        };
        let arrived = input.len() - self.pos.min(input.len());
        let Some(missing) = (len + 2).checked_sub(arrived).filter(|&missing| missing > 0) else {
            self.ranges.push(Range { start: self.pos, len });
            self.pos += len + 2;
            self.bulk = None;
            self.awaited -= 1;
            return Ok(None);
        };
        self.bulk = Some(len);
        Ok(Some(missing))
    }

    /// Reads `$<length>\r\n`.
    fn length(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        let rest = input.get(self.pos..).unwrap_or_default();
        let (len, end) = match short_line(rest) {
            Some((len, line)) if rest[0] == b'$' => (len, self.pos + line),
            _ => match self.long_length(input)? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        if len > limits.max_bulk {
            return Err(ProtocolError::InvalidLength);
        }
        if len > UNAUTHENTICATED_BULK && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedLength);
        }
        self.pos = end;
        self.searched = 0;
        Ok(Some(len))
    }

    /// Reads a length line that is not of the usual short form, or incomplete, or wrong.
    fn long_length(&mut self, input: &[u8]) -> Result<Option<(usize, usize)>, ProtocolError> {
        let Some(end) = self.line(input, ProtocolError::LengthTooLong)? else { return Ok(None) };
        if input[self.pos] != b'$' {
            return Err(ProtocolError::ExpectedBulk(input[self.pos]));
        }
        let len = number::parse_i64(&input[self.pos + 1..end - 2])
            .and_then(|len| usize::try_from(len).ok())
            .ok_or(ProtocolError::InvalidLength)?;
        Ok(Some((len, end)))
    }

    /// Reads a count line that is not of the usual short form, or incomplete, or wrong.
    #[cold]
    fn long_count(&mut self, input: &[u8]) -> Result<Option<(i64, usize)>, ProtocolError> {
        let Some(end) = self.line(input, ProtocolError::CountTooLong)? else { return Ok(None) };
        let count = number::parse_i64(&input[self.pos + 1..end - 2]);
        Ok(Some((count.ok_or(ProtocolError::InvalidCount)?, end)))
    }

    /// Returns the end of the line that starts at `pos`, after its `\r` and the byte after.
    fn line(
        &mut self,
        input: &[u8],
        too_long: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let line = input.get(self.pos..).unwrap_or_default();
        match memchr::memchr(b'\r', &line[self.searched..]) {
            Some(at) if self.searched + at > MAX_LINE => Err(too_long),
            Some(at) if self.searched + at + 1 < line.len() => {
                Ok(Some(self.pos + self.searched + at + 2))
            }
            Some(at) => {
                self.searched += at;
                Ok(None)
            }
            None if line.len() > MAX_LINE => Err(too_long),
            None => {
                self.searched = line.len();
                Ok(None)
            }
        }
    }

    /// Reads a line of words.
    #[inline(never)]
    fn inline(&mut self, input: &[u8]) -> Result<Progress, ProtocolError> {
        let line = &input[self.pos..];
        let Some(at) = memchr::memchr(b'\n', &line[self.searched..]) else {
            if line.len() > MAX_LINE {
                return Err(ProtocolError::InlineTooLong);
            }
            self.searched = line.len();
            return Ok(Progress::Partial);
        };
        let end = self.searched + at;
        if end > MAX_LINE {
            return Err(ProtocolError::InlineTooLong);
        }
        let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
        let (first, unescaped) = (self.ranges.len(), self.unescaped.len());
        let (pos, ranges) = (self.pos, &mut self.ranges);
        let split = split(line, &mut self.unescaped, |word| {
            ranges.push(match word {
                Word::Plain(start, end) => Range { start: pos + start, len: end - start },
                Word::Unescaped(start, end) => Range { start: start | UNESCAPED, len: end - start },
            });
        });
        if split.is_err() {
            self.ranges.truncate(first);
            self.unescaped.truncate(unescaped);
            return Err(ProtocolError::UnbalancedQuotes);
        }
        self.pos += end + 1;
        self.searched = 0;
        if self.ranges.len() == first {
            self.released = self.pos;
            return Ok(Progress::Nothing);
        }
        Ok(Progress::Some)
    }
}

/// The result of reading the first line of a command.
enum Progress {
    /// The line is not complete.
    Partial,
    /// An empty command.
    Nothing,
    /// A command, or its count.
    Some,
}

/// Returns the number in a line such as `*3\r\n` or `$1024\r\n` of one to four digits without a
/// leading zero, and the line's length. Returns none for every other line, complete or not, right
/// or wrong, and near the input's end.
#[inline(always)]
fn short_line(line: &[u8]) -> Option<(usize, usize)> {
    let &[_, a, b, c, d, e, _, _] = line.first_chunk::<8>()?;
    let digit = |byte: u8| usize::from(byte.wrapping_sub(b'0'));
    let (a, tens) = (digit(a), digit(b));
    if b == b'\r' {
        return (a <= 9).then_some((a, 4));
    }
    let two = a * 10 + tens;
    let mut right = a.wrapping_sub(1) < 9 && tens <= 9;
    if c == b'\r' {
        return right.then_some((two, 5));
    }
    let three = two * 10 + digit(c);
    right &= digit(c) <= 9;
    if d == b'\r' {
        return right.then_some((three, 6));
    }
    right &= digit(d) <= 9 && e == b'\r';
    right.then_some((three * 10 + digit(d), 7))
}

impl<'a> Command<'a> {
    /// Returns how many arguments there are, including the command's name. Never 0.
    #[allow(clippy::len_without_is_empty, reason = "a command has a name")]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the `index`th argument; 0 is the command's name.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        Some(self.bytes(self.ranges.get(index)?))
    }

    /// Returns all arguments in order.
    #[inline]
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let command = *self;
        command.ranges.iter().map(move |range| command.bytes(range))
    }

    #[inline]
    fn bytes(&self, range: &Range) -> &'a [u8] {
        let (from, start) = match range.start & UNESCAPED {
            0 => (self.input, range.start),
            _ => (self.unescaped, range.start & !UNESCAPED),
        };
        from.get(start..start + range.len).unwrap_or_default()
    }
}

impl std::ops::Index<usize> for Command<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        self.get(index).expect("the command has this argument")
    }
}

impl std::fmt::Debug for Command<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.arguments().map(|a| a.escape_ascii().to_string())).finish()
    }
}
