//! The changes of a transaction, by key: for watches, the command log, and all others that follow
//! changes.

use crate::Db;
use crate::watch::After;

/// Why a key changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its value or its expiry time was written.
    Written,
    /// A command deleted it.
    Deleted,
    /// It expired.
    Expired,
    /// One of its fields expired.
    FieldExpired,
    /// It was evicted.
    Evicted,
    /// Its database was emptied or swapped (recorded for watched keys only).
    Flushed,
    /// It was created; recorded before the write, and only if such events are requested.
    Created,
    /// A reader did not find it; recorded only if such events are requested.
    Missed,
    /// Something other than its value was written: the groups of a stream or its last ID, or the
    /// form of a value. As in Redis, this breaks no watch.
    MetadataOnly,
}

/// A key that a transaction changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The database, as clients number it.
    pub db: Db,
    /// The key.
    pub key: &'a [u8],
    /// The field that expired; otherwise empty.
    pub field: &'a [u8],
    /// Why it changed.
    pub event: Event,
}

#[derive(Clone, Copy)]
struct Recorded {
    db: Db,
    event: Event,
    /// The shard's index among those of the transaction.
    shard: u16,
    /// The end of the key in the buffer; `end` is the end of the field after it.
    key_end: usize,
    end: usize,
}

/// A watched key of a database that was emptied or swapped; its watches are updated at the commit.
pub(crate) struct Flushed {
    pub(crate) shard: usize,
    pub(crate) db: Db,
    pub(crate) key: Box<[u8]>,
    pub(crate) was_there: bool,
    pub(crate) after: After,
}

/// The maximum number of bytes for keys that readers did not find, in one transaction: an endless
/// script must not fill the memory with what it reads.
const MAX_MISSED_BYTES: usize = 64 << 20;

/// The bytes that such a key takes in addition to its name, here and where its event waits for the
/// commit.
const BYTES_OF_MISSED: usize = 128;

/// The changes of one transaction; all keys and fields are in one buffer.
#[derive(Default)]
pub(crate) struct Changes {
    bytes: Vec<u8>,
    recorded: Vec<Recorded>,
    /// The bytes for keys that readers did not find.
    missed_bytes: usize,
    /// Whether there were too many of these; after that, none is recorded.
    pub(crate) has_dropped_missed: bool,
    /// Watched keys of emptied or swapped databases.
    pub(crate) flushed: Vec<Flushed>,
}

impl Changes {
    pub(crate) fn record_change(&mut self, shard: usize, db: Db, key: &[u8], event: Event) {
        self.push(shard, db, key, b"", event);
    }

    /// Records a key that a reader did not find, or drops it if there are too many of them.
    pub(crate) fn record_missed(&mut self, shard: usize, db: Db, key: &[u8]) {
        let bytes = self.missed_bytes + bytes_of_missed(key);
        if self.has_dropped_missed || bytes > MAX_MISSED_BYTES {
            self.has_dropped_missed = true;
            return;
        }
        self.missed_bytes = bytes;
        self.push(shard, db, key, b"", Event::Missed);
    }

    /// Records that a field of a hash expired.
    pub(crate) fn record_expired_field(&mut self, shard: usize, db: Db, key: &[u8], field: &[u8]) {
        self.push(shard, db, key, field, Event::FieldExpired);
    }

    fn push(&mut self, shard: usize, db: Db, key: &[u8], field: &[u8], event: Event) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(field);
        let end = self.bytes.len();
        self.recorded.push(Recorded { db, event, shard: shard as u16, key_end, end });
    }

    pub(crate) fn len(&self) -> usize {
        self.recorded.len()
    }

    /// Turns the writes after the first `from` changes into [`Event::MetadataOnly`].
    pub(crate) fn mark_metadata_only(&mut self, from: usize) {
        for recorded in
            self.recorded.iter_mut().skip(from).filter(|recorded| recorded.event == Event::Written)
        {
            recorded.event = Event::MetadataOnly;
        }
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        let missed = self.iter_from(len).filter(|(_, change)| change.event == Event::Missed);
        let bytes: usize = missed.map(|(_, change)| bytes_of_missed(change.key)).sum();
        self.missed_bytes -= bytes;
        self.recorded.truncate(len);
        let end = self.recorded.last().map_or(0, |last| last.end);
        self.bytes.truncate(end);
    }

    /// Adjusts the indexes of shards after one was inserted among those of the transaction at `at`.
    pub(crate) fn insert_shard(&mut self, at: usize) {
        let after = self.recorded.iter_mut().filter(|recorded| usize::from(recorded.shard) >= at);
        after.for_each(|recorded| recorded.shard += 1);
    }

    /// Returns the changes, each with the index of its shard.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Change<'_>)> {
        self.iter_from(0)
    }

    /// Returns the changes after the first `from`.
    pub(crate) fn iter_from(&self, from: usize) -> impl Iterator<Item = (usize, Change<'_>)> {
        let (before, rest) = self.recorded.split_at(from.min(self.recorded.len()));
        let mut begin = before.last().map_or(0, |last| last.end);
        rest.iter().map(move |recorded| {
            let &Recorded { db, event, shard, key_end, end } = recorded;
            let (key, field) = (&self.bytes[begin..key_end], &self.bytes[key_end..end]);
            begin = end;
            (usize::from(shard), Change { db, key, field, event })
        })
    }
}

/// Returns the bytes for a key that a reader did not find: its name is stored twice.
fn bytes_of_missed(key: &[u8]) -> usize {
    BYTES_OF_MISSED + 2 * key.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records missed keys; returns how many of them are listed.
    fn miss(changes: &mut Changes, count: usize, len: usize) -> usize {
        let (key, before) = (vec![b'k'; len], changes.len());
        (0..count).for_each(|_| changes.record_missed(0, Db::default(), &key));
        changes.len() - before
    }

    #[test]
    fn missed_keys_are_listed_up_to_a_number_of_bytes() {
        let mut changes = Changes::default();
        assert_eq!(miss(&mut changes, 40, 1 << 20), 31);
        assert!(changes.has_dropped_missed);
        assert_eq!(miss(&mut changes, 1, 0), 0, "none is listed after one was dropped");
        changes.record_change(0, Db::default(), b"k", Event::Written);
        assert_eq!(changes.len(), 32, "what was written is listed");
        assert_eq!(miss(&mut Changes::default(), 1_000_000, 0), (64 << 20) / 128);
    }

    #[test]
    fn missed_keys_that_are_undone_take_nothing() {
        let mut changes = Changes::default();
        for _ in 0..100 {
            changes.record_change(0, Db::default(), b"written", Event::Written);
            let len = changes.len();
            assert_eq!(miss(&mut changes, 30, 1 << 20), 30);
            changes.truncate(len);
        }
        assert!(!changes.has_dropped_missed);
        assert_eq!(changes.iter().count(), 100);
        let last = changes.iter_from(99).map(|(_, change)| change.key.to_vec());
        assert!(last.eq([b"written".to_vec()]));
        assert_eq!(changes.iter_from(100).count() + changes.iter_from(101).count(), 0);
    }
}
