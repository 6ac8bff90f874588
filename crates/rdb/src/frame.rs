//! Values as bytes of a dump, found by reading lengths only.
//!
//! When several threads load a dump, one of them frames the values, which is quick, and others read
//! and verify them. A frame ends where reading the value ends, whatever is wrong in between. A
//! value of more bytes than are wanted in memory is not framed.

use std::io::BufRead;

use crate::source::{LZF_MOST, Length, Source, short_length};
use crate::value::{list_node, packed_in, read_value};
use crate::{Error, Kind, Part, lzf};

/// The first byte of a compressed string.
const COMPRESSED: u8 = 0xc3;

/// The position of a value's bytes in the buffer that [`crate::Reader::frame`] appended to.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    kind: Kind,
    from: usize,
    to: usize,
    /// Its position in the dump.
    at: u64,
}

impl Frame {
    pub(crate) fn new(kind: Kind, from: usize, to: usize, at: u64) -> Frame {
        Frame { kind, from, to, at }
    }

    /// Returns the type of the value.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns how many bytes it has.
    pub fn len(&self) -> usize {
        self.to - self.from
    }

    /// Returns true if it is empty, which no value is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The properties of a dump that are needed to read its frames.
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    pub(crate) version: u16,
    pub(crate) longest: u64,
}

impl Framing {
    /// Reads the value of a frame and shows its parts, which are valid only if this succeeds.
    /// `spare` is memory for compressed strings, which the next frame can use again.
    pub fn read<E: From<Error>>(
        self,
        frame: &Frame,
        bytes: &[u8],
        spare: &mut Vec<u8>,
        mut show: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let bytes = &bytes[frame.from..frame.to];
        let is_one = frame.kind == Kind::String || frame.kind.is_packed();
        if is_one && let Some(value) = self.string(bytes, spare) {
            match frame.kind {
                Kind::String => return show(Part::String(value)),
                kind => {
                    let at = frame.at + bytes.len() as u64;
                    return packed_in(value, at, kind, &mut show);
                }
            }
        }
        if let (Kind::ListQuicklist2, [1, 2, node @ ..]) = (frame.kind, bytes)
            && let Some(node) = self.string(node, spare)
        {
            return list_node(node, frame.at + bytes.len() as u64, &mut show);
        }
        let mut source = Source::new(bytes, self.version, self.longest).starting_at(frame.at);
        read_value(&mut source, frame.kind, show)?;
        match source.at() - frame.at {
            read if read == bytes.len() as u64 => Ok(()),
            _ => Err(source.corrupt("Value").into()),
        }
    }
}

impl Framing {
    /// Returns the string that all of these bytes encode, if it is stored plainly or compressed,
    /// with lengths of one or two bytes. Unusual encodings are left to the general reader.
    fn string<'b>(self, bytes: &'b [u8], spare: &'b mut Vec<u8>) -> Option<&'b [u8]> {
        let is_whole = |len: usize, value: &[u8]| value.len() == len && len as u64 <= self.longest;
        let Some((&COMPRESSED, rest)) = bytes.split_first() else {
            let (len, value) = short_length(bytes)?;
            return is_whole(len, value).then_some(value);
        };
        let (packed_len, rest) = short_length(rest)?;
        let (len, packed) = short_length(rest)?;
        let is_possible = len as u64 <= self.longest && len as u64 <= packed_len as u64 * LZF_MOST;
        if packed.len() != packed_len || !is_possible {
            return None;
        }
        spare.clear();
        lzf::decompress(packed, len, spare)?;
        Some(spare)
    }
}

/// Returns the length of the value that `bytes` begin with, if it is complete and no string has
/// more than `longest` bytes. Unusual encodings are left to the general reader.
pub(crate) fn value_len(bytes: &[u8], kind: Kind, longest: u64) -> Option<usize> {
    let mut value = Measured { bytes, at: 0, longest };
    match kind {
        Kind::List | Kind::Set | Kind::ListQuicklist => value.each(Measured::string)?,
        Kind::ListQuicklist2 => value.each(|value| value.length().and_then(|_| value.string()))?,
        Kind::Hash => value.each(|value| value.string().and_then(|()| value.string()))?,
        Kind::SortedSet => value.each(|value| value.string().and_then(|()| value.skip(8)))?,
        kind if kind == Kind::String || kind.is_packed() => value.string()?,
        _ => return None,
    }
    Some(value.at)
}

/// Bytes, of which some were measured.
struct Measured<'b> {
    bytes: &'b [u8],
    at: usize,
    longest: u64,
}

