//! Stores a value from a payload under a key that does not exist.
//!
//! Members and fields go into an open collection one by one, which is written when the value ends,
//! or when there are many. The parts of lists and streams are kept until there are enough of them
//! for one change of the key. The collection detects duplicates within a value: they are not new.

use engine::call::Call;
use engine::config::Config;
use engine::failure::{Done, Failure};
use keyspace::{
    AbsentKey, Db, Expire, FieldTime, Key, MembersEdit, Side, SortedSetEdit, StreamConsumer,
    StreamDelivery, StreamEdit, StreamGroup, StreamId, Txn, Type,
};
use rdb::{Kind, Part, Source};

use super::BAD_DATA;

/// The number of parts that are stored at once.
pub const PARTS_AT_ONCE: usize = 1024;
/// The number of bytes of parts that are stored at once.
pub const BYTES_AT_ONCE: usize = 256 << 10;

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

/// The outcome of storing a value.
pub(super) struct Stored {
    /// False if nothing is left of it, since all fields of a hash have expired.
    pub(super) is_there: bool,
    /// Fields that have expired, which the payload holds and the value does not.
    pub(super) expired: Vec<Vec<u8>>,
}

/// Stores the value. It fails if an expired field is in the payload twice, as it does for others: a
/// replay, for which nothing expires, would refuse the payload.
pub(super) fn store(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
    kind: Kind,
    mut source: Source<&[u8]>,
    expires: Option<u64>,
) -> Result<Stored, Stopped> {
    let mut parts = Parts::default();
    let (db, key) = (call.db(), call.key(0));
    let store = Store::new(call.engine.config(), txn, db, key, &mut parts);
    let mut store = store.expiring(expires).keeping_expired();
    let read = rdb::read_value(&mut source, kind, |part| store.take(part).map_err(Stopped::Store));
    read?;
    let is_there = store.finish().map_err(Stopped::Store)?;
    let mut expired = store.expired.unwrap_or_default();
    expired.sort_unstable();
    let is_twice = expired.windows(2).any(|pair| pair[0] == pair[1]);
    if is_twice
        || is_there
            && !expired.is_empty()
            && has_any(txn, db, &key, &expired).map_err(Stopped::Store)?
    {
        return Err(Stopped::Store(BAD_DATA.into()));
    }
    Ok(Stored { is_there, expired })
}

/// Returns true if a hash has any of these fields.
fn has_any(txn: &mut Txn<'_>, db: Db, key: &Key<'_>, fields: &[Vec<u8>]) -> Result<bool, Failure> {
    let Some(entry) = txn.find_mut(db, key)? else { return Ok(false) };
    let hash = txn.members(&entry, Type::Hash)?;
    for field in fields {
        if hash.contains(field)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Parts of a list or a stream, of one kind at a time, that are still to be stored. A caller that
/// stores many values uses the same memory for all.
#[derive(Default)]
pub(crate) struct Parts {
    elements: Words,
    stream: Vec<StreamPart>,
    stream_bytes: usize,
}

/// Words one after the other, with the end of each.
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
    Consumer { name: Vec<u8>, seen: u64, active: Option<u64> },
    Pending { id: StreamId, delivered: u64, count: u64 },
}

/// The group and the consumer that the following parts of a stream belong to.
#[derive(Default)]
struct StreamPlace {
    group: Vec<u8>,
    consumer: Vec<u8>,
}

/// A collection to which members are added one by one.
enum Open {
    None,
    Members(MembersEdit),
    SortedSet(SortedSetEdit),
}

/// A value that is being stored.
pub(crate) struct Store<'s, 't, 'k> {
    txn: &'s mut Txn<'t>,
    config: &'s Config,
    db: Db,
    key: Key<'k>,
    /// The expiry time that a string gets together with its value.
    expire: Expire,
    parts: &'s mut Parts,
    open: Open,
    /// Members, and their bytes, in the open collection.
    taken: (usize, usize),
    place: StreamPlace,
    is_there: bool,
    /// True if nothing was stored, since the key existed.
    is_duplicate: bool,
    /// True if each batch is committed: nobody sees the value before it is complete.
    commits: bool,
    /// Fields that are not stored, since they have expired, for a caller that asked for them.
    expired: Option<Vec<Vec<u8>>>,
}

