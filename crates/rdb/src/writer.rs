//! Writing the bytes that Redis 7.0 writes.

use std::io::{self, Write};

use crate::item::canonical_int;
use crate::reader::FUNCTION;
use crate::{Kind, StreamId, StreamNode, lzf};

/// Strings of up to this many bytes may be stored as integers.
pub const LONGEST_INT: usize = 11;
/// Strings of more bytes than this are compressed.
pub const SHORTEST_COMPRESSED: usize = 20;
/// The number, or length of a string in bytes, from which on two bytes are written.
pub const MIDDLE: u64 = 64;
/// The number from which on five bytes are written.
pub const LONG: u64 = 16_384;

/// Writes the pieces that values and files are made of.
pub struct Writer<W> {
    to: W,
    table: Option<lzf::Table>,
}

impl<W: Write> Writer<W> {
    /// Writes to `to`; with `compresses`, long strings are compressed (`rdbcompression`).
    pub fn new(to: W, compresses: bool) -> Writer<W> {
        let table = compresses.then(lzf::Table::default);
        Writer { to, table }
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    /// Writes the type of a value.
    pub fn kind(&mut self, kind: Kind) -> io::Result<()> {
        self.raw(&[kind.number()])
    }

    /// Writes the source of a library of functions.
    pub fn function(&mut self, source: &[u8]) -> io::Result<()> {
        self.raw(&[FUNCTION])?;
        self.string(source)
    }

    /// Writes a number of elements, or any other number that is encoded like a length.
    pub fn length(&mut self, length: u64) -> io::Result<()> {
        match length {
            0..MIDDLE => self.raw(&[length as u8]),
            MIDDLE..LONG => self.raw(&[0x40 | (length >> 8) as u8, length as u8]),
            _ => match u32::try_from(length) {
                Ok(short) => {
                    self.raw(&[0x80])?;
                    self.raw(&short.to_be_bytes())
                }
                Err(_) => {
                    self.raw(&[0x81])?;
                    self.raw(&length.to_be_bytes())
                }
            },
        }
    }

    /// Writes a string, as an integer or compressed if that is shorter.
    pub fn string(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() <= LONGEST_INT
            && let Some(int) = canonical_int(bytes).and_then(|int| i32::try_from(int).ok())
        {
            return self.int(int);
        }
        if bytes.len() > SHORTEST_COMPRESSED
            && let Some(table) = &mut self.table
            && let Some(packed) = lzf::compress(table, bytes, bytes.len() - 4)
        {
            self.raw(&[0xc3])?;
            self.length(packed.len() as u64)?;
            self.length(bytes.len() as u64)?;
            return self.raw(&packed);
        }
        self.length(bytes.len() as u64)?;
        self.raw(bytes)
    }

    fn int(&mut self, int: i32) -> io::Result<()> {
        let low = int.to_le_bytes();
        if i8::try_from(int).is_ok() {
            self.raw(&[0xc0, low[0]])
        } else if i16::try_from(int).is_ok() {
            self.raw(&[0xc1, low[0], low[1]])
        } else {
            self.raw(&[0xc2])?;
            self.raw(&low)
        }
    }

    /// Writes a score.
    pub fn double(&mut self, score: f64) -> io::Result<()> {
        self.raw(&score.to_le_bytes())
    }

    /// Writes a time in milliseconds.
    pub fn millis(&mut self, time: u64) -> io::Result<()> {
        self.raw(&time.to_le_bytes())
    }

    /// Writes the ID of a pending entry.
    pub fn raw_id(&mut self, id: StreamId) -> io::Result<()> {
        self.raw(&id.to_bytes())
    }

    /// Writes an ID as two numbers.
    pub fn id(&mut self, id: StreamId) -> io::Result<()> {
        self.length(id.ms)?;
        self.length(id.seq)
    }

    /// Writes a node of a list.
    pub fn list_node(&mut self, node: &[u8]) -> io::Result<()> {
        self.length(crate::ListNodes::PACKED)?;
        self.string(node)
    }

    /// Writes a node of a stream.
    pub fn stream_node(&mut self, node: &StreamNode) -> io::Result<()> {
        self.string(&node.base.to_bytes())?;
        self.string(&node.listpack)
    }

    /// Returns the target of the bytes.
    pub fn inner_mut(&mut self) -> &mut W {
        &mut self.to
    }

    /// Returns the target of the bytes.
    pub fn into_inner(self) -> W {
        self.to
    }
}