impl Measured<'_> {
    #[inline]
    fn skip(&mut self, len: usize) -> Option<()> {
        self.at = self.at.checked_add(len).filter(|&at| at <= self.bytes.len())?;
        Some(())
    }

    #[inline]
    fn length(&mut self) -> Option<usize> {
        let (len, rest) = short_length(self.bytes.get(self.at..)?)?;
        self.at = self.bytes.len() - rest.len();
        Some(len)
    }

    #[inline]
    fn string(&mut self) -> Option<()> {
        let len = match *self.bytes.get(self.at)? {
            0..128 => self.length()?,
            bits @ 0xc0..0xc3 => {
                self.at += 1;
                1 << (bits & 3)
            }
            COMPRESSED => {
                self.at += 1;
                let packed_len = self.length()?;
                self.length()?;
                packed_len
            }
            _ => return None,
        };
        if len as u64 > self.longest { None } else { self.skip(len) }
    }

    fn each(&mut self, mut one: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let count = self.length()?;
        (0..count).try_for_each(|_| one(self))
    }
}

/// Why a value was not framed.
pub(crate) enum Unframed {
    /// It cannot be read.
    Read(Error),
    /// It has more bytes than are wanted.
    Large,
}

impl From<Error> for Unframed {
    fn from(error: Error) -> Unframed {
        Unframed::Read(error)
    }
}

/// Copies the bytes of a value, if they are at most `most`.
pub(crate) fn copy_value<R: BufRead>(
    source: &mut Source<R>,
    kind: Kind,
    most: usize,
) -> Result<(), Unframed> {
    Copy { source, most }.value(kind)
}

struct Copy<'s, R> {
    source: &'s mut Source<R>,
    most: usize,
}

impl<R: BufRead> Copy<'_, R> {
    fn value(&mut self, kind: Kind) -> Result<(), Unframed> {
        match kind {
            Kind::List | Kind::Set | Kind::ListQuicklist => self.each(|copy| copy.string()),
            Kind::ListQuicklist2 => self.each(|copy| {
                copy.source.length()?;
                copy.string()
            }),
            Kind::Hash => self.each(Copy::pair),
            Kind::HashValkey => self.each(|copy| {
                copy.pair()?;
                copy.bytes(8)
            }),
            Kind::SortedSet => self.each(|copy| {
                copy.string()?;
                copy.bytes(8)
            }),
            Kind::SortedSetText => self.each(|copy| {
                copy.string()?;
                match copy.source.byte()? {
                    253.. => Ok(()),
                    len => copy.bytes(u64::from(len)),
                }
            }),
            Kind::HashExpiring | Kind::HashExpiringOld => {
                if kind == Kind::HashExpiring {
                    self.bytes(8)?;
                }
                self.each(|copy| {
                    copy.source.length()?;
                    copy.pair()
                })
            }
            Kind::Stream | Kind::Stream2 | Kind::Stream3 => self.stream(kind),
            Kind::Module | Kind::ModuleOld => Err(crate::value::module(self.source)?.into()),
            Kind::HashListpackExpiring => {
                self.bytes(8)?;
                self.string()
            }
            _ => self.string(),
        }
    }

    /// Copies a count, and as many times what `one` copies.
    fn each(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<(), Unframed>,
    ) -> Result<(), Unframed> {
        for _ in 0..self.source.length()? {
            one(self)?;
        }
        Ok(())
    }

    fn pair(&mut self) -> Result<(), Unframed> {
        self.string()?;
        self.string()
    }

    fn string(&mut self) -> Result<(), Unframed> {
        let len = match self.source.any_length()? {
            Length::Plain(len) => len,
            Length::Special(bits @ 0..3) => 1 << bits,
            Length::Special(3) => {
                let packed = self.source.length()?;
                self.source.length()?;
                packed
            }
            Length::Special(_) => return Err(Error::Length { at: self.source.at() - 1 }.into()),
        };
        self.source.checked(len)?;
        self.bytes(len)
    }

    fn bytes(&mut self, len: u64) -> Result<(), Unframed> {
        let copied = self.source.copied();
        let is_wanted = |len: &usize| copied.checked_add(*len).is_some_and(|len| len <= self.most);
        match usize::try_from(len).ok().filter(is_wanted) {
            Some(len) => Ok(self.source.copy(len)?),
            None => Err(Unframed::Large),
        }
    }

    fn stream(&mut self, kind: Kind) -> Result<(), Unframed> {
        self.each(Copy::pair)?;
        let numbers = if kind == Kind::Stream { 3 } else { 8 };
        for _ in 0..numbers {
            self.source.length()?;
        }
        self.each(|copy| copy.group(kind))
    }

    fn group(&mut self, kind: Kind) -> Result<(), Unframed> {
        self.string()?;
        let numbers = if kind == Kind::Stream { 2 } else { 3 };
        for _ in 0..numbers {
            self.source.length()?;
        }
        self.each(|copy| {
            copy.bytes(24)?;
            copy.source.length()?;
            Ok(())
        })?;
        self.each(|copy| {
            copy.string()?;
            copy.bytes(if kind == Kind::Stream3 { 16 } else { 8 })?;
            copy.each(|copy| copy.bytes(16))
        })
    }
}
