//! Writing a file: records around the values that a [`Writer`] writes.
//!
//! Bytes are collected and passed on in large pieces, each of which is added to the checksum at
//! once. The caller says when a key is complete ([`FileWriter::flush_full`]), so that nothing is
//! written twice; a value that is too large for memory is copied from a temporary place.

use std::io::{self, Read, Write};

use crate::checksum::{self, Checksum};
use crate::reader::{AUX, END, EXPIRES_MS, FREQUENCY, IDLE, SELECT, SIZES};
use crate::{Kind, Writer};

/// Bytes that are passed on at once.
pub const CHUNK: usize = 128 << 10;

/// The use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Seconds since its last use.
    Idle(u64),
    /// The logarithmic counter of its uses.
    Frequency(u8),
}

/// Writes a file of version 10.
pub struct FileWriter<W> {
    writer: Writer<Vec<u8>>,
    to: W,
    checksum: Option<Checksum>,
    handed_on: u64,
}

impl<W: Write> FileWriter<W> {
    /// Writes to `to`; with `compresses`, long strings are compressed (`rdbcompression`), and with
    /// `has_checksum` the file ends with a checksum (`rdbchecksum`).
    pub fn new(to: W, compresses: bool, has_checksum: bool) -> FileWriter<W> {
        let checksum = has_checksum.then(checksum::begin);
        FileWriter { writer: Writer::new(Vec::new(), compresses), to, checksum, handed_on: 0 }
    }

    /// Writes the head.
    pub fn begin(&mut self) -> io::Result<()> {
        self.writer.raw(format!("REDIS{:04}", crate::VERSION).as_bytes())
    }

    /// Writes the head of Valkey's own version of the format, in which a hash may be a
    /// [`Kind::HashValkey`].
    pub fn begin_valkey(&mut self) -> io::Result<()> {
        self.writer.raw(format!("VALKEY{:03}", crate::VALKEY.start()).as_bytes())
    }

    /// Writes a name and a text about the file itself.
    pub fn aux(&mut self, name: &[u8], text: &[u8]) -> io::Result<()> {
        self.writer.raw(&[AUX])?;
        self.writer.string(name)?;
        self.writer.string(text)
    }

    /// Writes the number of the database of the following keys.
    pub fn database(&mut self, number: u64) -> io::Result<()> {
        self.writer.raw(&[SELECT])?;
        self.writer.length(number)
    }

    /// Writes how many keys the database has, and how many of them expire.
    pub fn sizes(&mut self, keys: u64, expiring: u64) -> io::Result<()> {
        self.writer.raw(&[SIZES])?;
        self.writer.length(keys)?;
        self.writer.length(expiring)
    }

    /// Writes the source of a library of functions.
    pub fn function(&mut self, source: &[u8]) -> io::Result<()> {
        self.writer.function(source)
    }

    /// Begins a key, which may expire; its value is to be written next.
    pub fn key(
        &mut self,
        key: &[u8],
        expires: Option<u64>,
        usage: Option<Usage>,
        kind: Kind,
    ) -> io::Result<()> {
        if let Some(time) = expires {
            self.writer.raw(&[EXPIRES_MS])?;
            self.writer.millis(time)?;
        }
        match usage {
            Some(Usage::Idle(seconds)) => {
                self.writer.raw(&[IDLE])?;
                self.writer.length(seconds)?;
            }
            Some(Usage::Frequency(counter)) => self.writer.raw(&[FREQUENCY, counter])?,
            None => {}
        }
        self.writer.kind(kind)?;
        self.writer.string(key)
    }

    /// Returns the writer for the value of a key.
    pub fn value(&mut self) -> &mut Writer<Vec<u8>> {
        &mut self.writer
    }

    /// Copies bytes that are part of a value.
    pub fn copy(&mut self, from: &mut dyn Read) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        loop {
            self.flush()?;
            match from.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(read) => self.writer.raw(&chunk[..read])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Appends complete records that another writer has written.
    pub fn append(&mut self, records: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.hand_on(records)
    }

    /// Passes the written bytes on, if there are many.
    pub fn flush_full(&mut self) -> io::Result<()> {
        if self.writer.inner_mut().len() < CHUNK { Ok(()) } else { self.flush() }
    }

    /// Passes the written bytes on.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut bytes = std::mem::take(self.writer.inner_mut());
        let done = self.hand_on(&bytes);
        bytes.clear();
        *self.writer.inner_mut() = bytes;
        done
    }

    fn hand_on(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(checksum) = &mut self.checksum {
            checksum.update(bytes);
        }
        self.to.write_all(bytes)?;
        self.handed_on += bytes.len() as u64;
        Ok(())
    }

    /// Returns the target of the bytes.
    pub fn to_mut(&mut self) -> &mut W {
        &mut self.to
    }

    /// Returns how many bytes were written.
    pub fn written(&mut self) -> u64 {
        self.handed_on + self.writer.inner_mut().len() as u64
    }

    /// Writes the end. Returns the target of the bytes.
    pub fn end(mut self) -> io::Result<W> {
        self.writer.raw(&[END])?;
        self.flush()?;
        let checksum = self.checksum.take().map_or(0, |checksum| checksum.finalize());
        self.to.write_all(&checksum.to_le_bytes())?;
        self.to.flush()?;
        Ok(self.to)
    }
}
