//! Bitmaps: strings, bit by bit. Bit 0 is the highest of the first byte.
//!
//! A bit after the end of a string reads as clear, and writing one there makes the string as long
//! as necessary. A string has at most 512 MiB: bits have numbers below 2^32.

use keyspace::{BitChange, BitField, BitInteger, BitOperation, BitOverflow, Bits};

use crate::operations::{Execute, Open, Writable, all};
use crate::{Error, Perdura, Transaction};

/// Part of a string. Both ends belong to it; negative numbers count from the end, with -1 for the
/// last.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{BitRange, Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// for day in [1, 2, 9] {
///     store.set_bit("visits", day, true)?;
/// }
/// assert_eq!(store.bit_count("visits", BitRange::All)?, 3);
/// assert_eq!(store.bit_count("visits", BitRange::Bytes(0, 0))?, 2);
/// assert_eq!(store.bit_count("visits", BitRange::Bits(2, -1))?, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitRange {
    /// All of it.
    All,
    /// From one byte to another.
    Bytes(i64, i64),
    /// From one bit to another.
    Bits(i64, i64),
}

impl BitRange {
    /// Returns true if it ends before it begins, whatever the length. That is known only if both
    /// ends count from the end.
    fn is_backwards(self) -> bool {
        match self {
            BitRange::All => false,
            BitRange::Bytes(first, last) | BitRange::Bits(first, last) => {
                first < 0 && last < 0 && first > last
            }
        }
    }

    fn within(self, len: usize) -> Option<Bits> {
        match self {
            BitRange::All => Some(Bits::all(len)),
            BitRange::Bytes(first, last) => Bits::within(len, first, last, false),
            BitRange::Bits(first, last) => Bits::within(len, first, last, true),
        }
    }
}

impl Open<'_> {
    fn change_bit_field(
        &mut self,
        key: &[u8],
        integer: BitInteger,
        at: u64,
        change: BitChange,
    ) -> Result<Option<i64>, Error> {
        self.whole(|tx| {
            let key = tx.key(&key)?;
            let field = BitField { integer, at, change: Some(change) };
            Ok(tx.txn.bitmaps().change_fields(tx.db, &key, &[field])?.0[0])
        })
    }
}

/// Operations on bitmaps: strings, bit by bit. Bit 0 is the highest of the first byte.
pub trait Bitmaps: Execute {
    /// Sets or clears a bit. Returns its old value.
    ///
    /// # Errors
    /// [`Error::TooLong`] if it is beyond the longest string.
    fn set_bit(&self, key: impl AsRef<[u8]>, bit: u64, on: bool) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.bitmaps().set(tx.db, &key, bit, on)?.0)
        })
    }

    /// Returns a bit; clear if there is no key.
    fn get_bit(&self, key: impl AsRef<[u8]>, bit: u64) -> Result<bool, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let Some(entry) = tx.txn.find(tx.db, &key) else { return Ok(false) };
            Ok(tx.txn.string(&entry)?.bit(bit)?)
        })
    }

    /// Returns how many bits are set in part of a string; 0 if there is no key.
    fn bit_count(&self, key: impl AsRef<[u8]>, range: BitRange) -> Result<u64, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let Some(entry) = tx.txn.find(tx.db, &key) else { return Ok(0) };
            let value = tx.txn.string(&entry)?;
            let bits = range.within(value.len()).filter(|_| !range.is_backwards());
            Ok(bits.map_or(Ok(0), |bits| value.count_ones(bits))?)
        })
    }

    /// Returns the position, from the start of the string, of the first bit in part of it that is
    /// set, or that is clear.
    ///
    /// The bit after the last one is clear: [`BitRange::All`] always has a clear one, even if there
    /// is no key.
    fn bit_position(
        &self,
        key: impl AsRef<[u8]>,
        on: bool,
        range: BitRange,
    ) -> Result<Option<u64>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let (mut found, mut len) = (None, 0);
            if let Some(entry) = tx.txn.find(tx.db, &key) {
                let value = tx.txn.string(&entry)?;
                len = value.len();
                found = range.within(len).map_or(Ok(None), |bits| value.find_bit(bits, on))?;
            }
            let after_the_end = (!on && range == BitRange::All).then_some(len as u64 * 8);
            Ok(found.or(after_the_end))
        })
    }

    /// Combines the strings at other keys bit by bit, with the shorter ones extended by clear bits,
    /// and stores the result in `target`, which then has no expiry. An empty result deletes the
    /// key. Returns its length in bytes.
    ///
    /// # Errors
    /// [`Error::OneSource`] if [`BitOperation::Not`] gets any other number of sources.
    fn bit_op<K: AsRef<[u8]>>(
        &self,
        target: impl AsRef<[u8]>,
        operation: BitOperation,
        sources: &[K],
    ) -> Result<usize, Error>
    where
        Self: Writable,
    {
        self.on(&all(&target, sources), |tx| {
            if operation == BitOperation::Not && sources.len() != 1 {
                return Err(Error::OneSource);
            }
            tx.whole(|tx| {
                let target = tx.key(&target)?;
                let sources = tx.keys(sources)?;
                Ok(tx.txn.bitmaps().combine(tx.db, &target, operation, &sources)?.0)
            })
        })
    }

    /// Returns the integer in a string whose highest bit is number `at`; 0 if there is no key.
    fn bit_field_get(
        &self,
        key: impl AsRef<[u8]>,
        integer: BitInteger,
        at: u64,
    ) -> Result<i64, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let Some(entry) = tx.txn.find(tx.db, &key) else { return Ok(0) };
            Ok(tx.txn.string(&entry)?.integer(integer, at)?)
        })
    }

    /// Sets the integer in a string whose highest bit is number `at`. Returns its old value, or
    /// `None` if the new one does not fit and `overflow` is [`BitOverflow::Fail`]: then it stays. A
    /// negative value of an unsigned integer counts as a very large one.
    ///
    /// # Errors
    /// [`Error::TooLong`] if it is beyond the longest string.
    fn bit_field_set(
        &self,
        key: impl AsRef<[u8]>,
        integer: BitInteger,
        at: u64,
        value: i64,
        overflow: BitOverflow,
    ) -> Result<Option<i64>, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| {
            tx.change_bit_field(key.as_ref(), integer, at, BitChange::Set(value, overflow))
        })
    }

    /// Adds to the integer in a string whose highest bit is number `at`. Returns the sum, or `None`
    /// if it does not fit and `overflow` is [`BitOverflow::Fail`]: then the integer stays.
    ///
    /// # Errors
    /// [`Error::TooLong`] if it is beyond the longest string.
    fn bit_field_increment(
        &self,
        key: impl AsRef<[u8]>,
        integer: BitInteger,
        at: u64,
        by: i64,
        overflow: BitOverflow,
    ) -> Result<Option<i64>, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| {
            tx.change_bit_field(key.as_ref(), integer, at, BitChange::Add(by, overflow))
        })
    }
}

impl Bitmaps for Perdura {}
impl Bitmaps for Transaction<'_> {}
