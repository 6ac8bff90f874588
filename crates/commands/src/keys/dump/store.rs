//! A value out of a payload, stored under a key that is not there.
//!
//! Parts are kept until there are enough of them for one change of the key. What comes twice within
//! a value is found out by the key itself: less is new than was given.

use keyspace::{
    Db, FieldChange, Key, Side, StreamConsumer, StreamEdit, StreamGroup, StreamId, Txn, Type,
};
use rdb::{Kind, Part, Source};

use super::BAD_DATA;
use crate::call::Call;
use crate::config::Config;
use crate::failure::{Done, Failure};

/// Parts, and bytes of them, that are stored at once.
const PARTS_AT_ONCE: usize = 1024;
const BYTES_AT_ONCE: usize = 256 << 10;

/// Why a value was not stored.
pub(crate) enum Stopped {
    /// It cannot be read.
    Read(rdb::Error),
    /// It cannot be stored.
    Store(Failure),
}

impl From<rdb::Error> for Stopped {
    fn from(error: rdb::Error) -> Stopped {
        Stopped::Read(error)
    }
}

/// Stores the value; whether there is anything of it: not where all fields of a hash have expired.
pub(super) fn store(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
    kind: Kind,
    mut source: Source<&[u8]>,
) -> Result<bool, Stopped> {
    let mut parts = Parts::default();
    let mut store = Store::new(call.engine.config(), txn, call.db(), call.key(0), &mut parts);
    let read = rdb::read_value(&mut source, kind, |part| store.take(part).map_err(Stopped::Store));
    read?;
    store.finish().map_err(Stopped::Store)
}

/// Parts of a value that are still to be stored; one kind of them at a time. Whoever stores many
/// values uses the same memory for all.
#[derive(Default)]
pub(crate) struct Parts {
    what: Option<Type>,
    words: Words,
    scores: Vec<f64>,
    times: Vec<Option<u64>>,
    stream: Vec<StreamPart>,
    stream_bytes: usize,
}

/// Words one after the other, and where each ends.
#[derive(Default)]
struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    fn push(&mut self, word: &[u8]) {
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        self.ends.iter().map(move |&end| {
            let word = &self.bytes[from..end];
            from = end;
            word
        })
    }

    /// Returns each two words.
    fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut words = self.iter();
        std::iter::from_fn(move || Some((words.next()?, words.next()?)))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// A part of a stream.
enum StreamPart {
    Entry(StreamId, Vec<Vec<u8>>),
    Head { last: StreamId, added: u64, deleted: StreamId },
    Group { name: Vec<u8>, last: StreamId, read: Option<u64> },
    Consumer { name: Vec<u8>, seen: u64 },
    Pending { id: StreamId, delivered: u64, count: u64 },
}

/// The group and the consumer that parts of a stream belong to.
#[derive(Default)]
struct StreamPlace {
    group: Vec<u8>,
    consumer: Vec<u8>,
}

/// A value that is being stored.
pub(crate) struct Store<'s, 't, 'k> {
    txn: &'s mut Txn<'t>,
    config: &'s Config,
    db: Db,
    key: Key<'k>,
    parts: &'s mut Parts,
    place: StreamPlace,
    is_there: bool,
    /// A string was not stored, since the key was there.
    is_duplicate: bool,
    /// Each batch is committed: nobody sees the value before it is complete.
    commits: bool,
}

