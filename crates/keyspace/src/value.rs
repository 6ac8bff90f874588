//! Values as readers see them.

use heap::{Ptr, Shard, View};
use structures::blob::Blob;

use crate::Error;
use crate::entry;
use crate::layout::{Kind, int_of};
use crate::types::Encoding;

/// The maximum length, in bytes, of a string that Redis calls "embstr".
pub const EMBSTR_MAX: usize = 44;

/// The maximum length of a string, in bytes.
pub(crate) const MAX_STRING: usize = 512 << 20;

/// A string value that is read in place.
pub struct Str<'t> {
    repr: Repr<'t>,
}

enum Repr<'t> {
    Int { value: i64, text: itoa::Buffer },
    Inline(&'t [u8]),
    Blob { blob: Blob, len: usize, shard: &'t Shard<'t>, at: Ptr },
}

impl<'t> Str<'t> {
    pub(crate) fn read(shard: &'t Shard<'t>, at: Ptr) -> Result<Str<'t>, Error> {
        Str::read_as(shard, at, entry::kind(shard, at))
    }

    /// Returns the string of an entry whose value word is decoded already.
    #[inline]
    pub(crate) fn read_as(shard: &'t Shard<'t>, at: Ptr, kind: Kind) -> Result<Str<'t>, Error> {
        let repr = match kind {
            Kind::Int => {
                let value = int_of(shard.word(entry::cell(shard, at)));
                Repr::Int { value, text: itoa::Buffer::new() }
            }
            Kind::Inline { len, .. } => Repr::Inline(entry::body(shard, at, len)),
            Kind::Blob => {
                let blob = entry::blob(shard, at);
                // A string that is stored as a blob is never empty.
                let len = blob.len(shard).ok().filter(|&len| len > 0);
                let len = len.ok_or(Error::Damaged(at.raw()))? as usize;
                Repr::Blob { blob, len, shard, at }
            }
            // The caller has checked that the value is a string.
            Kind::Collection(_) => Repr::Inline(&[]),
        };
        Ok(Str { repr })
    }

    /// Returns the string of these bytes.
    pub(crate) fn of(bytes: &'t [u8]) -> Str<'t> {
        Str { repr: Repr::Inline(bytes) }
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        match &self.repr {
            Repr::Int { value, text } => text.clone().format(*value).len(),
            Repr::Inline(bytes) => bytes.len(),
            Repr::Blob { len, .. } => *len,
        }
    }

    /// Returns true if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value, if it is stored as an integer.
    pub fn as_int(&self) -> Option<i64> {
        match &self.repr {
            Repr::Int { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// Returns the bytes, if the string is stored in its entry.
    #[inline]
    pub fn as_slice(&self) -> Option<&[u8]> {
        match &self.repr {
            Repr::Inline(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Calls `visit` with the pieces of bytes `from..to` (clipped to the length), in order. Stops
    /// with an error where the string is damaged.
    pub fn pieces(
        &self,
        from: usize,
        to: usize,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        let cut = |bytes: &[u8], visit: &mut dyn FnMut(&[u8])| {
            let to = to.min(bytes.len());
            if from < to {
                visit(&bytes[from..to]);
            }
        };
        match &self.repr {
            Repr::Int { value, text } => cut(text.clone().format(*value).as_bytes(), visit),
            Repr::Inline(bytes) => cut(bytes, visit),
            Repr::Blob { blob, shard, at, .. } => {
                let done = blob.read(*shard, from as u64..to as u64, visit);
                return done.map_err(|_| Error::Damaged(at.raw()));
            }
        }
        Ok(())
    }

    /// Appends the whole string to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match &self.repr {
            Repr::Inline(bytes) => out.extend_from_slice(bytes),
            _ => self.pieces(0, usize::MAX, &mut |piece| out.extend_from_slice(piece))?,
        }
        Ok(())
    }

    /// Returns a copy of it.
    pub fn to_vec(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes)?;
        Ok(bytes)
    }
}

pub(crate) fn encoding(shard: &Shard<'_>, at: Ptr) -> Encoding {
    match entry::kind(shard, at) {
        Kind::Int => Encoding::Int,
        Kind::Inline { raw: false, len, .. } if len <= EMBSTR_MAX => Encoding::Embstr,
        Kind::Inline { .. } | Kind::Blob => Encoding::Raw,
        Kind::Collection(head) => head.encoding,
    }
}

/// Returns the sum of two lengths, or an error if it exceeds the maximum length of a string.
pub(crate) fn checked_len(a: usize, b: usize) -> Result<usize, Error> {
    a.checked_add(b).filter(|&len| len <= MAX_STRING).ok_or(Error::TooLong)
}
