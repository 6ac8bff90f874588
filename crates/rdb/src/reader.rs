//! A dump file: its head, then records up to the end, then the checksum.
//!
//! The data before a key in the file (its expiry time, its use) is returned with the key. Its value
//! is read next, by [`Reader::value`], or skipped.

use std::io::{self, BufRead, Read};

use crate::frame::{Frame, Framing, Unframed, copy_value, value_len};
use crate::source::Source;
use crate::value::module;
use crate::{Error, Kind, Part, is_known_version, payload, read_value};

/// The numbers of records other than keys.
const SLOT: u8 = 244;
pub(crate) const FUNCTION: u8 = 245;
pub(crate) const FUNCTION_OLD: u8 = 246;
const MODULE: u8 = 247;
pub(crate) const IDLE: u8 = 248;
pub(crate) const FREQUENCY: u8 = 249;
pub(crate) const AUX: u8 = 250;
pub(crate) const SIZES: u8 = 251;
pub(crate) const EXPIRES_MS: u8 = 252;
const EXPIRES: u8 = 253;
pub(crate) const SELECT: u8 = 254;
pub(crate) const END: u8 = 255;

/// The version from which on there is a checksum.
pub(crate) const FIRST_CHECKSUM: u16 = 5;

/// The program whose format a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Redis's, which Valkey 7 and 8 also write.
    Redis,
    /// Valkey's own.
    Valkey,
}

/// A record of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// A name and a text about the file itself.
    Aux(Vec<u8>, Vec<u8>),
    /// The number of the database of the following records.
    Database(u64),
    /// How many keys the database has, and how many of them expire.
    Sizes(u64, u64),
    /// The number of a cluster's slot, of its keys, and of those that expire.
    Slot(u64, u64, u64),
    /// The source of a library of functions.
    Function(Vec<u8>),
    /// A key, whose value is to be read next.
    Key {
        /// The key.
        key: Vec<u8>,
        /// The type and encoding of its value.
        kind: Kind,
        /// When it expires, in unix ms.
        expires: Option<u64>,
        /// Seconds since its last use.
        idle: Option<u64>,
        /// The logarithmic counter of its uses.
        frequency: Option<u8>,
    },
    /// The end; the checksum matches the bytes, or there is none.
    End,
}

