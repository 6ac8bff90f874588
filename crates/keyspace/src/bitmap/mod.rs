//! Bitmaps: strings, bit by bit. Bit 0 is the highest bit of the first byte.
//!
//! A bit after the end of a string reads as 0. Writing it extends the string up to its byte. Both
//! the commands and the library use this module: no other code interprets bits.

mod field;
mod integer;
mod operate;
mod range;

use crate::{Db, Encoding, Entry, Error, Key, Str, Txn};

pub use field::{BitChange, BitField};
pub use integer::{BitInteger, BitOverflow};
pub use operate::BitOperation;
pub use range::Bits;

impl Str<'_> {
    /// Returns the bit with this number; a bit after the end is clear.
    pub fn bit(&self, number: u64) -> Result<bool, Error> {
        Ok(self.window::<1>(byte(number))?[0] & mask(number) != 0)
    }

    /// Returns how many of these bits are set.
    pub fn count_ones(&self, bits: Bits) -> Result<u64, Error> {
        let (from, to) = bits.bytes();
        let mut count = 0;
        self.pieces(from, to, &mut |piece| count += ones(piece))?;
        // The first and the last byte were counted whole.
        let before_bit = |at: usize| -> Result<u64, Error> {
            Ok(u64::from((self.window::<1>(at)?[0] & !bits.mask(at)).count_ones()))
        };
        Ok(match to - from {
            0 => 0,
            1 => count - before_bit(from)?,
            _ => count - before_bit(from)? - before_bit(to - 1)?,
        })
    }

    /// Returns the number of the first of these bits that is set (or clear).
    pub fn find_bit(&self, bits: Bits, set: bool) -> Result<Option<u64>, Error> {
        let (from, to) = bits.bytes();
        let flip = if set { 0 } else { 0xff };
        let (mut at, mut found) = (from, None);
        self.pieces(from, to, &mut |piece| {
            if found.is_none() {
                found = piece.iter().enumerate().find_map(|(n, byte)| {
                    let wanted = (byte ^ flip) & bits.mask(at + n);
                    let bit = u64::from(wanted.leading_zeros());
                    (wanted != 0).then(|| (at + n) as u64 * 8 + bit)
                });
            }
            at += piece.len();
        })?;
        Ok(found)
    }

    /// Returns the bytes `at..at + N`; those after the end are zeros.
    fn window<const N: usize>(&self, at: usize) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        let mut filled = 0;
        self.pieces(at, at.saturating_add(N), &mut |piece| {
            bytes[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
        })?;
        Ok(bytes)
    }
}

/// The preparation that a string needs before its bits are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    /// Its encoding, that of an integer or of a string that was set as a whole, must become
    /// [`Encoding::Raw`]; its value stays.
    Form,
    /// It must grow, or be created.
    Growth,
}

/// The operations that write bits of strings. A string that was found has those that read them
/// ([`Str::bit`]).
pub struct Bitmaps<'t, 'k> {
    txn: &'t mut Txn<'k>,
}

impl<'k> Txn<'k> {
    /// Returns the operations that write bits of strings.
    #[inline]
    pub fn bitmaps(&mut self) -> Bitmaps<'_, 'k> {
        Bitmaps { txn: self }
    }
}

impl Bitmaps<'_, '_> {
    /// Sets or clears a bit. Returns its old value, and whether the value of the key changed.
    pub fn set(
        &mut self,
        db: Db,
        key: &Key<'_>,
        number: u64,
        on: bool,
    ) -> Result<(bool, bool), Error> {
        let (entry, need) = self.open(db, key, number)?;
        let old = match &entry {
            Some(entry) => self.txn.string(entry)?.window::<1>(byte(number))?[0],
            None => 0,
        };
        let was = old & mask(number) != 0;
        let changed = need == Need::Growth || was != on;
        if changed || need == Need::Form {
            let from = self.txn.pending_changes();
            let new = if on { old | mask(number) } else { old & !mask(number) };
            self.txn.strings().set_range(db, key, byte(number), &[new])?;
            if !changed {
                self.txn.mark_metadata_only(from);
            }
        }
        Ok((was, changed))
    }

    /// Opens the string at a key, of which bits up to number `last` are to be written. Returns its
    /// entry, and the preparation that it needs whatever the bits are.
    fn open(&mut self, db: Db, key: &Key<'_>, last: u64) -> Result<(Option<Entry>, Need), Error> {
        let entry = self.txn.find_mut(db, key)?;
        let (len, raw) = match &entry {
            Some(entry) => (
                self.txn.string(entry)?.len(),
                self.txn.properties(entry).encoding() == Encoding::Raw,
            ),
            None => (0, false),
        };
        let need = match () {
            () if len <= byte(last) => Need::Growth,
            () if !raw => Need::Form,
            () => Need::Nothing,
        };
        Ok((entry, need))
    }
}

/// Returns the index of the byte that contains a bit.
fn byte(number: u64) -> usize {
    (number >> 3) as usize
}

/// Returns the mask of a bit within its byte.
fn mask(number: u64) -> u8 {
    0x80 >> (number & 7)
}

fn ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: u64 = words.iter().map(|w| u64::from(u64::from_ne_bytes(*w).count_ones())).sum();
    words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}
