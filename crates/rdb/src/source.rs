//! Bytes of a dump, read in order: lengths, strings and numbers, each with its checks.
//!
//! Memory grows with what has been read, never with what a length promises.

use std::io::{self, Read};

use crate::checksum::{self, Checksum};
use crate::{Error, lzf};

/// Bytes that are read at once before it is known that there are more.
const CHUNK: usize = 64 << 10;
/// How many times longer than its compressed form LZF can make a string, rounded up.
pub(crate) const LZF_MOST: u64 = 100;

/// A length, or a string that is stored in another way.
pub(crate) enum Length {
    Plain(u64),
    Special(u8),
}

/// What a dump is read from.
#[derive(Debug)]
pub struct Source<R> {
    from: R,
    at: u64,
    longest: u64,
    version: u16,
    checksum: Option<ChecksumState>,
    copy: Option<Vec<u8>>,
}

/// A checksum of bytes that come in small pieces: they are collected, since it is slow for few.
struct ChecksumState {
    checksum: Checksum,
    pending: Vec<u8>,
}

impl ChecksumState {
    fn add(&mut self, bytes: &[u8]) {
        if self.pending.len() + bytes.len() > CHUNK {
            self.checksum.update(&self.pending);
            self.pending.clear();
        }
        match bytes.len() < CHUNK {
            true => self.pending.extend_from_slice(bytes),
            false => self.checksum.update(bytes),
        }
    }

    fn finish(mut self) -> u64 {
        self.checksum.update(&self.pending);
        self.checksum.finalize()
    }
}

impl std::fmt::Debug for ChecksumState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CRC64")
    }
}

impl<R: Read> Source<R> {
    /// Reads from `from` what is of this version of the format; a string of more than `longest`
    /// bytes is refused. It makes many small reads: give it a buffer.
    pub fn new(from: R, version: u16, longest: u64) -> Source<R> {
        Source { from, at: 0, longest, version, checksum: None, copy: None }
    }

    /// Counts what is read from this place on.
    pub(crate) fn starting_at(self, at: u64) -> Source<R> {
        Source { at, ..self }
    }

    /// Returns the longest string that is taken.
    pub(crate) fn longest(&self) -> u64 {
        self.longest
    }

    /// Returns how many bytes were read.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Returns the version of the format.
    pub fn version(&self) -> u16 {
        self.version
    }

    pub(crate) fn set_version(&mut self, version: u16) {
        self.version = version;
    }

    /// Begins to add up what is read.
    pub(crate) fn begin_checksum(&mut self) {
        let pending = Vec::with_capacity(CHUNK);
        self.checksum = Some(ChecksumState { checksum: checksum::begin(), pending });
    }

    /// Returns the checksum of what was read since it was begun.
    pub(crate) fn end_checksum(&mut self) -> u64 {
        self.checksum.take().map_or(0, ChecksumState::finish)
    }

    /// Begins to copy what is read, after these bytes.
    pub(crate) fn begin_copy(&mut self, after: Vec<u8>) {
        self.copy = Some(after);
    }

    /// Returns what was copied since it was begun.
    pub(crate) fn end_copy(&mut self) -> Vec<u8> {
        self.copy.take().unwrap_or_default()
    }

    pub(crate) fn corrupt(&self, what: &'static str) -> Error {
        Error::Corrupt { what, at: self.at }
    }

    pub(crate) fn bad_group(&self, what: &'static str) -> Error {
        Error::Group { what, at: self.at }
    }

