//! What a transaction changed, by key: for watches, the command log, and whoever else wants to
//! know.

use crate::Db;
use crate::watch::After;

/// Why a key changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its value or its expiry time was written.
    Written,
    /// A command deleted it.
    Deleted,
    /// Its time had come.
    Expired,
    /// The time of one of its fields had come.
    FieldExpired,
    /// Space was needed.
    Evicted,
    /// Its database was emptied or swapped (listed for watched keys only).
    Flushed,
    /// It is new: listed before what was written, and only where somebody asks for it.
    Created,
    /// A reader did not find it (listed only where somebody asks for it).
    Missed,
    /// Something in addition to its value was written: the groups of a stream or its last ID, the
    /// form of a value. As in Redis, no watch is told.
    MetadataOnly,
}

/// A key that a transaction changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The database, as clients number it.
    pub db: Db,
    /// The key.
    pub key: &'a [u8],
    /// The field that expired; else empty.
    pub field: &'a [u8],
    /// Why it changed.
    pub event: Event,
}

#[derive(Clone, Copy)]
struct Recorded {
    db: Db,
    event: Event,
    /// Index of the shard among those of the transaction.
    shard: u16,
    /// Where the key ends, and where the field after it does.
    key_end: u32,
    end: u32,
}

/// A watched key of a database that was emptied or swapped, to be told at the commit.
pub(crate) struct Flushed {
    pub(crate) shard: usize,
    pub(crate) db: Db,
    pub(crate) key: Box<[u8]>,
    pub(crate) was_there: bool,
    pub(crate) after: After,
}

/// The changes of one transaction; the keys are in one buffer.
#[derive(Default)]
pub(crate) struct Changes {
    bytes: Vec<u8>,
    recorded: Vec<Recorded>,
    /// What watchers of an emptied or swapped database are told.
    pub(crate) flushed: Vec<Flushed>,
}

impl Changes {
    pub(crate) fn record_change(&mut self, shard: usize, db: Db, key: &[u8], event: Event) {
        self.push(shard, db, (key, b""), event);
    }

    /// Notes that a field of a hash expired.
    pub(crate) fn record_expired_field(&mut self, shard: usize, db: Db, key: &[u8], field: &[u8]) {
        self.push(shard, db, (key, field), Event::FieldExpired);
    }

    fn push(&mut self, shard: usize, db: Db, (key, field): (&[u8], &[u8]), event: Event) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(field);
        let end = self.bytes.len() as u32;
        self.recorded.push(Recorded { db, event, shard: shard as u16, key_end, end });
    }

    pub(crate) fn len(&self) -> usize {
        self.recorded.len()
    }

    /// Makes what was written since there were `from` changes something in addition to the values.
    pub(crate) fn mark_metadata_only(&mut self, from: usize) {
        for recorded in
            self.recorded.iter_mut().skip(from).filter(|recorded| recorded.event == Event::Written)
        {
            recorded.event = Event::MetadataOnly;
        }
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.recorded.truncate(len);
        let end = self.recorded.last().map_or(0, |last| last.end);
        self.bytes.truncate(end as usize);
    }

    /// Counts a shard that was inserted among those of the transaction at `at`.
    pub(crate) fn insert_shard(&mut self, at: usize) {
        let after = self.recorded.iter_mut().filter(|recorded| usize::from(recorded.shard) >= at);
        after.for_each(|recorded| recorded.shard += 1);
    }

    /// Returns the changes with the index of their shard.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Change<'_>)> {
        let mut begin = 0;
        self.recorded.iter().map(move |recorded| {
            let (key_end, end) = (recorded.key_end as usize, recorded.end as usize);
            let (key, field) = (&self.bytes[begin..key_end], &self.bytes[key_end..end]);
            begin = end;
            (
                usize::from(recorded.shard),
                Change { db: recorded.db, key, field, event: recorded.event },
            )
        })
    }
}
