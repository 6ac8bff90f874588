//! HyperLogLogs: approximate counts of different elements, in at most 12 KiB, however many they
//! are.
//!
//! The standard error of an estimate is 0.81 %. A HyperLogLog is a string in Redis's format, and
//! may be read and set as one.

use crate::operations::{Execute, Writable, all};
use crate::{Error, Perdura, Transaction};

/// The size up to which the sparse form is used: Redis's default.
const SPARSE_LIMIT: usize = 3000;

/// Operations on HyperLogLogs, which count different elements approximately.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// store.pf_add("monday", &["Ada", "Grace"])?;
/// store.pf_add("tuesday", &["Ada", "Edsger"])?;
/// assert_eq!(store.pf_count(&["monday", "tuesday"])?, 3);
/// # Ok(())
/// # }
/// ```
pub trait HyperLogLogs: Execute {
    /// Adds elements to a HyperLogLog, which is created if there is none. Returns true if it
    /// changed. Several elements at once cost as much as one.
    ///
    /// # Errors
    /// [`Error::NotHyperLogLog`] if the key holds another string.
    fn pf_add<E: AsRef<[u8]>>(&self, key: impl AsRef<[u8]>, elements: &[E]) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let elements = elements.iter().map(AsRef::as_ref);
            Ok(tx.txn.hyperloglogs().add(tx.db, &key, elements, SPARSE_LIMIT)?)
        })
    }

    /// Returns approximately how many different elements were added to some HyperLogLogs together;
    /// 0 if there are none. A HyperLogLog that is counted alone stores the estimate until something
    /// is added: that is a write.
    ///
    /// # Errors
    /// [`Error::NotHyperLogLog`] if a key holds another string.
    fn pf_count<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<u64, Error>
    where
        Self: Writable,
    {
        if keys.is_empty() {
            return Ok(0);
        }
        let named: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.whole(&named, |tx| {
            let keys = tx.keys(keys)?;
            Ok(tx.txn.hyperloglogs().count(tx.db, &keys, true)?.0)
        })
    }

    /// Adds the elements of other HyperLogLogs to one, which is created if there is none.
    ///
    /// # Errors
    /// [`Error::NotHyperLogLog`] if a key holds another string.
    fn pf_merge<K: AsRef<[u8]>>(&self, target: impl AsRef<[u8]>, sources: &[K]) -> Result<(), Error>
    where
        Self: Writable,
    {
        self.whole(&all(&target, sources), |tx| {
            let target = tx.key(&target)?;
            let sources = tx.keys(sources)?;
            Ok(tx.txn.hyperloglogs().merge(tx.db, &target, &sources, SPARSE_LIMIT)?)
        })
    }
}

impl HyperLogLogs for Perdura {}
impl HyperLogLogs for Transaction<'_> {}
