//! All keys as they were at one moment, read while writers go on: the source of a rewrite of the
//! command log, of a dump, and of a backup.
//!
//! It is built on the heap's snapshot: an index that is read through it does not change, so a scan
//! finds each key once, and the address of an entry stays valid while the shard is unlocked. Hence
//! every lock is held only for a bounded number of keys and bytes, and a large value is read in
//! pieces.
//!
//! A walk reads shard by shard, all databases of each, and releases a shard when its last key has
//! been read: this frees what the snapshot held for the shard. Several threads may walk different
//! shards. The function libraries of all shards must be read before any walk. The heap may give up
//! a snapshot ([`heap::SnapshotLost`]): what was read so far is then incomplete and must be
//! discarded.
//!
//! A walk yields expired keys like any others: they expire where they are loaded.

use std::borrow::Borrow;
use std::ops::Range;

use heap::{Ptr, SnapshotError, SnapshotLost, View};
use structures::index::Index;

use crate::collection::Layout;
use crate::fault_points::FaultPoint;
use crate::functions;
use crate::layout::{FIELDS, Kind, LIBRARIES, MAP_ROOT, int_of, keys_root, map_word, physical};
use crate::streams::{self, StreamPart};
use crate::{DATABASES, Db, Entry, Error, Keyspace, TimedField, Txn, Type, collection, entry};

/// The approximate number of keys that are read under one hold of a lock.
pub const KEYS_AT_ONCE: usize = 64;
/// The number of bytes of keys and values after which a lock is released. A blob is read in pieces
/// of this length, each under a lock of its own.
pub const BYTES_AT_ONCE: u64 = 64 << 10;
/// The approximate number of elements of a large collection in one item.
pub const ELEMENTS_AT_ONCE: usize = 64;

/// A key with its value, or with a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its database.
    pub db: Db,
    /// The key.
    pub key: Vec<u8>,
    /// Its value, or a part of it.
    pub value: Content,
    /// When it expires, in unix ms. For a value in several parts, only the last part has it.
    pub expiry: Option<u64>,
}

/// A value, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A string.
    String(Vec<u8>),
    /// Some elements of a collection, to be added to those of earlier parts. In a hash, each field
    /// precedes its value; in a sorted set, each score precedes its member.
    Elements(Type, Vec<Vec<u8>>),
    /// Some fields of a hash with field expiration, to be added to those of earlier parts.
    Fields(Vec<TimedField>),
    /// Some parts of a stream, to be added to earlier ones.
    Stream(Vec<StreamPart>),
}

impl Content {
    /// Returns the same value in an order that does not depend on how it is stored.
    pub fn sorted(self) -> Content {
        match self {
            Content::Elements(Type::Set, mut elements) => {
                elements.sort_unstable();
                Content::Elements(Type::Set, elements)
            }
            Content::Elements(Type::Hash, elements) => {
                let mut pairs: Vec<&[Vec<u8>]> = elements.chunks(2).collect();
                pairs.sort_unstable();
                Content::Elements(Type::Hash, pairs.concat())
            }
            Content::Fields(mut fields) => {
                fields.sort_unstable_by(|a, b| a.field.cmp(&b.field));
                Content::Fields(fields)
            }
            other => other,
        }
    }
}

impl Txn<'_> {
    /// Returns the whole value of the key, whatever its type.
    pub fn content(&self, entry: &Entry) -> Result<Content, Error> {
        let shard = &self.shards[entry.shard];
        let Kind::Collection(head) = entry::kind(shard, entry.at) else {
            return Ok(Content::String(self.string(entry)?.to_vec()?));
        };
        entry::sound(shard, entry.at)?;
        let word = shard.word(entry::cell(shard, entry.at));
        if head.layout == Layout::Stream {
            return Ok(Content::Stream(streams::all_parts(shard, word)));
        }
        let is_timed = entry::expiry_word(shard, entry.at) & FIELDS != 0;
        if is_timed && collection::can_have_ttls(head) {
            let mut fields = Vec::new();
            let push = |field| fields.push(field);
            collection::timed_pieces(shard, head, word, 0, usize::MAX, push);
            return Ok(Content::Fields(fields));
        }
        let (mut elements, mut cursor) = (Vec::new(), 0);
        loop {
            let push = |element: &[u8]| elements.push(element.to_vec());
            cursor = collection::pieces(shard, head, word, cursor, usize::MAX, push);
            if cursor == 0 {
                return Ok(Content::Elements(head.what, elements));
            }
        }
    }
}

