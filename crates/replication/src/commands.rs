//! The commands of a primary's stream, with the exact bytes of each.
//!
//! A replica applies commands, and appends the very bytes that it received to a stream of its own,
//! so that its replicas, and it itself after a failover, count the same offsets. What it applied at
//! once may be several commands, such as a transaction. So the reader parses one item at a time and
//! keeps what it parsed until the caller releases a prefix of it.
//!
//! The stream is stricter than a client's requests: a primary sends arrays of bulk strings, and
//! nothing else begins with anything but `*`. Other bytes mean that both sides do not agree on the
//! position, so they end the link rather than become an inline command. Bare newlines, which some
//! primaries send to keep a link alive, count in the offset and mean nothing.
//!
//! Invariants:
//! - the bytes of the items, one after the other, are the stream, without a gap;
//! - positions are counted from the stream's origin like offsets, so releasing moves none;
//! - an error stays: each later call returns it again, after the items before it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::ops::Range;

use resp::{Limits, Next, Parser, ProtocolError};

use crate::buffer::Buffer;

/// Places that are kept allocated while there are no items.
const KEPT: usize = 4096;

/// Reads a primary's stream item by item.
///
/// Its memory is a small multiple of the bytes that are held: those of the items that are not
/// released, and of the command that is arriving.
#[derive(Debug)]
pub struct StreamReader {
    input: Buffer,
    /// The parser of the command after the last item. It sees the input from there on, and no byte
    /// that is not part of an array.
    parser: Parser,
    /// Bytes of the input that belong to items.
    parsed: usize,
    /// How many bytes are known to be missing of the command that is arriving.
    missing: usize,
    items: VecDeque<Parsed>,
    /// The words of all items.
    words: VecDeque<Word>,
    /// How many words there were before the first of `words`.
    words_released: u64,
    /// Offset of the byte before the input.
    offset: u64,
    max_command: usize,
    error: Option<StreamError>,
}

/// The end of an item.
#[derive(Clone, Copy, Debug)]
struct Parsed {
    /// Offset of its last byte.
    bytes: u64,
    /// The number of words up to its last.
    words: u64,
}

/// A word's place in the stream.
#[derive(Clone, Copy, Debug)]
struct Word {
    /// Offset of the byte before it.
    start: u64,
    len: usize,
}

/// A command of the stream, or a run of bare newlines: that has no words, and only advances the
/// offset. (An empty array counts as a newline.)
#[derive(Clone, Copy)]
pub struct Item<'a> {
    reader: &'a StreamReader,
    before: Parsed,
    end: Parsed,
}

/// A stream that cannot be read further. It ends the link, and the position is not to be trusted
/// for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The bytes are not a command.
    #[error("the primary's stream is corrupt: {0}")]
    Protocol(#[from] ProtocolError),
    /// The byte where a command should begin.
    #[error(
        "the primary's stream is corrupt: expected '*', got '{}'",
        char::from(*.0).escape_default()
    )]
    ExpectedArray(u8),
    /// A command is longer than the limit.
    #[error("a command in the primary's stream has more than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
}

impl StreamReader {
    /// Returns a reader of the stream that follows the byte at `offset`: the one that
    /// [`Answer::Full`](crate::handshake::Answer::Full) names, or the one that was resumed from. A
    /// command of more than `max_command` bytes is an error.
    pub fn new(offset: u64, max_command: usize) -> StreamReader {
        StreamReader {
            input: Buffer::default(),
            parser: Parser::new(),
            parsed: 0,
            missing: 0,
            items: VecDeque::new(),
            words: VecDeque::new(),
            words_released: 0,
            offset,
            max_command,
            error: None,
        }
    }

