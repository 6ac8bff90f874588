//! HyperLogLogs: estimates of the number of distinct elements, in at most about 12 KiB.
//!
//! They are strings in Redis's own encodings, sparse and dense, so that a plain read, a plain write
//! and the command log carry them from one server to the other. The standard error of an estimate
//! is 0.81 %.

mod hash;
mod registers;
mod sketch;
mod sparse;

use crate::{Db, Error, Expire, Key, Txn};

pub use hash::place;
pub use registers::{COUNT, Registers, estimate};
pub use sketch::HyperLogLog;
pub use sparse::Run;

impl From<sparse::Corrupted> for Error {
    fn from(_: sparse::Corrupted) -> Error {
        Error::UnsoundHyperLogLog
    }
}

/// The operations on HyperLogLogs.
pub struct HyperLogLogs<'t, 'k> {
    txn: &'t mut Txn<'k>,
}

impl<'k> Txn<'k> {
    /// Returns the operations on HyperLogLogs.
    #[inline]
    pub fn hyperloglogs(&mut self) -> HyperLogLogs<'_, 'k> {
        HyperLogLogs { txn: self }
    }
}

impl HyperLogLogs<'_, '_> {
    /// Returns the HyperLogLog at a key, for an operation that reads.
    pub fn find(&mut self, db: Db, key: &Key<'_>) -> Result<Option<HyperLogLog>, Error> {
        let Some(entry) = self.txn.find(db, key) else { return Ok(None) };
        HyperLogLog::read(self.txn.string(&entry)?.to_vec()?).map(Some)
    }

    /// Returns the HyperLogLog at a key, for an operation that changes it: an expired one is
    /// deleted first.
    pub fn find_mut(&mut self, db: Db, key: &Key<'_>) -> Result<Option<HyperLogLog>, Error> {
        let Some(entry) = self.txn.find_mut(db, key)? else { return Ok(None) };
        HyperLogLog::read(self.txn.string(&entry)?.to_vec()?).map(Some)
    }

    /// Stores a HyperLogLog in a key. The expiry time is kept.
    pub fn set(&mut self, db: Db, key: &Key<'_>, sketch: &HyperLogLog) -> Result<(), Error> {
        self.txn.strings().set_built(db, key, sketch.as_bytes(), Expire::Keep)
    }

    /// Adds elements to the HyperLogLog at a key, which is created if there is none; returns
    /// whether anything changed. A HyperLogLog that would take more than `limit` bytes in the
    /// sparse encoding becomes dense.
    pub fn add<'e>(
        &mut self,
        db: Db,
        key: &Key<'_>,
        elements: impl IntoIterator<Item = &'e [u8]>,
        limit: usize,
    ) -> Result<bool, Error> {
        let found = self.find_mut(db, key)?;
        let mut changed = found.is_none();
        let mut sketch = found.unwrap_or_else(HyperLogLog::empty);
        for element in elements {
            let (register, value) = place(element);
            changed |= sketch.raise(register, value, limit)?;
        }
        if changed {
            sketch.forget();
            self.set(db, key, &sketch)?;
        }
        Ok(changed)
    }

    /// Returns an estimate of the number of distinct elements of the HyperLogLogs at some keys
    /// together, and whether anything was written: a single HyperLogLog stores its estimate, if it
    /// may.
    pub fn count(
        &mut self,
        db: Db,
        keys: &[Key<'_>],
        may_store: bool,
    ) -> Result<(u64, bool), Error> {
        let [key] = keys else {
            let mut registers = [0; COUNT];
            for key in keys {
                if let Some(sketch) = self.find(db, key)? {
                    sketch.raise_all(&mut registers)?;
                }
            }
            return Ok((estimate(&registers), false));
        };
        let Some(mut sketch) = self.find(db, key)? else { return Ok((0, false)) };
        if let Some(count) = sketch.remembered() {
            return Ok((count, false));
        }
        let count = sketch.count()?;
        if may_store {
            self.set(db, key, &sketch)?;
        }
        Ok((count, may_store))
    }

    /// Merges HyperLogLogs into the one at the key `target`, which is created if there is none. It
    /// becomes dense if it would take more than `limit` bytes in the sparse encoding, or if one of
    /// the others is dense.
    pub fn merge(
        &mut self,
        db: Db,
        target: &Key<'_>,
        sources: &[Key<'_>],
        limit: usize,
    ) -> Result<(), Error> {
        let mut registers = [0; COUNT];
        let mut dense = false;
        for key in std::iter::once(target).chain(sources) {
            // As for a write: a key that has expired is deleted first, so that a replay, for which
            // nothing expires, reads the same.
            if let Some(entry) = self.txn.find_mut_to_read(db, key)? {
                let sketch = HyperLogLog::read(self.txn.string(&entry)?.to_vec()?)?;
                dense |= !sketch.is_sparse();
                sketch.raise_all(&mut registers)?;
            }
        }
        let mut sketch = self.find_mut(db, target)?.unwrap_or_else(HyperLogLog::empty);
        if dense && sketch.is_sparse() {
            sketch.make_dense()?;
        }
        for (register, &value) in registers.iter().enumerate().filter(|(_, value)| **value > 0) {
            sketch.raise(register, value, limit)?;
        }
        sketch.forget();
        self.set(db, target, &sketch)
    }
}
