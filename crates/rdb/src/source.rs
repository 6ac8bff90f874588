//! Bytes of a dump, read in order: lengths, strings and numbers, each with its checks.
//!
//! They are read in place, in the buffer of the input, and are consumed from it together, when
//! their checksum is computed. Nothing after the dump is consumed. Memory grows with the bytes
//! read, never with a claimed length.

use std::io::{self, BufRead};

use crate::checksum::{self, Checksum};
use crate::{Error, lzf};

/// Maximum factor by which LZF can expand a string, rounded up.
pub(crate) const LZF_MOST: u64 = 100;

/// A length, or the mark of a string that is stored in another way.
pub(crate) enum Length {
    Plain(u64),
    Special(u8),
}

/// The input of a dump.
#[derive(Debug)]
pub struct Source<R> {
    from: R,
    /// The buffer's position in the dump.
    before: u64,
    /// Bytes of the buffer that were read and not yet consumed.
    used: usize,
    longest: u64,
    version: u16,
    checksum: Option<ChecksumState>,
    copy: Option<Vec<u8>>,
}

/// A checksum of the consumed bytes.
struct ChecksumState(Checksum);

impl std::fmt::Debug for ChecksumState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CRC64")
    }
}

impl<R: BufRead> Source<R> {
    /// Reads from `from`, which is of this version of the format. Strings of more than `longest`
    /// bytes are refused.
    pub fn new(from: R, version: u16, longest: u64) -> Source<R> {
        Source { from, before: 0, used: 0, longest, version, checksum: None, copy: None }
    }

    /// Sets the position of the first byte.
    pub(crate) fn starting_at(self, at: u64) -> Source<R> {
        Source { before: at, ..self }
    }

    /// Returns the length of the longest accepted string.
    pub(crate) fn longest(&self) -> u64 {
        self.longest
    }

    /// Returns how many bytes were read.
    pub fn at(&self) -> u64 {
        self.before + self.used as u64
    }

    /// Returns the input, from which all bytes read are consumed.
    pub(crate) fn get_mut(&mut self) -> &mut R {
        // The bytes are in the buffer, so consuming them takes no system call and does not fail.
        let _ = self.give_back();
        &mut self.from
    }

    /// Returns the version of the format.
    pub fn version(&self) -> u16 {
        self.version
    }

    pub(crate) fn set_version(&mut self, version: u16) {
        self.version = version;
    }

    /// Begins a checksum of the bytes read.
    pub(crate) fn begin_checksum(&mut self) -> Result<(), Error> {
        self.give_back()?;
        self.checksum = Some(ChecksumState(checksum::begin()));
        Ok(())
    }

    /// Returns the checksum of the bytes read since it was begun.
    pub(crate) fn end_checksum(&mut self) -> Result<u64, Error> {
        self.give_back()?;
        Ok(self.checksum.take().map_or(0, |state| state.0.finalize()))
    }

    /// Ends the checksum.
    pub(crate) fn drop_checksum(&mut self) {
        self.checksum = None;
    }

    /// Returns the input.
    pub(crate) fn into_inner(self) -> R {
        self.from
    }

    /// Records that this many of [`Source::next_bytes`] were read.
    pub(crate) fn skip(&mut self, len: usize) {
        self.used += len;
    }

    /// Consumes the bytes read from the buffer.
    pub(crate) fn give_back(&mut self) -> Result<(), Error> {
        if self.used == 0 {
            return Ok(());
        }
        let buffer = self.from.fill_buf().map_err(Error::Io)?;
        if let Some(ChecksumState(checksum)) = &mut self.checksum {
            checksum.update(&buffer[..self.used]);
        }
        self.from.consume(self.used);
        self.before += self.used as u64;
        self.used = 0;
        Ok(())
    }

    /// Returns the next bytes, at least one; none at the end.
    #[inline]
    pub(crate) fn next_bytes(&mut self) -> Result<&[u8], Error> {
        match self.from.fill_buf() {
            // A second call lends it, since a buffer that may be used up must not be lent.
            Ok(buffer) if buffer.len() > self.used => {
                Ok(&self.from.fill_buf().map_err(Error::Io)?[self.used..])
            }
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(Error::Io(error)),
            _ => self.refill(),
        }
    }