    pub(crate) fn fill(&mut self, into: &mut [u8]) -> Result<(), Error> {
        self.read(into)?;
        if let Some(copy) = &mut self.copy {
            copy.extend_from_slice(into);
        }
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), Error> {
        self.from.read_exact(into).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::Cut { at: self.at },
            _ => Error::Io(error),
        })?;
        self.at += into.len() as u64;
        if let Some(checksum) = &mut self.checksum {
            checksum.add(into);
        }
        Ok(())
    }

    /// Returns how many bytes were copied since that was begun.
    pub(crate) fn copied(&self) -> usize {
        self.copy.as_ref().map_or(0, Vec::len)
    }

    /// Copies bytes that are of no interest for now.
    pub(crate) fn copy(&mut self, len: usize) -> Result<(), Error> {
        let mut copy = self.copy.take().unwrap_or_default();
        let from = copy.len();
        copy.resize(from + len, 0);
        let read = self.read(&mut copy[from..]);
        self.copy = Some(copy);
        read
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a time in milliseconds.
    pub(crate) fn millis(&mut self) -> Result<i64, Error> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub(crate) fn double(&mut self) -> Result<f64, Error> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    pub(crate) fn any_length(&mut self) -> Result<Length, Error> {
        let first = self.byte()?;
        let low = first & 63;
        Ok(match (first >> 6, first) {
            (0, _) => Length::Plain(u64::from(low)),
            (1, _) => Length::Plain(u64::from(low) << 8 | u64::from(self.byte()?)),
            (2, 0x80) => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
            (2, 0x81) => Length::Plain(u64::from_be_bytes(self.array()?)),
            (3, _) => Length::Special(low),
            _ => return Err(Error::Length { at: self.at - 1 }),
        })
    }

    /// Reads a number in the form of a length.
    pub fn length(&mut self) -> Result<u64, Error> {
        match self.any_length()? {
            Length::Plain(length) => Ok(length),
            Length::Special(_) => Err(Error::Length { at: self.at - 1 }),
        }
    }

    /// Reads a number of elements, of which there is at least one.
    pub(crate) fn count(&mut self) -> Result<u64, Error> {
        match self.length()? {
            0 => Err(Error::Empty { at: self.at }),
            count => Ok(count),
        }
    }

    /// Reads a string in place of what `into` has.
    pub fn string_into(&mut self, into: &mut Vec<u8>) -> Result<(), Error> {
        into.clear();
        match self.any_length()? {
            Length::Plain(length) => self.take(length, into)?,
            Length::Special(0) => number(i64::from(i8::from_le_bytes(self.array()?)), into),
            Length::Special(1) => number(i64::from(i16::from_le_bytes(self.array()?)), into),
            Length::Special(2) => number(i64::from(i32::from_le_bytes(self.array()?)), into),
            Length::Special(3) => self.compressed(into)?,
            Length::Special(_) => return Err(Error::Length { at: self.at - 1 }),
        }
        Ok(())
    }

    /// Reads a string.
    pub fn string(&mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.string_into(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn checked(&self, len: u64) -> Result<usize, Error> {
        let error = Error::TooLong { len, longest: self.longest, at: self.at };
        usize::try_from(len).ok().filter(|_| len <= self.longest).ok_or(error)
    }

    fn take(&mut self, len: u64, into: &mut Vec<u8>) -> Result<(), Error> {
        let len = self.checked(len)?;
        while into.len() < len {
            let have = into.len();
            let step = (len - have).min(CHUNK.max(have));
            into.resize(have + step, 0);
            self.fill(&mut into[have..])?;
        }
        Ok(())
    }

    fn compressed(&mut self, into: &mut Vec<u8>) -> Result<(), Error> {
        let (packed_len, len) = (self.length()?, self.length()?);
        let at = self.at;
        let len = self.checked(len)?;
        if len as u64 > packed_len.saturating_mul(LZF_MOST) {
            return Err(Error::Length { at });
        }
        let mut packed = Vec::new();
        self.take(packed_len, &mut packed)?;
        lzf::decompress(&packed, len, into).ok_or_else(|| self.corrupt("LZF compressed string"))
    }

    /// Reads what is left, which must be nothing.
    pub(crate) fn is_at_end(&mut self) -> Result<bool, Error> {
        match self.byte() {
            Ok(_) => Ok(false),
            Err(Error::Cut { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

fn number(number: i64, into: &mut Vec<u8>) {
    into.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
