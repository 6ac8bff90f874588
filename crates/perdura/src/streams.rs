//! Streams: entries of fields and values under IDs that only grow.
//!
//! Unlike other collections a stream stays when its last entry went: no ID is given twice.

use std::ops::RangeInclusive;

use keyspace::{Key, StreamBound, StreamEdit, StreamHead, StreamId, StreamLimits, StreamTrim};

use crate::operations::{Execute, Open};
use crate::{Error, Perdura, Transaction};

/// An entry of a stream.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura, StreamId};
///
/// let store = Perdura::open(Options::volatile())?;
/// let id = store.append_entry("log", [("level", "warn"), ("text", "hot")])?.expect("an ID");
/// let entries = store.entries("log", StreamId::MIN..=StreamId::MAX, 10)?;
/// assert_eq!(entries[0].id, id);
/// assert_eq!(entries[0].fields[1], (b"text".to_vec(), b"hot".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// Its ID.
    pub id: StreamId,
    /// Its fields with their values, in the order in which they were given.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// As the server has it by default.
fn limits() -> StreamLimits {
    StreamLimits::new(4096, 100)
}

impl Open<'_> {
    /// Changes a stream.
    pub(crate) fn edit_stream<T>(
        &mut self,
        key: &Key<'_>,
        change: impl FnOnce(&mut StreamEdit<'_, '_>) -> Result<T, keyspace::Error>,
    ) -> Result<T, Error> {
        self.whole(|tx| Ok(tx.txn.edit_stream(tx.db, key, change)?))
    }
}

/// Operations on streams. A stream stays when its last entry went: no ID is given twice.
pub trait Streams: Execute {
    /// Adds an entry of at least one field to a stream, which is made where there is none. Its ID
    /// is the time in unix milliseconds, or the one after the last where that is later; none where
    /// there is no greater ID, or no field.
    fn append_entry<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        fields: impl IntoIterator<Item = (F, V)>,
    ) -> Result<Option<StreamId>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let fields: Vec<(F, V)> = fields.into_iter().collect();
            let words = fields.iter().flat_map(|(field, value)| [field.as_ref(), value.as_ref()]);
            let words: Vec<&[u8]> = words.collect();
            let head = match tx.txn.find_mut(tx.db, &key)? {
                Some(entry) => tx.txn.stream(&entry)?.head(),
                None => StreamHead::default(),
            };
            let now = StreamId { ms: tx.txn.now(), seq: 0 };
            let id = if now > head.last { Some(now) } else { head.last.next() };
            let Some(id) = id.filter(|_| !words.is_empty()) else { return Ok(None) };
            tx.edit_stream(&key, |edit| edit.append(id, &words, limits()))?;
            Ok(Some(id))
        })
    }

    /// Returns how many entries a stream has.
    fn stream_len(&self, key: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            match tx.txn.find(tx.db, &key) {
                Some(entry) => Ok(tx.txn.stream(&entry)?.head().len),
                None => Ok(0),
            }
        })
    }

    /// Returns up to `count` entries of a stream with these IDs, the first one first.
    fn entries(
        &self,
        key: impl AsRef<[u8]>,
        ids: RangeInclusive<StreamId>,
        count: usize,
    ) -> Result<Vec<StreamEntry>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let mut found = Vec::new();
            let Some(entry) = tx.txn.find(tx.db, &key).filter(|_| count > 0) else {
                return Ok(found);
            };
            tx.txn.stream(&entry)?.visit(ids, false, |entry| {
                let pairs = entry.pairs();
                let fields =
                    pairs.map(|(field, value)| (field.as_ref().to_vec(), value.as_ref().to_vec()));
                found.push(StreamEntry { id: entry.id(), fields: fields.collect() });
                found.len() < count
            })?;
            Ok(found)
        })
    }

    /// Takes an entry out of a stream; whether there was one.
    fn delete_entry(&self, key: impl AsRef<[u8]>, id: StreamId) -> Result<bool, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            if tx.txn.find_mut(tx.db, &key)?.is_none() {
                return Ok(false);
            }
            Ok(tx.edit_stream(&key, |edit| edit.delete(&[id]))? > 0)
        })
    }

    /// Takes the oldest entries out of a stream, so that at most `most` are left; how many.
    fn trim_stream(&self, key: impl AsRef<[u8]>, most: u64) -> Result<u64, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            if tx.txn.find_mut(tx.db, &key)?.is_none() {
                return Ok(0);
            }
            let trim = StreamTrim { bound: StreamBound::Len(most), whole_nodes: false, most: 0 };
            tx.edit_stream(&key, |edit| edit.trim(trim))
        })
    }
}

impl Streams for Perdura {}
impl Streams for Transaction<'_> {}
