//! Consumer groups of streams: each entry goes to one consumer of a group, and is pending until the
//! consumer acknowledges it.
//!
//! So entries can be jobs for several workers: if a worker ends without acknowledging an entry,
//! another one claims it.

use std::time::Duration;

use keyspace::{Error as KeyspaceError, StreamDelivery, StreamEntry as Entry, StreamId};

use crate::iter::ITEMS;
use crate::operations::{Execute, Open, Writable};
use crate::streams::{StreamEntry, copied};
use crate::{Error, Iter, Perdura, Transaction};

/// An entry that was given to a consumer and not acknowledged yet.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura, StreamId};
///
/// let store = Perdura::open(Options::volatile())?;
/// let id = store.append_entry("jobs", [("url", "/a")])?.expect("an ID");
/// store.create_group("jobs", "workers", StreamId::MIN)?;
/// store.read_group("jobs", "workers", "anna", 10)?;
///
/// let [pending] = &store.pending("jobs", "workers", 10)?[..] else { panic!("one entry") };
/// assert_eq!((pending.id, pending.consumer.as_slice(), pending.count), (id, &b"anna"[..], 1));
///
/// store.acknowledge("jobs", "workers", [id])?;
/// assert_eq!(store.pending("jobs", "workers", 10)?, []);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    /// Its ID.
    pub id: StreamId,
    /// The consumer's name.
    pub consumer: Vec<u8>,
    /// When it was last delivered, in unix milliseconds.
    pub delivered: u64,
    /// How often it was delivered.
    pub count: u64,
}

impl Open<'_> {
    /// Returns up to `count` pending entries of a group, from an ID on.
    fn pending(
        &mut self,
        key: &[u8],
        group: &[u8],
        from: StreamId,
        count: usize,
    ) -> Result<Vec<PendingEntry>, Error> {
        let key = self.key(&key)?;
        let Some(entry) = self.txn.find(self.db, &key).filter(|_| count > 0) else {
            return Ok(Vec::new());
        };
        let stream = self.txn.stream(&entry)?;
        let Some(group) = stream.group(group)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        stream.visit_pending(&group, None, from, |pending| {
            found.push(*pending);
            found.len() < count
        })?;
        let reported = found.into_iter().map(|pending| {
            let (id, delivered, count) = (pending.id, pending.delivered, pending.count);
            let consumer = stream.owner_name(&group, &pending)?;
            Ok(PendingEntry { id, consumer, delivered, count })
        });
        reported.collect::<Result<_, KeyspaceError>>().map_err(Error::from)
    }
}

