//! Streams: entries ordered by their IDs.
//!
//! The cell of an entry holds the one word of a stream (`structures::stream`); the value word only
//! records that the value is a stream. Unlike other collections a stream may be empty, because its
//! last ID must be kept.

mod groups;
mod progress;

pub use groups::GroupRead;
pub use progress::StreamProgress;

use std::ops::RangeInclusive;

use heap::{Shard, View};
use smallvec::SmallVec;
use structures::listpack::Item;
use structures::reclaim::Queue;
use structures::stream::{self, Pairs, Piece, Stream};

use crate::collection::{Head, Layout, Text, item};
use crate::entry::{self, Value};
use crate::layout::{Kind, STREAM_OWNERS};
use crate::types::{Encoding, Type};
use crate::{Db, Entry, Error, Event, Expire, Key, Txn};

pub use structures::stream::{
    Bound as StreamBound, Consumer as StreamConsumer, Delivery as StreamDelivery,
    Group as StreamGroup, Head as StreamHead, Id as StreamId, Limits as StreamLimits,
    Pending as StreamPending, Trim as StreamTrim,
};

/// A stream that is read in place.
#[derive(Clone, Copy)]
pub struct StreamRef<'t> {
    pub(crate) shard: &'t Shard<'t>,
    pub(crate) stream: Stream,
    at: u64,
}

/// An entry of a stream that is read in place.
pub struct StreamEntry<'v>(stream::Entry<'v>);

impl<'v> StreamEntry<'v> {
    /// Returns its ID.
    pub fn id(&self) -> StreamId {
        self.0.id
    }

    /// Returns the number of its fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if it has no fields, which is never so.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns its fields with their values, in the order in which they were added.
    pub fn pairs(&self) -> impl Iterator<Item = (Text<'v>, Text<'v>)> + use<'v> {
        texts(self.0.pairs())
    }
}

fn texts(pairs: Pairs<'_>) -> impl Iterator<Item = (Text<'_>, Text<'_>)> {
    pairs.map(|(field, value)| (Text::of(field), Text::of(value)))
}

/// A part of a stream, as a snapshot yields it. Applying all parts in order rebuilds the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamPart {
    /// An entry: each field precedes its value.
    Entry(StreamId, Vec<Vec<u8>>),
    /// The stream's own data, after all entries.
    Head {
        /// The number of its entries.
        len: u64,
        /// The last ID of the stream.
        last: StreamId,
        /// The number of entries that were ever added.
        added: u64,
        /// The greatest ID that was ever deleted, other than by trimming.
        deleted: StreamId,
    },
    /// A consumer group, before its consumers and pending entries.
    Group {
        /// Its name.
        name: Vec<u8>,
        /// The last ID that was delivered to it.
        last: StreamId,
        /// How many entries it has read, if that is known.
        read: Option<u64>,
    },
    /// A consumer of a group.
    Consumer {
        /// The group's name.
        group: Vec<u8>,
        /// Its name.
        name: Vec<u8>,
        /// The number of its pending entries.
        pending: u64,
        /// When it was last seen, in unix ms.
        seen: u64,
        /// When it was last active, in unix ms, if ever.
        active: Option<u64>,
    },
    /// A pending entry of a consumer.
    Pending {
        /// The group's name.
        group: Vec<u8>,
        /// The consumer's name.
        consumer: Vec<u8>,
        /// The entry's ID.
        id: StreamId,
        /// When it was last delivered, in unix ms.
        delivered: u64,
        /// How many times it was delivered.
        count: u64,
    },
}

impl StreamPart {
    /// Returns the number of bytes in its fields, values and names.
    pub(crate) fn size(&self) -> usize {
        match self {
            StreamPart::Entry(_, words) => words.iter().map(Vec::len).sum(),
            StreamPart::Head { .. } => 0,
            StreamPart::Group { name, .. } => name.len(),
            StreamPart::Consumer { group, name, .. } => group.len() + name.len(),
            StreamPart::Pending { group, consumer, .. } => group.len() + consumer.len(),
        }
    }
}

/// The maximum number of consumers or pending entries that are read at a time.
pub const AT_ONCE: u64 = 64;

/// Returns some parts of a stream from a position on, such as those of one node, and the position
/// to continue from (0: the end).
pub(crate) fn parts<V: View>(view: &V, word: u64, place: u64) -> (Vec<StreamPart>, u64) {
    let mut parts = Vec::new();
    // A damaged stream ends where the damage is; only verification reports it.
    let next = Stream::open(view, word).and_then(|stream| {
        let done = add_parts(view, &stream, place, &mut parts)?;
        stream.position_after(view, place, done)
    });
    (parts, next.unwrap_or(0))
}