impl<'s, 't, 'k> Store<'s, 't, 'k> {
    /// Stores under a key that is not there.
    pub(crate) fn new(
        config: &'s Config,
        txn: &'s mut Txn<'t>,
        db: Db,
        key: Key<'k>,
        parts: &'s mut Parts,
    ) -> Store<'s, 't, 'k> {
        parts.clear();
        let place = StreamPlace::default();
        let (is_there, is_duplicate, commits) = Default::default();
        Store { txn, config, db, key, parts, place, is_there, is_duplicate, commits }
    }

    /// Commits each batch, for whoever has the keyspace to himself.
    pub(crate) fn in_steps(self) -> Store<'s, 't, 'k> {
        Store { commits: true, ..self }
    }

    /// Returns true if a string was not stored, since the key was there.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.is_duplicate
    }

    /// Stores what was kept; whether there is anything of the value.
    pub(crate) fn finish(mut self) -> Result<bool, Failure> {
        self.flush()?;
        Ok(self.is_there)
    }

    /// Takes a part.
    pub(crate) fn take(&mut self, part: Part<'_>) -> Done {
        let parts = &mut *self.parts;
        match part {
            Part::String(value) => {
                self.is_there = self.txn.set_new(self.db, &self.key, value)?;
                self.is_duplicate = !self.is_there;
                return Ok(());
            }
            Part::Element(element) => parts.push(Type::List, element),
            Part::Member(member) => parts.push(Type::Set, member),
            Part::Scored(member, score) => {
                parts.push(Type::SortedSet, member);
                parts.scores.push(score);
            }
            Part::Field(_, _, Some(time)) if time <= self.txn.now() => return Ok(()),
            Part::Field(field, value, time) => {
                if time.is_some_and(|time| i64::try_from(time).is_err()) {
                    return Err(BAD_DATA.into());
                }
                parts.push(Type::Hash, field);
                parts.push(Type::Hash, value);
                parts.times.push(time);
            }
            part => parts.push_stream(part)?,
        }
        let len = self.parts.words.len().max(self.parts.stream.len());
        let is_enough = len >= PARTS_AT_ONCE || self.parts.bytes() >= BYTES_AT_ONCE;
        // A field and its value stay together.
        if !is_enough {
            return Ok(());
        }
        self.flush()?;
        if self.commits {
            self.txn.commit()?;
        }
        Ok(())
    }

    /// Stores what was kept.
    fn flush(&mut self) -> Done {
        let Some(what) = self.parts.what else { return Ok(()) };
        self.is_there = true;
        let words = &self.parts.words;
        match what {
            Type::List => {
                let limits = self.config.list_limits();
                self.txn.push(self.db, &self.key, Side::Tail, words.iter(), limits)?;
            }
            Type::Set => {
                let members = words.iter().map(|member| (member, &b""[..]));
                let limits = self.config.set_limits();
                let new = self.txn.put_members(self.db, &self.key, what, members, limits)?;
                each_once(new, words.len())?;
            }
            Type::SortedSet => self.scored()?,
            Type::Stream => self.stream()?,
            _ => self.fields()?,
        }
        self.parts.clear();
        Ok(())
    }

    fn scored(&mut self) -> Done {
        let parts = &*self.parts;
        let limits = self.config.sorted_set_limits();
        let mut edit = self.txn.edit_sorted_set(self.db, &self.key, limits)?;
        let mut new = 0;
        for (member, score) in parts.words.iter().zip(&parts.scores) {
            edit.change(self.txn, member, |old| {
                new += usize::from(old.is_none());
                Some(*score)
            })?;
        }
        edit.finish(self.txn, self.db, &self.key)?;
        each_once(new, parts.words.len())
    }

    fn fields(&mut self) -> Done {
        let parts = &*self.parts;
        let (pairs, limits) = (parts.words.pairs(), self.config.hash_limits());
        let new = self.txn.put_members(self.db, &self.key, Type::Hash, pairs, limits)?;
        each_once(new, parts.times.len())?;
        if parts.times.iter().all(Option::is_none) {
            return Ok(());
        }
        let mut times = parts.times.iter().flatten();
        let timed = parts.words.pairs().zip(&parts.times).filter(|(_, time)| time.is_some());
        let fields = timed.map(|((field, _), _)| field);
        let change = |_: &[u8], _| FieldChange::Time(times.next().copied());
        Ok(self.txn.change_fields(self.db, &self.key, fields, change)?)
    }

    fn stream(&mut self) -> Done {
        let parts = &*self.parts;
        let (limits, place) = (self.config.stream_limits(), &mut self.place);
        let done = self.txn.edit_stream(self.db, &self.key, |edit| {
            let mut writer = StreamWriter { edit, limits, group: None, consumer: None };
            writer.go_on(place)?;
            for part in &parts.stream {
                if !writer.put(part, place)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        if done { Ok(()) } else { Err(BAD_DATA.into()) }
    }
}

fn each_once(new: usize, given: usize) -> Done {
    if new == given { Ok(()) } else { Err(BAD_DATA.into()) }
}

fn id(id: rdb::StreamId) -> StreamId {
    StreamId { ms: id.ms, seq: id.seq }
}

impl Parts {
    fn push(&mut self, what: Type, word: &[u8]) {
        self.what = Some(what);
        self.words.push(word);
    }

    fn bytes(&self) -> usize {
        self.words.bytes.len() + self.stream_bytes
    }

    fn clear(&mut self) {
        self.what = None;
        self.words.clear();
        self.scores.clear();
        self.times.clear();
        self.stream.clear();
        self.stream_bytes = 0;
    }

    fn push_stream(&mut self, part: Part<'_>) -> Done {
        self.what = Some(Type::Stream);
        self.stream.push(match part {
            Part::Entry(entry, words) => {
                self.stream_bytes += words.iter().map(|word| word.len()).sum::<usize>();
                StreamPart::Entry(id(entry), words.iter().map(|word| word.to_vec()).collect())
            }
            Part::Stream { last, added, deleted, .. } => {
                StreamPart::Head { last: id(last), added, deleted: id(deleted) }
            }
            Part::Group { name, last, read } => {
                StreamPart::Group { name: name.to_vec(), last: id(last), read }
            }
            Part::Consumer { name, seen, .. } => StreamPart::Consumer { name: name.to_vec(), seen },
            Part::Pending { id: entry, delivered, count } => {
                StreamPart::Pending { id: id(entry), delivered, count }
            }
            _ => return Err(BAD_DATA.into()),
        });
        Ok(())
    }
}

/// Puts parts into a stream.
struct StreamWriter<'w, 'e, 'k> {
    edit: &'w mut StreamEdit<'e, 'k>,
    limits: keyspace::StreamLimits,
    group: Option<StreamGroup>,
    consumer: Option<StreamConsumer>,
}

impl StreamWriter<'_, '_, '_> {
    /// Finds the group and the consumer again to which the parts before belonged.
    fn go_on(&mut self, place: &StreamPlace) -> Result<(), keyspace::Error> {
        self.group = self.edit.read().group(&place.group)?;
        if let Some(group) = &self.group {
            self.consumer = self.edit.read().consumer(group, &place.consumer)?;
        }
        Ok(())
    }

    /// Puts a part in; whether that is possible: each name is new, and a group comes before what
    /// belongs to it.
    fn put(&mut self, part: &StreamPart, place: &mut StreamPlace) -> Result<bool, keyspace::Error> {
        match part {
            StreamPart::Entry(id, words) => {
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                self.edit.append(*id, &words, self.limits)?;
            }
            StreamPart::Head { last, added, deleted } => {
                self.edit.set_last(*last, Some(*added), Some(*deleted));
            }
            StreamPart::Group { name, last, read } => {
                self.group = self.edit.create_group(name, *last, *read)?;
                place.group.clone_from(name);
                return Ok(self.group.is_some());
            }
            StreamPart::Consumer { name, seen } => {
                let Some(group) = &self.group else { return Ok(false) };
                self.consumer = self.edit.create_consumer(group, name, *seen)?;
                place.consumer.clone_from(name);
                return Ok(self.consumer.is_some());
            }
            StreamPart::Pending { id, delivered, count } => {
                let (Some(group), Some(consumer)) = (&self.group, &self.consumer) else {
                    return Ok(false);
                };
                self.edit.deliver(group, consumer, *id, (*delivered, *count))?;
            }
        }
        Ok(true)
    }
}