/// All keys as they were at the cut. Dropping it frees the memory that it still holds.
pub struct Snapshot {
    heap: heap::Snapshot,
    shards: usize,
    map: u64,
}

/// The keys of some shards of a snapshot, one after the other.
pub struct SnapshotWalk<S: Borrow<Snapshot>> {
    snapshot: S,
    /// The shards that are left, and where to continue in the first of them: database, cursor of
    /// its index.
    shards: Range<usize>,
    at: (usize, u64),
    /// Entries that are still to be read, the next one last, and the database and shard in which
    /// they were found.
    found: Vec<Ptr>,
    found_in: (Db, usize),
    /// The position at which to continue in the collection of the next of them.
    within: u64,
}

impl Keyspace {
    /// Takes a snapshot: locks all shards for a moment, in which `at_cut` runs.
    pub fn snapshot<T>(&self, at_cut: impl FnOnce() -> T) -> Result<(Snapshot, T), SnapshotError> {
        let mut map = 0;
        let (heap, made) = self.shared.heap.snapshot(|| {
            map = map_word(self.shared.root_word(0, MAP_ROOT));
            at_cut()
        })?;
        Ok((Snapshot { heap, shards: self.shards(), map }, made))
    }
}

impl Snapshot {
    /// Walks over all shards.
    pub fn walk(self) -> SnapshotWalk<Snapshot> {
        let shards = 0..self.shards;
        SnapshotWalk::new(self, shards)
    }

