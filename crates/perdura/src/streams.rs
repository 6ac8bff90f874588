//! Streams: entries of fields and values under ascending IDs.
//!
//! Unlike other collections, a stream stays when its last entry is deleted: no ID is used twice.

use std::ops::{Bound, RangeBounds, RangeInclusive};

use keyspace::{Key, StreamBound, StreamEdit, StreamHead, StreamId, StreamLimits, StreamTrim};

use crate::iter::{Batch, End};
use crate::operations::{Execute, Open, Writable};
use crate::{Error, Perdura, RangeIter, Transaction};

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

/// Returns the server's default limits.
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
        self.whole(|tx| Ok(tx.txn.streams().edit(tx.db, key, change)?))
    }

    /// Reads entries of a range from an end. Returns the rest of it.
    fn read_entries(
        &mut self,
        key: &[u8],
        ids: RangeInclusive<StreamId>,
        end: End,
        batch: &mut Batch<StreamEntry>,
    ) -> Result<Option<RangeInclusive<StreamId>>, Error> {
        let key = self.key(&key)?;
        let Some(entry) = self.txn.find(self.db, &key) else { return Ok(None) };
        let (mut last, mut fits) = (None, true);
        self.txn.stream(&entry)?.visit(ids.clone(), end == End::Back, |entry| {
            let entry = copied(entry);
            last = Some(entry.id);
            let bytes = entry.fields.iter().map(|(field, value)| field.len() + value.len()).sum();
            fits = batch.push(entry, bytes);
            fits
        })?;
        let Some(last) = last.filter(|_| !fits) else { return Ok(None) };
        Ok(match end {
            End::Front => last.next().map(|next| next..=*ids.end()),
            End::Back => previous(last).map(|previous| *ids.start()..=previous),
        })
    }
}

pub(crate) fn copied(entry: &keyspace::StreamEntry<'_>) -> StreamEntry {
    let pairs = entry.pairs();
    let fields = pairs.map(|(field, value)| (field.as_ref().to_vec(), value.as_ref().to_vec()));
    StreamEntry { id: entry.id(), fields: fields.collect() }
}

/// Returns the ID before this one, if there is one.
fn previous(id: StreamId) -> Option<StreamId> {
    match id.seq.checked_sub(1) {
        Some(seq) => Some(StreamId { seq, ..id }),
        None => id.ms.checked_sub(1).map(|ms| StreamId { ms, seq: u64::MAX }),
    }
}

/// Returns the IDs in a range; none if it is empty.
fn inclusive(ids: &impl RangeBounds<StreamId>) -> Option<RangeInclusive<StreamId>> {
    let start = match ids.start_bound() {
        Bound::Unbounded => Some(StreamId::MIN),
        Bound::Included(&id) => Some(id),
        Bound::Excluded(id) => id.next(),
    };
    let end = match ids.end_bound() {
        Bound::Unbounded => Some(StreamId::MAX),
        Bound::Included(&id) => Some(id),
        Bound::Excluded(&id) => previous(id),
    };
    start.zip(end).map(|(start, end)| start..=end).filter(|ids| !ids.is_empty())
}

/// Operations on streams. A stream stays when its last entry is deleted: no ID is used twice.
pub trait Streams: Execute {
    /// Adds an entry of at least one field to a stream, which is created if there is none. Its ID
    /// is the time in unix milliseconds, or the one after the last ID if that is later. Returns
    /// none if there is no greater ID, or no field.
    fn append_entry<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        fields: impl IntoIterator<Item = (F, V)>,
    ) -> Result<Option<StreamId>, Error>
    where
        Self: Writable,
    {
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

    /// Returns an iterator over the entries of a stream whose IDs are in a range, from the first
    /// and from the last. See [`RangeIter`] for the effect of concurrent writes.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// let first = store.append_entry("log", [("text", "a")])?.expect("an ID");
    /// let last = store.append_entry("log", [("text", "b")])?.expect("an ID");
    /// assert_eq!(store.stream_iter("log", ..).count(), 2);
    /// let newest = store.stream_iter("log", first..).next_back().expect("an entry")?;
    /// assert_eq!(newest.id, last);
    /// # Ok(())
    /// # }
    /// ```
    fn stream_iter(
        &self,
        key: impl AsRef<[u8]>,
        ids: impl RangeBounds<StreamId>,
    ) -> RangeIter<'_, StreamEntry, Self> {
        let (key, mut left) = (key.as_ref().to_vec(), inclusive(&ids));
        RangeIter::new(self, move |on, end, batch| {
            let Some(ids) = left.clone() else { return Ok(false) };
            left = on.on(&[&key], |tx| tx.read_entries(&key, ids, end, batch))?;
            left = left.take().filter(|ids| !ids.is_empty());
            Ok(left.is_some())
        })
    }

    /// Returns up to `count` entries of a stream with IDs in this range, the first one first.
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
                found.push(copied(entry));
                found.len() < count
            })?;
            Ok(found)
        })
    }

    /// Deletes an entry of a stream. Returns true if there was one.
    fn delete_entry(&self, key: impl AsRef<[u8]>, id: StreamId) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            if tx.txn.find_mut(tx.db, &key)?.is_none() {
                return Ok(false);
            }
            Ok(tx.edit_stream(&key, |edit| edit.delete(&[id]))? > 0)
        })
    }

    /// Deletes the oldest entries of a stream, so that at most `most` are left. Returns how many.
    fn trim_stream(&self, key: impl AsRef<[u8]>, most: u64) -> Result<u64, Error>
    where
        Self: Writable,
    {
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