    #[cold]
    fn refill(&mut self) -> Result<&[u8], Error> {
        self.give_back()?;
        loop {
            match self.from.fill_buf() {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Io(error)),
            }
        }
        // It is in the buffer now.
        self.from.fill_buf().map_err(Error::Io)
    }

    /// Begins to copy the bytes read, after these ones.
    pub(crate) fn begin_copy(&mut self, after: Vec<u8>) {
        self.copy = Some(after);
    }

    /// Returns the copy since it was begun.
    pub(crate) fn end_copy(&mut self) -> Vec<u8> {
        self.copy.take().unwrap_or_default()
    }

    pub(crate) fn corrupt(&self, what: &'static str) -> Error {
        Error::Corrupt { what, at: self.at() }
    }

    pub(crate) fn bad_group(&self, what: &'static str) -> Error {
        Error::Group { what, at: self.at() }
    }

    pub(crate) fn fill(&mut self, into: &mut [u8]) -> Result<(), Error> {
        self.read(into)?;
        if let Some(copy) = &mut self.copy {
            copy.extend_from_slice(into);
        }
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), Error> {
        let mut have = 0;
        while have < into.len() {
            let next = self.next_bytes()?;
            let len = next.len().min(into.len() - have);
            into[have..have + len].copy_from_slice(&next[..len]);
            if len == 0 {
                return Err(Error::Cut { at: self.at() });
            }
            (have, self.used) = (have + len, self.used + len);
        }
        Ok(())
    }

    /// Returns the length of the copy since it was begun.
    pub(crate) fn copied(&self) -> usize {
        self.copy.as_ref().map_or(0, Vec::len)
    }

    /// Copies bytes that are not interpreted now.
    pub(crate) fn copy(&mut self, len: usize) -> Result<(), Error> {
        let mut copy = self.copy.take().unwrap_or_default();
        let appended = self.append(len, &mut copy);
        self.copy = Some(copy);
        appended
    }

    /// Appends this many bytes to `into`.
    fn append(&mut self, len: usize, into: &mut Vec<u8>) -> Result<(), Error> {
        let mut left = len;
        while left > 0 {
            let next = self.next_bytes()?;
            let step = next.len().min(left);
            into.extend_from_slice(&next[..step]);
            if step == 0 {
                return Err(Error::Cut { at: self.at() });
            }
            (left, self.used) = (left - step, self.used + step);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        match self.next_bytes()?.first_chunk::<N>() {
            Some(next) => {
                bytes = *next;
                self.used += N;
                if let Some(copy) = &mut self.copy {
                    copy.extend_from_slice(&bytes);
                }
            }
            None => self.fill(&mut bytes)?,
        }
        Ok(bytes)
    }

    #[inline]
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
            _ => return Err(Error::Length { at: self.at() - 1 }),
        })
    }

    /// Reads a number that is encoded like a length.
    pub fn length(&mut self) -> Result<u64, Error> {
        match self.any_length()? {
            Length::Plain(length) => Ok(length),
            Length::Special(_) => Err(Error::Length { at: self.at() - 1 }),
        }
    }

    /// Reads a number of elements, of which there is at least one.
    pub(crate) fn count(&mut self) -> Result<u64, Error> {
        match self.length()? {
            0 => Err(Error::Empty { at: self.at() }),
            count => Ok(count),
        }
    }

    /// Reads a string into `into`, which it replaces.
    #[inline]
    pub fn string_into(&mut self, into: &mut Vec<u8>) -> Result<(), Error> {
        into.clear();
        if self.copy.is_none()
            && let Ok(next) = self.next_bytes()
            && let Some((len, rest)) = short_length(next)
            && let Some(string) = rest.get(..len)
        {
            into.extend_from_slice(string);
            let used = next.len() - rest.len() + len;
            if len as u64 <= self.longest {
                self.used += used;
                return Ok(());
            }
            into.clear();
        }
        self.any_string_into(into)
    }

    fn any_string_into(&mut self, into: &mut Vec<u8>) -> Result<(), Error> {
        match self.any_length()? {
            Length::Plain(length) => self.take(length, into)?,
            Length::Special(0) => number(i64::from(i8::from_le_bytes(self.array()?)), into),
            Length::Special(1) => number(i64::from(i16::from_le_bytes(self.array()?)), into),
            Length::Special(2) => number(i64::from(i32::from_le_bytes(self.array()?)), into),
            Length::Special(3) => self.compressed(into)?,
            Length::Special(_) => return Err(Error::Length { at: self.at() - 1 }),
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
        let error = Error::TooLong { len, longest: self.longest, at: self.at() };
        usize::try_from(len).ok().filter(|_| len <= self.longest).ok_or(error)
    }

    fn take(&mut self, len: u64, into: &mut Vec<u8>) -> Result<(), Error> {
        let from = into.len();
        self.append(self.checked(len)?, into)?;
        if let Some(copy) = &mut self.copy {
            copy.extend_from_slice(&into[from..]);
        }
        Ok(())
    }

    fn compressed(&mut self, into: &mut Vec<u8>) -> Result<(), Error> {
        let (packed_len, len) = (self.length()?, self.length()?);
        let at = self.at();
        let len = self.checked(len)?;
        if len as u64 > packed_len.saturating_mul(LZF_MOST) {
            return Err(Error::Length { at });
        }
        let mut packed = Vec::new();
        self.take(packed_len, &mut packed)?;
        lzf::decompress(&packed, len, into).ok_or_else(|| self.corrupt("LZF compressed string"))
    }

    /// Returns true if nothing is left.
    pub(crate) fn is_at_end(&mut self) -> Result<bool, Error> {
        match self.byte() {
            Ok(_) => Ok(false),
            Err(Error::Cut { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Returns a length of one or two bytes, and the rest.
#[inline]
pub(crate) fn short_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match *bytes {
        [len @ 0..64, ref rest @ ..] => Some((usize::from(len), rest)),
        [high @ 64..128, low, ref rest @ ..] => {
            Some((usize::from(high & 63) << 8 | usize::from(low), rest))
        }
        _ => None,
    }
}

fn number(number: i64, into: &mut Vec<u8>) {
    into.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
