//! All keys as they were at one moment, read while writers go on: what a rewrite of the command log, and later a
//! dump or a replica, is made from.
//!
//! The heap's snapshot does the work: through it an index does not change, so that a scan finds each key once,
//! and an entry's address stays good between two locks. Hence every lock is held for a bounded number of keys and
//! bytes, and a large value is read in pieces.
//!
//! A key whose time has passed is given like any other: whoever loads it lets it expire.

use heap::{Ptr, SnapshotError, SnapshotShard, View};
use structures::index::Index;

use crate::layout::{Kind, MAP_ROOT, keys_root, map_word, physical};
use crate::{Db, Keyspace, entry};

/// Keys, and bytes of values, that are read under one lock.
const KEYS_AT_ONCE: usize = 64;
const BYTES_AT_ONCE: u64 = 64 << 10;

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its database.
    pub db: Db,
    /// The key.
    pub key: Vec<u8>,
    /// The string that it holds.
    pub value: Vec<u8>,
    /// When it expires, in unix ms.
    pub expiry: Option<u64>,
}

/// All keys as they were at the cut. Dropped, it gives back the memory that it held.
pub struct Snapshot {
    heap: heap::Snapshot,
    shards: usize,
    map: u64,
    /// Where to go on: database, shard, cursor of its index.
    at: (usize, usize, u64),
    found: Vec<Ptr>,
}

impl Keyspace {
    /// Cuts: everything is locked for a moment, in which `at_cut` runs. One snapshot at a time.
    pub fn snapshot<T>(&self, at_cut: impl FnOnce() -> T) -> Result<(Snapshot, T), SnapshotError> {
        let (heap, made) = self.heap.snapshot(at_cut)?;
        let map = {
            let first = heap.lock(0);
            map_word(first.word(first.root(MAP_ROOT)))
        };
        let shards = self.shards();
        Ok((Snapshot { heap, shards, map, at: (0, 0, 0), found: Vec::new() }, made))
    }
}

impl Snapshot {
    /// Puts the next keys into `items`, whose former content goes; `false` when there are no more. Databases come
    /// in ascending order.
    pub fn next(&mut self, items: &mut Vec<Item>) -> bool {
        items.clear();
        while items.is_empty() {
            let (db, shard, cursor) = self.at;
            let Some(db) = Db::new(db) else { return false };
            self.step(db, shard, cursor, items);
        }
        true
    }

    fn step(&mut self, db: Db, shard: usize, cursor: u64, items: &mut Vec<Item>) {
        self.found.clear();
        let view = self.heap.lock(shard);
        let root = view.root(keys_root(physical(self.map, db.number())));
        let found = &mut self.found;
        let cursor = Index::at(root).scan(&view, cursor, KEYS_AT_ONCE, |at| found.push(at));
        drop(view);
        self.at = match (cursor, shard + 1 < self.shards) {
            (0, false) => (db.number() + 1, 0, 0),
            (0, true) => (db.number(), shard + 1, 0),
            (cursor, _) => (db.number(), shard, cursor),
        };
        let mut next = 0;
        while next < self.found.len() {
            next += self.read(db, shard, &self.found[next..], items);
        }
    }

    /// Reads entries up to the bound of one lock, at least one; how many.
    fn read(&self, db: Db, shard: usize, entries: &[Ptr], items: &mut Vec<Item>) -> usize {
        let view = self.heap.lock(shard);
        let mut bytes = 0;
        for (n, &at) in entries.iter().enumerate() {
            let (mut item, rest) = begin(&view, db, at);
            bytes += (item.key.len() + item.value.len()) as u64;
            if let Some(len) = rest {
                drop(view);
                self.read_blob(shard, at, len, &mut item.value);
                items.push(item);
                return n + 1;
            }
            items.push(item);
            if bytes >= BYTES_AT_ONCE {
                return n + 1;
            }
        }
        entries.len()
    }

    fn read_blob(&self, shard: usize, at: Ptr, len: u64, value: &mut Vec<u8>) {
        for from in (0..len).step_by(BYTES_AT_ONCE as usize) {
            let view = self.heap.lock(shard);
            let to = len.min(from + BYTES_AT_ONCE);
            entry::blob(&view, at).read(&view, from..to, |piece| value.extend_from_slice(piece));
        }
    }

    /// How many words have changed since the cut: their old values are held in DRAM.
    pub fn held_words(&self) -> usize {
        self.heap.held_words()
    }
}

/// An item without its value where that is a blob, of this length.
fn begin(view: &SnapshotShard<'_>, db: Db, at: Ptr) -> (Item, Option<u64>) {
    let (value, rest) = match entry::kind(view, at) {
        Kind::Int => {
            let int = view.word(entry::cell(view, at)) as i64;
            (itoa::Buffer::new().format(int).into(), None)
        }
        Kind::Inline { len, .. } => (entry::body(view, at, len).to_vec(), None),
        Kind::Blob => (Vec::new(), Some(entry::blob(view, at).len(view))),
    };
    let key = entry::key(view, at).into_owned();
    let expiry = Some(entry::expiry(view, at)).filter(|&at| at != 0);
    (Item { db, key, value, expiry }, rest)
}
