//! What a transaction changed, by key: for watches, the command log, and whoever else wants to know.

use crate::Db;
use crate::databases::Flushed;

/// Why a key changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its value or its expiry time was written.
    Written,
    /// A command deleted it.
    Deleted,
    /// Its time had come.
    Expired,
    /// Room was needed.
    Evicted,
    /// Its database was emptied or swapped (listed for watched keys only).
    Flushed,
}

/// A key that a transaction changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The database, as clients number it.
    pub db: Db,
    /// The key.
    pub key: &'a [u8],
    /// Why it changed.
    pub event: Event,
}

#[derive(Clone, Copy)]
struct Noted {
    db: Db,
    event: Event,
    /// Index of the shard among those of the transaction.
    shard: u16,
    end: u32,
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
        self.bytes.extend_from_slice(key);
        let end = self.bytes.len() as u32;
        self.noted.push(Noted { db, event, shard: shard as u16, end });
    }

    pub(crate) fn len(&self) -> usize {
        self.noted.len()
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
            let key = &self.bytes[begin..noted.end as usize];
            begin = noted.end as usize;
            (usize::from(noted.shard), Change { db: noted.db, key, event: noted.event })
        })
    }
}