/// Operations on consumer groups of streams: each entry goes to one consumer of a group, and is
/// pending until the consumer acknowledges it.
pub trait ConsumerGroups: Execute {
    /// Makes a group of consumers that reads the entries after `last`, and the stream if there is
    /// none. Returns false if there is a group of this name.
    fn create_group(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        last: StreamId,
    ) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            tx.txn.find_mut(tx.db, &key)?;
            let made = tx.edit_stream(&key, |edit| {
                // From the beginning on, all entries that are read are counted.
                let read = (last == StreamId::MIN).then_some(0);
                edit.create_group(group.as_ref(), last, read)
            })?;
            Ok(made.is_some())
        })
    }

    /// Deletes a group with all its pending entries. Returns true if there was one.
    fn destroy_group(&self, key: impl AsRef<[u8]>, group: impl AsRef<[u8]>) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            if tx.txn.find_mut(tx.db, &key)?.is_none() {
                return Ok(false);
            }
            tx.edit_stream(&key, |edit| edit.drop_group(group.as_ref()))
        })
    }

    /// Gives a consumer up to `count` entries that the group has not read yet; they are then
    /// pending. Returns none if there is no such group.
    fn read_group(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        consumer: impl AsRef<[u8]>,
        count: usize,
    ) -> Result<Option<Vec<StreamEntry>>, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            if tx.txn.find_mut(tx.db, &key)?.is_none() {
                return Ok(None);
            }
            let now = tx.txn.now();
            tx.edit_stream(&key, |edit| {
                let Some(mut group) = edit.read().group(group.as_ref())? else { return Ok(None) };
                let mut entries = Vec::new();
                if count > 0 {
                    let keep = |entry: &Entry<'_>| entries.push(copied(entry));
                    edit.read_group(&mut group, consumer.as_ref(), count as u64, true, now, keep)?;
                }
                Ok(Some(entries))
            })
        })
    }

    /// Acknowledges entries, which are then no longer pending in the group. Returns how many were.
    fn acknowledge(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        ids: impl IntoIterator<Item = StreamId>,
    ) -> Result<u64, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            if tx.txn.find_mut(tx.db, &key)?.is_none() {
                return Ok(0);
            }
            tx.edit_stream(&key, |edit| {
                let Some(group) = edit.read().group(group.as_ref())? else { return Ok(0) };
                ids.into_iter()
                    .try_fold(0, |sum, id| Ok(sum + u64::from(edit.acknowledge(&group, id)?)))
            })
        })
    }

    /// Returns up to `count` pending entries of a group, the one with the lowest ID first.
    fn pending(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        count: usize,
    ) -> Result<Vec<PendingEntry>, Error> {
        self.on(&[key.as_ref()], |tx| {
            tx.pending(key.as_ref(), group.as_ref(), StreamId::MIN, count)
        })
    }

    /// Returns an iterator over the pending entries of a group, the one with the lowest ID first,
    /// in batches of 64: see [`Iter`]. Each entry that is pending from start to end is shown once.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura, StreamId};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// store.create_group("jobs", "workers", StreamId::MIN)?;
    /// for n in 0..100 {
    ///     store.append_entry("jobs", [("n", n.to_string())])?;
    /// }
    /// store.read_group("jobs", "workers", "anna", 100)?;
    /// for pending in store.pending_iter("jobs", "workers") {
    ///     store.acknowledge("jobs", "workers", [pending?.id])?;
    /// }
    /// assert_eq!(store.pending_iter("jobs", "workers").count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    fn pending_iter(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
    ) -> Iter<'_, PendingEntry, Self> {
        let (key, group) = (key.as_ref().to_vec(), group.as_ref().to_vec());
        let mut next = Some(StreamId::MIN);
        Iter::new(self, move |on, batch| {
            let Some(from) = next else { return Ok(false) };
            let found = on.on(&[&key], |tx| tx.pending(&key, &group, from, ITEMS))?;
            next = found.last().filter(|_| found.len() == ITEMS).and_then(|last| last.id.next());
            for entry in found {
                let bytes = entry.consumer.len();
                batch.push(entry, bytes);
            }
            Ok(next.is_some())
        })
    }

    /// Gives a consumer up to `count` entries that were delivered to any consumer at least `idle`
    /// ago and not acknowledged since. Entries that were deleted from the stream are then no longer
    /// pending. Returns none if there is no such group.
    fn claim(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        consumer: impl AsRef<[u8]>,
        idle: Duration,
        count: usize,
    ) -> Result<Option<Vec<StreamEntry>>, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            if tx.txn.find_mut(tx.db, &key)?.is_none() {
                return Ok(None);
            }
            let now = tx.txn.now();
            let before = now.saturating_sub(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
            tx.edit_stream(&key, |edit| {
                let Some(group) = edit.read().group(group.as_ref())? else { return Ok(None) };
                let mut found = Vec::new();
                edit.read().visit_pending(&group, None, StreamId::MIN, |pending| {
                    if pending.delivered <= before {
                        found.push(*pending);
                    }
                    found.len() < count
                })?;
                found.truncate(count);
                let (mut entries, mut claimer) = (Vec::new(), None);
                for pending in found {
                    let shown = entries.len();
                    edit.read().visit(pending.id..=pending.id, false, |entry| {
                        entries.push(copied(entry));
                        false
                    })?;
                    if entries.len() == shown {
                        edit.acknowledge(&group, pending.id)?;
                        continue;
                    }
                    let consumer = match claimer {
                        Some(consumer) => consumer,
                        None => *claimer
                            .insert(edit.see_consumer(&group, consumer.as_ref(), now, true)?.0),
                    };
                    let delivery =
                        StreamDelivery { at_ms: now, count: pending.count.saturating_add(1) };
                    edit.deliver(&group, &consumer, pending.id, delivery)?;
                }
                Ok(Some(entries))
            })
        })
    }
}

impl ConsumerGroups for Perdura {}
impl ConsumerGroups for Transaction<'_> {}