impl<'s, 't, 'k> Store<'s, 't, 'k> {
    /// Stores under a key that does not exist.
    pub(crate) fn new(
        config: &'s Config,
        txn: &'s mut Txn<'t>,
        db: Db,
        key: Key<'k>,
        parts: &'s mut Parts,
    ) -> Store<'s, 't, 'k> {
        parts.clear();
        let (place, open, taken) = (StreamPlace::default(), Open::None, (0, 0));
        let (is_there, is_duplicate, commits) = Default::default();
        Store {
            txn,
            config,
            db,
            key,
            expire: Expire::Clear,
            parts,
            open,
            taken,
            place,
            is_there,
            is_duplicate,
            commits,
            expired: None,
        }
    }

    /// Gives a string its expiry time (unix ms) together with its value, so that its entry need not
    /// be written again. Other values get theirs from the caller.
    pub(crate) fn expiring(self, at: Option<u64>) -> Store<'s, 't, 'k> {
        Store { expire: at.map_or(Expire::Clear, Expire::At), ..self }
    }

    /// Keeps fields that have expired, for a caller that logs the value as it came.
    fn keeping_expired(self) -> Store<'s, 't, 'k> {
        Store { expired: Some(Vec::new()), ..self }
    }

    /// Commits each batch, for a caller that has the keyspace to itself.
    pub(crate) fn in_steps(self) -> Store<'s, 't, 'k> {
        Store { commits: true, ..self }
    }

    /// Returns true if nothing was stored, since the key existed.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.is_duplicate
    }

    /// Stores the kept parts. Returns true if there is anything of the value.
    pub(crate) fn finish(&mut self) -> Result<bool, Failure> {
        self.flush()?;
        Ok(self.is_there)
    }

    /// Stores or keeps a part.
    #[inline]
    pub(crate) fn take(&mut self, part: Part<'_>) -> Done {
        match part {
            Part::String(value) => {
                self.is_there =
                    self.txn.strings().set_new(self.db, &self.key, value, self.expire)?;
                self.is_duplicate = !self.is_there;
                Ok(())
            }
            Part::Member(member) => self.member(Type::Set, member, b"", None),
            Part::Field(field, _, Some(time)) if time <= self.txn.now() => {
                if let Some(expired) = &mut self.expired {
                    expired.push(field.to_vec());
                }
                Ok(())
            }
            Part::Field(field, value, time) => {
                if time.is_some_and(|time| i64::try_from(time).is_err()) {
                    return Err(BAD_DATA.into());
                }
                self.member(Type::Hash, field, value, time)
            }
            Part::Scored(member, score) => self.scored(member, score),
            Part::Element(element) => {
                self.parts.elements.push(element);
                self.after_part()
            }
            part => {
                self.parts.push_stream(part)?;
                self.after_part()
            }
        }
    }

    /// Adds a member of a set, or a field with its value and TTL.
    #[inline]
    fn member(&mut self, what: Type, field: &[u8], value: &[u8], time: Option<u64>) -> Done {
        if matches!(self.open, Open::None) {
            self.open_members(what)?;
        }
        let Open::Members(edit) = &mut self.open else { return Err(BAD_DATA.into()) };
        let time = time.map_or(FieldTime::Clear, FieldTime::At);
        if !edit.put(self.txn, field, value, time)? {
            return Err(BAD_DATA.into());
        }
        self.after_member(field.len() + value.len())
    }

    fn open_members(&mut self, what: Type) -> Done {
        let absent = self.absent()?;
        self.open = Open::Members(if what == Type::Set {
            let (mut sets, limits) = (self.txn.sets(), self.config.set_limits());
            match absent {
                Some(absent) => sets.edit_new(absent, limits),
                None => sets.edit(self.db, &self.key, limits)?,
            }
        } else {
            let (mut hashes, limits) = (self.txn.hashes(), self.config.hash_limits());
            match absent {
                Some(absent) => hashes.edit_new(absent, limits),
                None => hashes.edit(self.db, &self.key, limits)?,
            }
        });
        Ok(())
    }

    #[inline]
    fn scored(&mut self, member: &[u8], score: f64) -> Done {
        if matches!(self.open, Open::None) {
            let limits = self.config.sorted_set_limits();
            self.open = Open::SortedSet(match self.absent()? {
                Some(absent) => self.txn.sorted_sets().edit_new(absent, limits),
                None => self.txn.sorted_sets().edit(self.db, &self.key, limits)?,
            });
        }
        let Open::SortedSet(edit) = &mut self.open else { return Err(BAD_DATA.into()) };
        let mut is_new = false;
        edit.change(self.txn, member, |old| {
            is_new = old.is_none();
            Some(score)
        })?;
        if !is_new {
            return Err(BAD_DATA.into());
        }
        self.after_member(member.len())
    }

    /// Checks that the key does not exist, when the first part of its value comes; `None` for later
    /// parts.
    fn absent(&mut self) -> Result<Option<AbsentKey>, Failure> {
        if self.is_there {
            return Ok(None);
        }
        let absent = self.txn.absent(self.db, &self.key)?;
        (self.is_there, self.is_duplicate) = (true, absent.is_none());
        if self.is_duplicate { Err(BAD_DATA.into()) } else { Ok(absent) }
    }

    /// Commits the open collection if it is large enough.
    #[inline]
    fn after_member(&mut self, bytes: usize) -> Done {
        self.taken = (self.taken.0 + 1, self.taken.1 + bytes);
        let is_enough = self.taken.0 >= PARTS_AT_ONCE || self.taken.1 >= BYTES_AT_ONCE;
        if is_enough && self.commits { self.step() } else { Ok(()) }
    }

    /// Stores the kept parts if there are enough.
    fn after_part(&mut self) -> Done {
        let len = self.parts.elements.len().max(self.parts.stream.len());
        let is_enough = len >= PARTS_AT_ONCE || self.parts.bytes() >= BYTES_AT_ONCE;
        if is_enough { self.step() } else { Ok(()) }
    }

    #[cold]
    fn step(&mut self) -> Done {
        self.flush()?;
        if self.commits {
            self.txn.commit()?;
        }
        Ok(())
    }

    /// Stores the kept parts.
    fn flush(&mut self) -> Done {
        self.taken = (0, 0);
        match std::mem::replace(&mut self.open, Open::None) {
            Open::Members(edit) => drop(edit.finish(self.txn, self.db, &self.key)?),
            Open::SortedSet(edit) => drop(edit.finish(self.txn, self.db, &self.key)?),
            Open::None if self.parts.elements.len() > 0 => self.list()?,
            Open::None if !self.parts.stream.is_empty() => {
                self.absent()?;
                self.stream()?;
            }
            Open::None => return Ok(()),
        }
        self.parts.clear();
        Ok(())
    }

    fn list(&mut self) -> Done {
        let (limits, absent) = (self.config.list_limits(), self.absent()?);
        let elements = self.parts.elements.iter();
        match absent {
            Some(absent) => {
                self.txn.lists().push_new(absent, self.db, &self.key, elements, limits)?
            }
            None => {
                self.txn.lists().push(self.db, &self.key, Side::Tail, elements, limits)?;
            }
        }
        Ok(())
    }

    fn stream(&mut self) -> Done {
        let parts = &*self.parts;
        let (limits, place) = (self.config.stream_limits(), &mut self.place);
        let done = self.txn.streams().edit(self.db, &self.key, |edit| {
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

fn id(id: rdb::StreamId) -> StreamId {
    StreamId { ms: id.ms, seq: id.seq }
}

impl Parts {
    fn bytes(&self) -> usize {
        self.elements.bytes.len() + self.stream_bytes
    }

    fn clear(&mut self) {
        self.elements.clear();
        self.stream.clear();
        self.stream_bytes = 0;
    }

    fn push_stream(&mut self, part: Part<'_>) -> Done {
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
            Part::Consumer { name, seen, active } => {
                StreamPart::Consumer { name: name.to_vec(), seen, active }
            }
            Part::Pending { id: entry, delivered, count } => {
                StreamPart::Pending { id: id(entry), delivered, count }
            }
            _ => return Err(BAD_DATA.into()),
        });
        Ok(())
    }
}

/// Adds parts to a stream.
struct StreamWriter<'w, 'e, 'k> {
    edit: &'w mut StreamEdit<'e, 'k>,
    limits: keyspace::StreamLimits,
    group: Option<StreamGroup>,
    consumer: Option<StreamConsumer>,
}

impl StreamWriter<'_, '_, '_> {
    /// Finds the group and the consumer of the previous parts again.
    fn go_on(&mut self, place: &StreamPlace) -> Result<(), keyspace::Error> {
        self.group = self.edit.read().group(&place.group)?;
        if let Some(group) = &self.group {
            self.consumer = self.edit.read().consumer(group, &place.consumer)?;
        }
        Ok(())
    }

    /// Adds a part. Returns false if that is impossible: each name must be new, and a group must
    /// precede what belongs to it.
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
            StreamPart::Consumer { name, seen, active } => {
                let Some(group) = &self.group else { return Ok(false) };
                self.consumer = self.edit.create_consumer(group, name, *seen, *active)?;
                place.consumer.clone_from(name);
                return Ok(self.consumer.is_some());
            }
            StreamPart::Pending { id, delivered, count } => {
                let (Some(group), Some(consumer)) = (&self.group, &self.consumer) else {
                    return Ok(false);
                };
                self.edit.deliver(
                    group,
                    consumer,
                    *id,
                    StreamDelivery { at_ms: *delivered, count: *count },
                )?;
            }
        }
        Ok(true)
    }
}