    /// Walks over one shard. Only one walk may do this for each shard.
    pub fn walk_shard(&self, shard: usize) -> SnapshotWalk<&Snapshot> {
        SnapshotWalk::new(self, shard..shard + 1)
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Calls `show` with the code of each function library; skips damaged ones. To be called before
    /// any walk, since a walk releases shards.
    pub fn for_each_library<E: From<SnapshotLost>>(
        &self,
        mut show: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.for_each_named_library(|_, code| show(code))
    }

    /// Like [`Snapshot::for_each_library`], but also passes the name of each library, before its
    /// code.
    pub fn for_each_named_library<E: From<SnapshotLost>>(
        &self,
        mut show: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for shard in 0..self.shards {
            let mut cursor = 0;
            loop {
                let mut found = Vec::new();
                let view = self.heap.lock(shard)?;
                let index = Index::at(view.root(keys_root(LIBRARIES)));
                cursor = index.scan(&view, cursor, KEYS_AT_ONCE, |at| found.push(at));
                drop(view);
                for at in found {
                    let view = self.heap.lock(shard)?;
                    let (name, code) =
                        (entry::key(&view, at).into_owned(), functions::code(&view, at));
                    drop(view);
                    code.map_or(Ok(()), |code| show(&name, &code))?;
                }
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    fn read_blob(
        &self,
        shard: usize,
        at: Ptr,
        len: u64,
        value: &mut Vec<u8>,
    ) -> Result<(), SnapshotLost> {
        for from in (0..len).step_by(BYTES_AT_ONCE as usize) {
            let view = self.heap.lock(shard)?;
            let to = len.min(from + BYTES_AT_ONCE);
            let read = |piece: &[u8]| value.extend_from_slice(piece);
            entry::blob(&view, at).read(&view, from..to, read).ok();
        }
        Ok(())
    }

    /// Returns how many words have changed since the cut in shards that are not released yet: their
    /// old values are held in DRAM.
    pub fn held_words(&self) -> usize {
        self.heap.held_words()
    }
}

impl<S: Borrow<Snapshot>> SnapshotWalk<S> {
    fn new(snapshot: S, shards: Range<usize>) -> SnapshotWalk<S> {
        let found_in = (Db::default(), 0);
        SnapshotWalk { snapshot, shards, at: (0, 0), found: Vec::new(), found_in, within: 0 }
    }

    /// Returns the snapshot that it walks over.
    pub fn snapshot(&self) -> &Snapshot {
        self.snapshot.borrow()
    }

    /// Replaces the contents of `items` with the next keys. Returns `false` if there are no more:
    /// all have been read. The order is by shard, and by database within each shard. An error means
    /// that the heap gave up the snapshot, and that what was read so far is incomplete.
    pub fn next(&mut self, items: &mut Vec<Item>) -> Result<bool, SnapshotLost> {
        items.clear();
        while items.is_empty() {
            if !self.found.is_empty() {
                self.read(items)?;
                continue;
            }
            if self.shards.is_empty() {
                return Ok(false);
            }
            let (shard, (db, cursor)) = (self.shards.start, self.at);
            match Db::new(db) {
                Some(db) => self.step(shard, db, cursor)?,
                None => {
                    self.snapshot().heap.release(shard);
                    (self.shards.start, self.at) = (shard + 1, (0, 0));
                }
            }
        }
        Ok(true)
    }

    fn step(&mut self, shard: usize, db: Db, cursor: u64) -> Result<(), SnapshotLost> {
        let Snapshot { heap, map, .. } = self.snapshot.borrow();
        let view = heap.lock(shard)?;
        let root = view.root(keys_root(physical(*map, db.number())));
        let found = &mut self.found;
        let cursor = Index::at(root).scan(&view, cursor, KEYS_AT_ONCE, |at| {
            view.prefetch(at);
            found.push(at);
        });
        drop(view);
        self.found_in = (db, shard);
        let next = db.number() + usize::from(cursor == 0);
        self.at = (next, cursor);
        if next == DATABASES && !FaultPoint::ReleaseAfterRead.is_enabled() {
            heap.release(shard);
        }
        Ok(())
    }

    /// Reads entries up to the limit for one hold of the lock, at least one, or a part of one.
    fn read(&mut self, items: &mut Vec<Item>) -> Result<(), SnapshotLost> {
        let (db, shard) = self.found_in;
        let snapshot = self.snapshot.borrow();
        let view = snapshot.heap.lock(shard)?;
        let mut bytes = 0;
        while let Some(&at) = self.found.last() {
            let (mut item, rest) = begin(&view, db, at, &mut self.within);
            if self.within != 0 {
                items.push(item);
                return Ok(());
            }
            self.found.pop();
            bytes += item.size();
            if let (Some(len), Content::String(value)) = (rest, &mut item.value) {
                drop(view);
                snapshot.read_blob(shard, at, len, value)?;
                items.push(item);
                return Ok(());
            }
            items.push(item);
            if bytes >= BYTES_AT_ONCE {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Item {
    /// Returns the length in bytes of the key together with the value, or the part of it.
    pub fn size(&self) -> u64 {
        let value = match &self.value {
            Content::String(value) => value.len(),
            Content::Elements(_, elements) => elements.iter().map(Vec::len).sum(),
            Content::Fields(fields) => fields.iter().map(|f| f.field.len() + f.value.len()).sum(),
            Content::Stream(parts) => parts.iter().map(StreamPart::size).sum(),
        };
        (self.key.len() + value) as u64
    }
}

/// Returns an item. If the value is a blob, the item is without it, and the length of the blob is
/// returned. For a large collection, the item has some of the elements, and `within` becomes the
/// position at which to continue (0: the end).
pub(crate) fn begin<V: View>(view: &V, db: Db, at: Ptr, within: &mut u64) -> (Item, Option<u64>) {
    let (value, rest) = match entry::kind(view, at) {
        Kind::Int => {
            let int = int_of(view.word(entry::cell(view, at)));
            (Content::String(itoa::Buffer::new().format(int).into()), None)
        }
        Kind::Inline { len, .. } => (Content::String(entry::body(view, at, len).to_vec()), None),
        Kind::Blob => (Content::String(Vec::new()), entry::blob(view, at).len(view).ok()),
        Kind::Collection(head) if head.layout == Layout::Stream => {
            let (parts, next) = streams::parts(view, view.word(entry::cell(view, at)), *within);
            *within = next;
            (Content::Stream(parts), None)
        }
        Kind::Collection(head)
            if entry::expiry_word(view, at) & FIELDS != 0 && collection::can_have_ttls(head) =>
        {
            let word = view.word(entry::cell(view, at));
            let mut fields = Vec::new();
            let push = |field| fields.push(field);
            *within = collection::timed_pieces(view, head, word, *within, ELEMENTS_AT_ONCE, push);
            (Content::Fields(fields), None)
        }
        Kind::Collection(head) => {
            let word = view.word(entry::cell(view, at));
            let mut items = Vec::new();
            let push = |item: &[u8]| items.push(item.to_vec());
            *within = collection::pieces(view, head, word, *within, ELEMENTS_AT_ONCE, push);
            (Content::Elements(head.what, items), None)
        }
    };
    let key = entry::key(view, at).into_owned();
    let expiry = Some(entry::expiry(view, at)).filter(|&at| at != 0 && *within == 0);
    (Item { db, key, value, expiry }, rest)
}
