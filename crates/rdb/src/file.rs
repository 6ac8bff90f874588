//! Writing a file: records around the values that a [`Writer`] writes.
//!
//! Bytes are collected and handed on in large pieces, whose checksum is computed at once. The
//! caller says when a key is complete ([`FileWriter::flush_full`]), so that nothing is written
//! twice; a value that is too large for memory is copied from where it was put meanwhile.

use std::io::{self, Read, Write};

use crate::checksum::{self, Checksum};
use crate::reader::{AUX, END, EXPIRES_MS, FREQUENCY, IDLE, SELECT, SIZES};
use crate::{Kind, Writer};

/// Bytes that are handed on at once.
pub const CHUNK: usize = 128 << 10;

/// How a key was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// For how many seconds nobody had used it.
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
    /// Writes to `to`; compresses long strings if that is wanted (`rdbcompression`), and ends with
    /// a checksum if that is (`rdbchecksum`).
    pub fn new(to: W, compresses: bool, has_checksum: bool) -> FileWriter<W> {
        let checksum = has_checksum.then(checksum::begin);
        FileWriter { writer: Writer::new(Vec::new(), compresses), to, checksum, handed_on: 0 }
    }

    /// Writes the head.
    pub fn begin(&mut self) -> io::Result<()> {
        self.writer.raw(format!("REDIS{:04}", crate::VERSION).as_bytes())
    }

    /// Writes the head of Valkey's own version of the format, where a hash may be a
    /// [`Kind::HashValkey`].
    pub fn begin_valkey(&mut self) -> io::Result<()> {
        self.writer.raw(format!("VALKEY{:03}", crate::VALKEY.start()).as_bytes())
    }

    /// Writes a name and a text that the file says of itself.
    pub fn aux(&mut self, name: &[u8], text: &[u8]) -> io::Result<()> {
        self.writer.raw(&[AUX])?;
        self.writer.string(name)?;
        self.writer.string(text)
    }

    /// Says that what follows is in this database.
    pub fn database(&mut self, number: u64) -> io::Result<()> {
        self.writer.raw(&[SELECT])?;
        self.writer.length(number)
    }

    /// Says how many keys the database has, and how many of them expire.
    pub fn sizes(&mut self, keys: u64, expiring: u64) -> io::Result<()> {
        self.writer.raw(&[SIZES])?;
        self.writer.length(keys)?;
        self.writer.length(expiring)
    }

    /// Writes the source of a library of functions.
    pub fn function(&mut self, source: &[u8]) -> io::Result<()> {
        self.writer.function(source)
    }

    /// Begins a key that expires at a time, if at all; its value follows.
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

    /// Returns what the value of a key is written with.
    pub fn value(&mut self) -> &mut Writer<Vec<u8>> {
        &mut self.writer
    }

    /// Writes bytes that are a part of a value as they are.
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

    /// Adds whole records that another one has written.
    pub fn append(&mut self, records: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.hand_on(records)
    }

    /// Hands on what was written, if that is much.
    pub fn flush_full(&mut self) -> io::Result<()> {
        if self.writer.inner_mut().len() < CHUNK { Ok(()) } else { self.flush() }
    }

    /// Hands on what was written.
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

    /// Returns what it hands on to.
    pub fn to_mut(&mut self) -> &mut W {
        &mut self.to
    }

    /// Returns how many bytes were written.
    pub fn written(&mut self) -> u64 {
        self.handed_on + self.writer.inner_mut().len() as u64
    }

    /// Writes the end, and gives back what it was written to.
    pub fn end(mut self) -> io::Result<W> {
        self.writer.raw(&[END])?;
        self.flush()?;
        let checksum = self.checksum.take().map_or(0, |checksum| checksum.finalize());
        self.to.write_all(&checksum.to_le_bytes())?;
        self.to.flush()?;
        Ok(self.to)
    }
}