/// Adds the parts at a position. Returns how many items of their kind were read.
fn add_parts<V: View>(
    view: &V,
    stream: &Stream,
    place: u64,
    parts: &mut Vec<StreamPart>,
) -> Result<u64, structures::Damaged> {
    match stream.piece(view, place)? {
        Piece::Node(number) => {
            let show = |entry: &stream::Entry<'_>| {
                let words = texts(entry.pairs()).flat_map(|(field, value)| [field, value]);
                let words = words.map(|word| word.as_ref().to_vec()).collect();
                parts.push(StreamPart::Entry(entry.id, words));
            };
            stream.visit_node(view, number, show)?;
        }
        Piece::Head => {
            let StreamHead { len, last, added, deleted, .. } = stream.head;
            parts.push(StreamPart::Head { len, last, added, deleted });
        }
        Piece::Group(_, group) => {
            let name = group.name(view)?;
            parts.push(StreamPart::Group { name, last: group.last, read: group.read });
        }
        Piece::Consumers(group, from) => {
            let (name, mut some) = (group.name(view)?, Vec::new());
            let shown = group.some_consumers(view, from, AT_ONCE, |one| some.push(one))?;
            for one in some {
                let (group, pending) = (name.clone(), one.pending_count(view));
                let (name, seen, active) = (one.name(view)?, one.seen, one.active);
                parts.push(StreamPart::Consumer { group, name, pending, seen, active });
            }
            return Ok(shown);
        }
        Piece::Pending(group, from) => {
            let (name, mut some) = (group.name(view)?, Vec::new());
            let shown = group.some_pending(view, from, AT_ONCE, |one| some.push(*one))?;
            for one in some {
                parts.push(StreamPart::Pending {
                    group: name.clone(),
                    consumer: group.owner(view, &one)?.name(view)?,
                    id: one.id,
                    delivered: one.delivered,
                    count: one.count,
                });
            }
            return Ok(shown);
        }
        Piece::End => {}
    }
    Ok(1)
}

/// Returns all parts of a stream.
pub(crate) fn all_parts<V: View>(view: &V, word: u64) -> Vec<StreamPart> {
    let (mut all, mut next) = parts(view, word, 0);
    while next != 0 {
        let (more, after) = parts(view, word, next);
        all.extend(more);
        next = after;
    }
    all
}

impl StreamRef<'_> {
    pub(crate) fn damaged(&self) -> Error {
        Error::Damaged(self.at)
    }

    /// Returns the stream's header.
    pub fn head(&self) -> StreamHead {
        self.stream.head
    }

    /// Returns the number of nodes that hold its entries.
    pub fn nodes(&self) -> u64 {
        self.stream.node_count(self.shard)
    }

    /// Returns the ID of the first entry.
    pub fn first_id(&self) -> Result<Option<StreamId>, Error> {
        self.stream.first_id(self.shard).map_err(|_| self.damaged())
    }

    /// Visits the entries with these IDs, in order or `reversed`, until `visit` returns `false`.
    pub fn visit(
        &self,
        ids: RangeInclusive<StreamId>,
        reversed: bool,
        mut visit: impl FnMut(&StreamEntry<'_>) -> bool,
    ) -> Result<(), Error> {
        let verify = self.shard.heap().is_durable();
        let show = |entry: &stream::Entry<'_>| visit(&StreamEntry(*entry));
        let done = match reversed {
            false => self.stream.visit(self.shard, ids, verify, show),
            true => self.stream.visit_back(self.shard, ids, verify, show),
        };
        done.map_err(|_| self.damaged())
    }
}

const HEAD: Head =
    Head { what: Type::Stream, encoding: Encoding::Stream, layout: Layout::Stream, count: 0 };

/// A stream that is being changed.
pub struct StreamEdit<'e, 'k> {
    pub(crate) shard: &'e mut Shard<'k>,
    pub(crate) queue: Queue,
    verify: bool,
    pub(crate) stream: Stream,
    /// Whether entries were added or removed.
    changed: bool,
    /// Whether groups or the header changed.
    pub(crate) changed_metadata: bool,
    at: u64,
}