/// Reads a dump.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    origin: Origin,
    value: Option<Kind>,
    /// The bytes read of a value that was too large to be framed, and the position of its begin.
    begun: Option<(u64, Vec<u8>)>,
    /// Memory for the next key.
    spare: Vec<u8>,
    verifies: bool,
    is_at_end: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the head. Later, strings of more than `longest` bytes are refused. Nothing after the
    /// dump is consumed from `from`.
    pub fn new(from: R, longest: u64) -> Result<Reader<R>, Error> {
        Reader::open(from, longest).map_err(|(error, _)| error)
    }

    /// As [`Reader::new`]; if the head cannot be read, `from` is returned.
    pub fn open(from: R, longest: u64) -> Result<Reader<R>, (Error, R)> {
        let mut source = Source::new(from, 0, longest);
        match head(&mut source) {
            Ok((origin, version)) => {
                source.set_version(version);
                let (value, begun, spare) = (None, None, Vec::new());
                Ok(Reader { source, origin, value, begun, spare, verifies: true, is_at_end: false })
            }
            Err(error) => Err((error, source.into_inner())),
        }
    }

    /// Returns the input of the dump.
    pub fn get_mut(&mut self) -> &mut R {
        self.source.get_mut()
    }

    /// Ignores the checksum at the end (`rdbchecksum no`).
    pub fn without_checksum(mut self) -> Reader<R> {
        self.verifies = false;
        self.source.drop_checksum();
        self
    }

    /// Returns the program whose format it is.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns the version of the format.
    pub fn version(&self) -> u16 {
        self.source.version()
    }

    /// Returns how many bytes were read.
    pub fn at(&self) -> u64 {
        self.source.at()
    }

    /// Reads the next record. The end is the last one.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not lend the reader")]
    pub fn next(&mut self) -> Result<Record, Error> {
        self.value(|_| Ok::<_, Error>(()))?;
        if self.is_at_end {
            return Ok(Record::End);
        }
        let (mut expires, mut idle, mut frequency) = (None, None, None);
        loop {
            let at = self.source.at();
            let code = self.source.byte()?;
            let source = &mut self.source;
            match code {
                EXPIRES_MS => expires = time(source.millis()?),
                EXPIRES => {
                    let seconds = i32::from_le_bytes(source.array()?);
                    expires = time(i64::from(seconds) * 1000);
                }
                IDLE => idle = Some(source.length()?),
                FREQUENCY => frequency = Some(source.byte()?),
                AUX => return Ok(Record::Aux(source.string()?, source.string()?)),
                SELECT => return Ok(Record::Database(source.length()?)),
                SIZES => return Ok(Record::Sizes(source.length()?, source.length()?)),
                SLOT => {
                    let (slot, keys) = (source.length()?, source.length()?);
                    return Ok(Record::Slot(slot, keys, source.length()?));
                }
                FUNCTION => return Ok(Record::Function(source.string()?)),
                FUNCTION_OLD => return Err(Error::Type { kind: code, at }),
                MODULE => self.skip_module()?,
                END => return self.end(),
                number => {
                    let kind = Kind::of(number, source.version());
                    let kind = kind.ok_or(Error::Type { kind: number, at })?;
                    let mut key = std::mem::take(&mut self.spare);
                    source.string_into(&mut key)?;
                    self.value = Some(kind);
                    return Ok(Record::Key { key, kind, expires, idle, frequency });
                }
            }
        }
    }

    /// Takes the memory of a key for the next one.
    pub fn reuse(&mut self, key: Vec<u8>) {
        self.spare = key;
    }

    /// Reads the value of the key that [`Reader::next`] returned, and shows its parts; nothing if
    /// it was read already.
    pub fn value<E: From<Error>>(
        &mut self,
        show: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(kind) = self.value.take() else { return Ok(()) };
        let Some((at, begun)) = self.begun.take() else {
            return read_value(&mut self.source, kind, show);
        };
        let framing = self.framing();
        let rest = begun.chain(Rest(&mut self.source));
        let mut source = Source::new(rest, framing.version, framing.longest).starting_at(at);
        let read = read_value(&mut source, kind, show);
        // The bytes that it has read are consumed from this source too.
        source.get_mut();
        read
    }

    /// Returns the properties for reading frames of this dump.
    pub fn framing(&self) -> Framing {
        Framing { version: self.source.version(), longest: self.source.longest() }
    }

    /// Appends the bytes of the value of the key that [`Reader::next`] returned, unverified, to be
    /// read by [`Framing::read`]. Returns `None` if there are more than `most`: such a value is
    /// left to [`Reader::value`].
    pub fn frame(&mut self, into: &mut Vec<u8>, most: usize) -> Result<Option<Frame>, Error> {
        let Some(kind) = self.value.filter(|_| self.begun.is_none()) else { return Ok(None) };
        let (at, from) = (self.source.at(), into.len());
        let longest = self.source.longest();
        if let Ok(next) = self.source.next_bytes()
            && let Some(len) = value_len(next, kind, longest).filter(|&len| len <= most)
        {
            into.extend_from_slice(&next[..len]);
            self.source.skip(len);
            self.value = None;
            return Ok(Some(Frame::new(kind, from, into.len(), at)));
        }
        self.source.begin_copy(std::mem::take(into));
        let copied = copy_value(&mut self.source, kind, from.saturating_add(most));
        *into = self.source.end_copy();
        match copied {
            Ok(()) => {
                self.value = None;
                Ok(Some(Frame::new(kind, from, into.len(), at)))
            }
            Err(Unframed::Large) => {
                self.begun = Some((at, into.split_off(from)));
                Ok(None)
            }
            Err(Unframed::Read(error)) => {
                self.value = None;
                Err(error)
            }
        }
    }

    /// Reads the value of the key that [`Reader::next`] returned, verifies it, and returns it like
    /// DUMP: with type, version and checksum. Its encoding stays the same. Returns `None` if the
    /// value was read already, or is too large for a frame.
    pub fn payload(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(kind) = self.value.filter(|_| self.begun.is_none()) else { return Ok(None) };
        self.value = None;
        self.source.begin_copy(vec![kind.number()]);
        let read = read_value(&mut self.source, kind, |_| Ok::<_, Error>(()));
        let mut payload = self.source.end_copy();
        read?;
        payload::append_footer(&mut payload, self.source.version());
        Ok(Some(payload))
    }

    /// Skips the data that a module has written in addition to the keys; its parts name their
    /// types.
    fn skip_module(&mut self) -> Result<(), Error> {
        let refusal = module(&mut self.source)?;
        loop {
            match self.source.length()? {
                0 => return Ok(()),
                1 | 2 => drop(self.source.length()?),
                3 => drop(self.source.array::<4>()?),
                4 => drop(self.source.array::<8>()?),
                5 => drop(self.source.string()?),
                _ => return Err(refusal),
            }
        }
    }

    fn end(&mut self) -> Result<Record, Error> {
        let found = self.source.end_checksum()?;
        self.is_at_end = true;
        if self.source.version() < FIRST_CHECKSUM {
            return Ok(Record::End);
        }
        let expected = u64::from_le_bytes(self.source.array()?);
        // Code that reads on finds all of the dump consumed from the buffer.
        self.source.give_back()?;
        if self.verifies && expected != 0 && expected != found {
            return Err(Error::Checksum { expected, found });
        }
        Ok(Record::End)
    }

    /// Returns true if nothing follows the end of the dump.
    pub fn ends_here(&mut self) -> Result<bool, Error> {
        self.source.is_at_end()
    }
}

/// Reads the program and the version of the format, and begins the checksum.
pub(crate) fn head<R: BufRead>(source: &mut Source<R>) -> Result<(Origin, u16), Error> {
    source.begin_checksum()?;
    let head: [u8; 9] = source.array()?;
    let (origin, digits) = match head.strip_prefix(b"REDIS") {
        Some(digits) => (Origin::Redis, digits),
        None => match head.strip_prefix(b"VALKEY") {
            Some(digits) => (Origin::Valkey, digits),
            None => return Err(Error::Magic { found: String::from_utf8_lossy(&head).into() }),
        },
    };
    let version = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    let version = version.filter(|_| digits.iter().all(u8::is_ascii_digit)).unwrap_or(0);
    if !is_known_version(version) {
        return Err(Error::Version { version });
    }
    Ok((origin, version))
}

/// Returns a time; 0 if it is before 1970, since it has passed in any case. -1 means none.
fn time(millis: i64) -> Option<u64> {
    (millis != -1).then(|| u64::try_from(millis).unwrap_or(0))
}

/// The rest of a dump, as bytes.
struct Rest<'s, R>(&'s mut Source<R>);

impl<R: BufRead> Read for Rest<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let next = self.fill_buf()?;
        let len = next.len().min(into.len());
        into[..len].copy_from_slice(&next[..len]);
        self.consume(len);
        Ok(len)
    }
}

impl<R: BufRead> BufRead for Rest<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.next_bytes().map_err(|error| match error {
            Error::Io(error) => error,
            error => io::Error::other(error.to_string()),
        })
    }

    fn consume(&mut self, len: usize) {
        self.0.skip(len);
    }
}
