//! A HyperLogLog as the string that holds it, byte for byte as in Redis.
//!
//! ```text
//!  0   "HYLL"
//!  4   encoding: 0 dense, 1 sparse
//!  5   three bytes that are not used
//!  8   the last estimate, little endian; its highest bit says that it is out of date
//! 16   dense: 16384 registers of 6 bits, lowest bits first; sparse: runs
//! ```

use super::registers::{COUNT, Registers, estimate};
use super::sparse::{self, Raised};
use crate::Error;

const MAGIC: &[u8] = b"HYLL";
const ENCODING: usize = 4;
const ESTIMATE: std::ops::Range<usize> = 8..16;
const STALE: u8 = 0x80;
const HEADER: usize = 16;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const BITS: usize = 6;
const DENSE_LEN: usize = HEADER + COUNT * BITS / 8;

/// The string of a HyperLogLog.
pub struct HyperLogLog {
    bytes: Vec<u8>,
}

impl HyperLogLog {
    /// Returns an empty HyperLogLog.
    pub fn empty() -> HyperLogLog {
        let mut bytes = vec![0; HEADER];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[ENCODING] = SPARSE;
        bytes.extend(sparse::empty());
        HyperLogLog { bytes }
    }

    /// Returns the HyperLogLog that a string holds. Does not verify the runs of a sparse one.
    ///
    /// # Errors
    /// [`Error::NotHyperLogLog`] if the string holds something else.
    pub fn read(bytes: Vec<u8>) -> Result<HyperLogLog, Error> {
        let sound = bytes.len() >= HEADER
            && bytes.starts_with(MAGIC)
            && match bytes[ENCODING] {
                DENSE => bytes.len() == DENSE_LEN,
                encoding => encoding == SPARSE,
            };
        if sound { Ok(HyperLogLog { bytes }) } else { Err(Error::NotHyperLogLog) }
    }

    /// Returns the string.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if it has the sparse encoding.
    pub fn is_sparse(&self) -> bool {
        self.bytes[ENCODING] == SPARSE
    }

    /// Returns the runs of a sparse one.
    pub fn runs(&self) -> impl Iterator<Item = sparse::Run> {
        sparse::runs(&self.bytes[HEADER..])
    }

    /// Raises a register to `value` if it is lower; returns whether it changed. A sparse
    /// HyperLogLog that would take more than `limit` bytes becomes dense.
    pub fn raise(&mut self, register: usize, value: u8, limit: usize) -> Result<bool, Error> {
        if self.is_sparse() {
            let mut runs = self.bytes.split_off(HEADER);
            let raised = sparse::raise(&mut runs, register, value, limit.saturating_sub(HEADER));
            self.bytes.append(&mut runs);
            match raised? {
                Raised::Kept => return Ok(false),
                Raised::Changed => return Ok(true),
                Raised::TooLarge => self.make_dense()?,
            }
        }
        let higher = self.dense(register) < value;
        if higher {
            self.set_dense(register, value);
        }
        Ok(higher)
    }

    /// Changes the encoding to the dense one.
    pub fn make_dense(&mut self) -> Result<(), Error> {
        let mut registers = [0; COUNT];
        self.raise_all(&mut registers)?;
        self.bytes.truncate(HEADER);
        self.bytes.resize(DENSE_LEN, 0);
        self.bytes[ENCODING] = DENSE;
        for (at, value) in registers.into_iter().enumerate().filter(|(_, value)| *value > 0) {
            self.set_dense(at, value);
        }
        Ok(())
    }

    /// Raises each of `registers` to its value here, if that is higher.
    pub fn raise_all(&self, registers: &mut Registers) -> Result<(), Error> {
        if self.is_sparse() {
            return Ok(sparse::raise_all(&self.bytes[HEADER..], registers)?);
        }
        for (at, register) in registers.iter_mut().enumerate() {
            *register = self.dense(at).max(*register);
        }
        Ok(())
    }

    /// Returns the stored estimate, unless it is out of date.
    pub fn remembered(&self) -> Option<u64> {
        let bytes: [u8; 8] = self.bytes[ESTIMATE].try_into().ok()?;
        (bytes[7] & STALE == 0).then(|| u64::from_le_bytes(bytes))
    }

    /// Estimates the number of distinct elements, and stores the estimate.
    pub fn count(&mut self) -> Result<u64, Error> {
        let mut registers = [0; COUNT];
        self.raise_all(&mut registers)?;
        let count = estimate(&registers);
        self.bytes[ESTIMATE].copy_from_slice(&count.to_le_bytes());
        Ok(count)
    }

    /// Marks the stored estimate as out of date.
    pub fn forget(&mut self) {
        self.bytes[ESTIMATE.end - 1] |= STALE;
    }

    fn dense(&self, register: usize) -> u8 {
        let (at, shift) = (HEADER + register * BITS / 8, register * BITS % 8);
        let next = self.bytes.get(at + 1).copied().unwrap_or(0);
        (u16::from_le_bytes([self.bytes[at], next]) >> shift) as u8 & 63
    }

    fn set_dense(&mut self, register: usize, value: u8) {
        let (at, shift) = (HEADER + register * BITS / 8, register * BITS % 8);
        let next = self.bytes.get(at + 1).copied().unwrap_or(0);
        let both = u16::from_le_bytes([self.bytes[at], next]);
        let [low, high] = (both & !(63 << shift) | u16::from(value) << shift).to_le_bytes();
        self.bytes[at] = low;
        if let Some(next) = self.bytes.get_mut(at + 1) {
            *next = high;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash::place;
    use super::*;

    #[test]
    fn both_forms_hold_the_same_registers() {
        let mut sparse = HyperLogLog::empty();
        let mut dense = HyperLogLog::empty();
        dense.make_dense().expect("sound runs");
        for n in 0..5000u32 {
            let (at, value) = place(&n.to_be_bytes());
            let changed = sparse.raise(at, value, 3000).expect("sound runs");
            assert_eq!(changed, dense.raise(at, value, 3000).expect("registers"));
        }
        assert!(!sparse.is_sparse(), "3000 bytes are too few for so many elements");
        assert!(sparse.as_bytes()[HEADER..] == dense.as_bytes()[HEADER..]);
        assert_eq!(sparse.count(), dense.count());
        assert_eq!(sparse.remembered(), Some(sparse.count().expect("registers")));
        sparse.forget();
        assert_eq!(sparse.remembered(), None);
    }

    #[test]
    fn other_strings_are_none() {
        let mut other = HyperLogLog::empty().bytes;
        assert!(HyperLogLog::read(other.clone()).is_ok());
        other[ENCODING] = DENSE;
        assert!(HyperLogLog::read(other.clone()).is_err());
        other[ENCODING] = 2;
        assert!(HyperLogLog::read(other.clone()).is_err());
        assert!(HyperLogLog::read(b"HYLL".to_vec()).is_err());
        assert!(HyperLogLog::read(vec![0; 100]).is_err());
    }
}