impl StreamEdit<'_, '_> {
    /// Returns the present state of the stream, to read it.
    pub fn read(&self) -> StreamRef<'_> {
        StreamRef { shard: &*self.shard, stream: self.stream, at: self.at }
    }

    pub(crate) fn error(&self, error: stream::Error) -> Error {
        match error {
            stream::Error::Full(_) => Error::Full,
            stream::Error::Damaged(_) => Error::Damaged(self.at),
        }
    }

    /// Returns the stream's header.
    pub fn head(&self) -> StreamHead {
        self.stream.head
    }

    /// Adds an entry, whose ID must be greater than the last ID. In `words` each field precedes its
    /// value.
    pub fn append(
        &mut self,
        id: StreamId,
        words: &[&[u8]],
        limits: StreamLimits,
    ) -> Result<(), Error> {
        let pairs: SmallVec<[(Item<'_>, Item<'_>); 4]> =
            words.chunks_exact(2).map(|pair| (item(pair[0]), item(pair[1]))).collect();
        self.changed = true;
        let done = self.stream.append(self.shard, id, &pairs, limits);
        done.map_err(|error| self.error(error))
    }

    /// Deletes entries, and returns how many of them existed. One call for many entries costs less
    /// than a call for each.
    pub fn delete(&mut self, ids: &[StreamId]) -> Result<u64, Error> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        self.shard.allow_reserve(true);
        let done = self.stream.delete(self.shard, self.queue, &ids, self.verify);
        self.shard.allow_reserve(false);
        let deleted = done.map_err(|error| self.error(error))?;
        self.changed |= deleted > 0;
        Ok(deleted)
    }

    /// Deletes old entries, and returns how many.
    pub fn trim(&mut self, trim: StreamTrim) -> Result<u64, Error> {
        self.shard.allow_reserve(true);
        let (queue, owner) = (self.queue, STREAM_OWNERS.nodes);
        let done = self.stream.trim(self.shard, queue, owner, trim, self.verify);
        self.shard.allow_reserve(false);
        let gone = done.map_err(|error| self.error(error))?;
        self.changed |= gone > 0;
        Ok(gone)
    }

    /// Sets the last ID, and, if given, the number of entries ever added and the greatest deleted
    /// ID.
    pub fn set_last(&mut self, last: StreamId, added: Option<u64>, deleted: Option<StreamId>) {
        let head = &mut self.stream.head;
        head.last = last;
        head.added = added.unwrap_or(head.added);
        head.deleted = deleted.unwrap_or(head.deleted);
        self.changed_metadata = true;
    }
}

/// The operation that changes streams: all changes go through a [`StreamEdit`].
pub struct Streams<'t, 'k> {
    txn: &'t mut Txn<'k>,
}

impl<'k> Txn<'k> {
    /// Returns the stream of an entry.
    pub fn stream(&self, entry: &Entry) -> Result<StreamRef<'_>, Error> {
        let shard = &self.shards[entry.shard];
        entry::sound(shard, entry.at)?;
        match entry::kind(shard, entry.at) {
            Kind::Collection(head) if head.what == Type::Stream => {
                let at = entry.at.raw();
                let stream = Stream::open(shard, shard.word(entry::cell(shard, entry.at)));
                Ok(StreamRef { shard, stream: stream.map_err(|_| Error::Damaged(at))?, at })
            }
            _ => Err(Error::WrongType),
        }
    }

    /// Returns the operation that changes streams.
    #[inline]
    pub fn streams(&mut self) -> Streams<'_, 'k> {
        Streams { txn: self }
    }
}

impl Streams<'_, '_> {
    /// Changes the stream of a key. Creates the stream if there is none.
    pub fn edit<T>(
        &mut self,
        db: Db,
        key: &Key<'_>,
        change: impl FnOnce(&mut StreamEdit<'_, '_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (place, old) = self.txn.open_sound(db, key)?;
        let queue = self.txn.queue(place.shard);
        let shard = &mut self.txn.shards[place.shard];
        let verify = shard.heap().is_durable();
        let (stream, at) = match old {
            Some(old) => {
                match old.kind {
                    Kind::Collection(head) if head.what == Type::Stream => {}
                    _ => return Err(Error::WrongType),
                }
                let at = old.at.raw();
                let word = shard.word(entry::cell(shard, old.at));
                (Stream::open(shard, word).map_err(|_| Error::Damaged(at))?, at)
            }
            None => (Stream::create(shard)?, 0),
        };
        let (changed, changed_metadata) = (false, false);
        let mut edit = StreamEdit { shard, queue, verify, stream, changed, changed_metadata, at };
        let answer = change(&mut edit)?;
        let StreamEdit { mut stream, changed, changed_metadata, .. } = edit;
        stream.save(&mut self.txn.shards[place.shard]);
        match old {
            Some(_) => self.txn.touch_key(place, key),
            None => {
                let value = Value::Collection(HEAD, stream.word());
                self.txn.put(place, key, None, value, 0, Expire::Clear)?;
            }
        }
        if changed || old.is_none() {
            self.txn.record_change(place.shard, db, key.bytes(), Event::Written);
        } else if changed_metadata {
            self.txn.record_change(place.shard, db, key.bytes(), Event::MetadataOnly);
        }
        Ok(answer)
    }
}