    /// Adds bytes that arrived.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.input.space(bytes.len());
            let (now, later) = bytes.split_at(bytes.len().min(space.len()));
            space[..now.len()].copy_from_slice(now);
            self.input.arrived(now.len());
            bytes = later;
        }
    }

    /// Adds bytes that one read of `input` gives. Returns how many; 0 means that the stream has
    /// ended. A read that fails changes nothing.
    ///
    /// Call it when [`parse`](StreamReader::parse) finds nothing more: what is parsed and not
    /// released stays in memory.
    pub fn read_from(&mut self, input: &mut (impl Read + ?Sized)) -> io::Result<usize> {
        let space = self.input.space(self.missing);
        let count = loop {
            match input.read(space) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.input.arrived(count);
        Ok(count)
    }

    /// Parses one more item out of the bytes that arrived. Returns false if it is not complete, or
    /// there is none.
    pub fn parse(&mut self) -> Result<bool, StreamError> {
        match self.error {
            Some(error) => Err(error),
            None => self.parse_next().inspect_err(|error| self.error = Some(*error)),
        }
    }

    fn parse_next(&mut self) -> Result<bool, StreamError> {
        let rest = &self.input.held()[self.parsed..];
        let blank = blank(rest);
        if blank > 0 {
            // The parser may have seen the beginning of an empty array.
            self.parser = Parser::new();
            self.end_item(blank);
            return Ok(true);
        }
        match rest {
            [] | [b'\r'] => return Ok(false),
            [b'*', b'-', ..] => return Err(ProtocolError::InvalidCount.into()),
            [b'*', ..] => {}
            [byte, ..] => return Err(StreamError::ExpectedArray(*byte)),
        }
        // The limit is for the whole command: it says more than the parser's for one argument.
        let limits = Limits { max_bulk: usize::MAX / 4, ..Limits::default() };
        let (length, missing) = match self.parser.next(rest, &limits)? {
            Next::Command => (rest.len() - self.parser.pending(rest), 0),
            Next::Partial { missing } => (rest.len() + missing, missing),
            // Empty arrays do not get here.
            Next::Empty => return Err(ProtocolError::InvalidCount.into()),
        };
        if length > self.max_command {
            return Err(StreamError::TooLong { limit: self.max_command });
        }
        if missing > 0 {
            self.missing = missing;
            return Ok(false);
        }
        let begin = self.offset + self.parsed as u64;
        self.words.extend(self.parser.command(0, rest).arguments().map(|word| {
            let start = begin + position(word, rest) as u64;
            Word { start, len: word.len() }
        }));
        self.parser.release();
        self.end_item(length);
        Ok(true)
    }

    /// Makes an item of the next `length` bytes, and of the words that no item has yet.
    fn end_item(&mut self, length: usize) {
        self.parsed += length;
        self.missing = 0;
        self.items.push_back(Parsed {
            bytes: self.offset + self.parsed as u64,
            words: self.words_released + self.words.len() as u64,
        });
    }

    /// Returns how many items are parsed and not released.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns true if no item is parsed and not released.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the `index`th item of those that are not released.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn item(&self, index: usize) -> Item<'_> {
        let before = index.checked_sub(1).map(|index| self.items[index]);
        Item { reader: self, before: before.unwrap_or(self.released()), end: self.items[index] }
    }

    /// Returns the items that are not released, in order.
    pub fn items(&self) -> impl ExactSizeIterator<Item = Item<'_>> {
        (0..self.len()).map(|index| self.item(index))
    }

    /// Returns the bytes of the first `count` items that are not released, verbatim.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn bytes(&self, count: usize) -> &[u8] {
        match count.checked_sub(1) {
            None => &[],
            Some(last) => &self.input.held()[self.places(self.offset..self.items[last].bytes)],
        }
    }

    /// Forgets the first `count` items: they are applied.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn release(&mut self, count: usize) {
        let Some(last) = count.checked_sub(1) else { return };
        let end = self.items[last];
        let gone = self.places(self.offset..end.bytes).len();
        self.items.drain(..count);
        self.words.drain(..(end.words - self.words_released) as usize);
        self.input.drop_front(gone);
        self.parsed -= gone;
        self.words_released = end.words;
        self.offset = end.bytes;
        if self.items.is_empty() {
            self.items.shrink_to(KEPT);
            self.words.shrink_to(KEPT);
        }
    }

    /// Returns the offset of the last byte that was released.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the offset of the last byte that arrived.
    pub fn received(&self) -> u64 {
        self.offset + self.input.held().len() as u64
    }

    /// Returns its memory in bytes.
    pub fn memory(&self) -> usize {
        self.input.memory()
            + self.parser.memory()
            + self.items.capacity() * size_of::<Parsed>()
            + self.words.capacity() * size_of::<Word>()
    }

    /// The end of what was released.
    fn released(&self) -> Parsed {
        Parsed { bytes: self.offset, words: self.words_released }
    }

    /// Returns where the bytes after one offset up to another are in the input.
    fn places(&self, offsets: Range<u64>) -> Range<usize> {
        (offsets.start - self.offset) as usize..(offsets.end - self.offset) as usize
    }
}

impl<'a> Item<'a> {
    /// Returns its words: the command's name and its arguments. None for bare newlines.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let reader = self.reader;
        let number = |count: u64| (count - reader.words_released) as usize;
        let words = reader.words.range(number(self.before.words)..number(self.end.words));
        words.map(|word| {
            &reader.input.held()[reader.places(word.start..word.start + word.len as u64)]
        })
    }

    /// Returns its bytes, verbatim.
    pub fn bytes(&self) -> &'a [u8] {
        &self.reader.input.held()[self.reader.places(self.before.bytes..self.end.bytes)]
    }

    /// Returns the offset of its last byte.
    pub fn offset(&self) -> u64 {
        self.end.bytes
    }
}

impl std::fmt::Debug for Item<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.words().map(|w| w.escape_ascii().to_string())).finish()
    }
}

/// Returns how many bytes at the front of the input are newlines and empty arrays.
fn blank(input: &[u8]) -> usize {
    let mut rest = input;
    loop {
        rest = match rest {
            [b'\n', rest @ ..] | [b'\r', b'\n', rest @ ..] => rest,
            [b'*', b'0', b'\r', _, rest @ ..] => rest,
            _ => return input.len() - rest.len(),
        }
    }
}

/// Returns where a word, which is a part of the input, begins in it.
fn position(word: &[u8], input: &[u8]) -> usize {
    word.as_ptr().addr() - input.as_ptr().addr()
}
