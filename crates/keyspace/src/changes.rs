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
    /// Room was needed.
    Evicted,
    /// Its database was emptied or swapped (listed for watched keys only).
    Flushed,
    /// Something beside its value was written: the groups of a stream or its last ID, the form of a
    /// value. As in Redis, no watch is told.
    Beside,
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
struct Noted {
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

/// The changes of one transaction; the keys lie in one buffer.
#[derive(Default)]
pub(crate) struct Changes {
    bytes: Vec<u8>,
    noted: Vec<Noted>,
    /// What watchers of an emptied or swapped database are told.
    pub(crate) flushed: Vec<Flushed>,
}

impl Changes {
    pub(crate) fn note(&mut self, shard: usize, db: Db, key: &[u8], event: Event) {
        self.push(shard, db, (key, b""), event);
    }

    /// Notes that a field of a hash expired.
    pub(crate) fn note_field(&mut self, shard: usize, db: Db, key: &[u8], field: &[u8]) {
        self.push(shard, db, (key, field), Event::FieldExpired);
    }

    fn push(&mut self, shard: usize, db: Db, (key, field): (&[u8], &[u8]), event: Event) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(field);
        let end = self.bytes.len() as u32;
        self.noted.push(Noted { db, event, shard: shard as u16, key_end, end });
    }

    pub(crate) fn len(&self) -> usize {
        self.noted.len()
    }

    /// Makes what was written since there were `from` changes something beside the values.
    pub(crate) fn set_beside(&mut self, from: usize) {
        for noted in self.noted.iter_mut().skip(from).filter(|noted| noted.event == Event::Written)
        {
            noted.event = Event::Beside;
        }
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.noted.truncate(len);
        let end = self.noted.last().map_or(0, |last| last.end);
        self.bytes.truncate(end as usize);
    }

    /// The changes with the index of their shard.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Change<'_>)> {
        let mut begin = 0;
        self.noted.iter().map(move |noted| {
            let (key_end, end) = (noted.key_end as usize, noted.end as usize);
            let (key, field) = (&self.bytes[begin..key_end], &self.bytes[key_end..end]);
            begin = end;
            (usize::from(noted.shard), Change { db: noted.db, key, field, event: noted.event })
        })
    }
}
