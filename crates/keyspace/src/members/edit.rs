//! Changing a set or a hash.
//!
//! A packed set or hash is read into DRAM, changed there, and written back when the command is done
//! with it: in place if it only grew at its end, else as a new block. It becomes a table as soon as
//! it is too large to be packed. A table is changed member by member.

use heap::View;
use structures::blob::MAX_BLOCK_LEN;
use structures::dict::{Dict, Hashed};
use structures::listpack::{Item, Items};

use super::field_expiry::FieldTime;
use super::read::{find, listpack_bytes, sound_table};
use super::seen::SeenElements;
use super::write::{Content, EncodedCollection};
use crate::collection::{Head, Layout, Text, is_expired, item, time_at, time_item};
use crate::entry;
use crate::key::Hashing;
use crate::layout::Kind;
use crate::txn::{KeyLocation, Old};
use crate::types::{Encoding, Type};
use crate::{Db, Error, Key, Txn};

/// The limits up to which Redis calls a collection small: its configuration directives with similar
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of elements: `hash-max-listpack-entries`, `set-max-intset-entries`,
    /// `zset-max-listpack-entries`.
    pub entries: usize,
    /// The maximum length of an element, in bytes: `hash-max-listpack-value`,
    /// `zset-max-listpack-value`. Unused for sets.
    pub value: usize,
}

impl Limits {
    /// The limits to pass for changes that add nothing.
    pub const NONE: Limits = Limits { entries: 0, value: 0 };
}

/// The maximum size, in bytes, up to which a collection that Redis calls large is packed
/// nevertheless: it takes one block, while a table takes a segment of an index.
pub const LISTPACK_MAX_BYTES: usize = 1024;
/// The maximum number of elements of such a collection.
pub const LISTPACK_MAX_COUNT: u32 = 64;

/// The number of bytes of DRAM that are reserved for packed elements when the first one is added.
pub const FIRST_BYTES: usize = 256;

/// Reserves memory if there is no element yet, so that adding a few does not reallocate it.
pub(crate) fn reserve_first(bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        bytes.reserve(FIRST_BYTES);
    }
}

/// Returns true if a collection of this many bytes and elements is packed. A collection that Redis
/// calls small is packed up to the limits of the format.
pub(crate) fn is_listpack(bytes: usize, count: u32, is_small: bool) -> bool {
    let (most_bytes, most) = if is_small {
        (MAX_BLOCK_LEN as usize, Head::MOST)
    } else {
        (LISTPACK_MAX_BYTES, LISTPACK_MAX_COUNT)
    };
    bytes <= most_bytes && count <= most
}

/// A set or hash that is being changed, whether or not it exists yet. Nothing is written before
/// [`Edit::finish`], except to tables.
#[must_use = "what was changed is written when it is finished"]
pub struct Edit {
    pub(super) place: KeyLocation,
    pub(super) old: Option<Old>,
    pub(super) what: Type,
    pub(super) encoding: Encoding,
    limits: Limits,
    pub(super) hashing: Hashing,
    pub(super) verify: bool,
    pub(super) now: u64,
    pub(super) state: State,
    /// For a collection that is created here: a filter for the elements that it may already have.
    seen: Option<SeenElements>,
    pub(super) changed: bool,
    /// Whether elements were removed: the write may then use the space that is reserved for
    /// deletes.
    pub(super) shrunk: bool,
    /// Fields that were deleted because they had expired.
    pub(super) expired: Vec<Vec<u8>>,
}

pub(super) enum State {
    Listpack {
        bytes: Vec<u8>,
        count: u32,
        /// The length of the bytes in the heap, if `bytes` starts with them unchanged.
        unchanged_prefix: Option<usize>,
        /// Whether each element includes an expiry time (hashes only).
        timed: bool,
    },
    Table(Dict),
}

impl Edit {
    /// Begins to change a set or hash. Deletes expired fields, as every writer does. A key of
    /// another type is an error.
    pub(super) fn open(
        txn: &mut Txn<'_>,
        db: Db,
        key: &Key<'_>,
        what: Type,
        limits: Limits,
    ) -> Result<Edit, Error> {
        let (place, old) = txn.open_sound(db, key)?;
        let mut edit = Edit::new(txn, place, what, limits);
        let Some(old) = old else { return Ok(edit) };
        let Kind::Collection(head) = old.kind else { return Err(Error::WrongType) };
        if head.what != what {
            return Err(Error::WrongType);
        }
        let shard = &txn.shards[place.shard];
        let word = shard.word(entry::cell(shard, old.at));
        edit.state = match head.layout {
            Layout::Listpack | Layout::ListpackWithTtls => {
                let mut bytes = edit.take_bytes();
                bytes.extend_from_slice(listpack_bytes(shard, old.at, head, word)?);
                let (unchanged_prefix, timed) =
                    (Some(bytes.len()), head.layout == Layout::ListpackWithTtls);
                State::Listpack { bytes, count: head.count, unchanged_prefix, timed }
            }
            Layout::HashTable => State::Table(sound_table(shard, old.at, word)?),
            Layout::List | Layout::SortedSet | Layout::Stream => return Err(Error::WrongType),
        };
        (edit.old, edit.encoding, edit.seen) = (Some(old), head.encoding, None);
        txn.touch_key(place, key);
        edit.expire(txn)?;
        Ok(edit)
    }

    /// Begins to create a set or hash at a key that does not exist.
    pub(super) fn new(txn: &mut Txn<'_>, place: KeyLocation, what: Type, limits: Limits) -> Edit {
        let bytes = txn.take_spare();
        Edit {
            place,
            old: None,
            what,
            encoding: if what == Type::Set { Encoding::Intset } else { Encoding::Listpack },
            limits,
            hashing: txn.shared().hashing,
            verify: txn.shared().heap().is_durable(),
            now: txn.now(),
            state: State::Listpack { bytes, count: 0, unchanged_prefix: None, timed: false },
            seen: Some(SeenElements::default()),
            changed: false,
            shrunk: false,
            expired: Vec::new(),
        }
    }

    /// Takes the buffer for packed elements.
    fn take_bytes(&mut self) -> Vec<u8> {
        match &mut self.state {
            State::Listpack { bytes, .. } => std::mem::take(bytes),
            State::Table(_) => Vec::new(),
        }
    }

    /// Removes fields of a hash, or members of a set, and deletes the key if none is left. Returns
    /// how many existed, and whether the key is absent afterwards.
    pub(super) fn remove_all<'a>(
        mut self,
        txn: &mut Txn<'_>,
        db: Db,
        key: &Key<'_>,
        members: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(usize, bool), Error> {
        let mut removed = 0;
        for field in members {
            removed += usize::from(self.remove(txn, field)?);
        }
        let left = self.finish(txn, db, key)?;
        Ok((removed, !left))
    }

    pub(super) fn damaged(&self) -> Error {
        Error::Damaged(self.old.map_or(0, |old| old.at.raw()))
    }

    /// Returns the number of items per packed element.
    pub(super) fn items(&self) -> usize {
        match self.state {
            State::Listpack { timed: true, .. } => 3,
            _ if self.what == Type::Set => 1,
            _ => 2,
        }
    }

    /// Returns the present number of elements.
    pub(crate) fn len(&self, txn: &Txn<'_>) -> u64 {
        match &self.state {
            State::Listpack { count, .. } => u64::from(*count),
            State::Table(dict) => dict.len(&txn.shards[self.place.shard]),
        }
    }

    /// Sets a field to a value, or adds a member. Returns true if it is new.
    pub fn set(&mut self, txn: &mut Txn<'_>, field: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.put(txn, field, value, FieldTime::Clear)
    }

    /// Sets a field to a value with an expiry time, or adds a member. Returns true if it is new.
    pub fn put(
        &mut self,
        txn: &mut Txn<'_>,
        field: &[u8],
        value: &[u8],
        when: FieldTime,
    ) -> Result<bool, Error> {
        if matches!(when, FieldTime::At(_)) {
            self.make_timed();
        }
        let items = self.items();
        let is_int;
        let new = match &mut self.state {
            State::Listpack { bytes, count, unchanged_prefix, timed } => {
                let name = item(field);
                is_int = matches!(name, Item::Int(_));
                let may_have = self.seen.as_mut().is_none_or(|seen| seen.enter(name));
                let found = if may_have { find(bytes, items, name) } else { None };
                let found = found.map(|(at, _)| at);
                match found {
                    Some(_) if items == 1 => return Ok(false),
                    Some(at) => {
                        self.changed = true;
                        // Replace only the value and the expiry time after it.
                        let begin = at + name.encoded_len();
                        let mut old = Item::decode(&bytes[begin..]).map_or(0, |(_, len)| len);
                        if *timed {
                            old += Item::decode(&bytes[begin + old..]).map_or(0, |(_, len)| len);
                        }
                        let time = timed.then(|| time_item(when.resolve(time_at(bytes, at))));
                        let end = bytes.len();
                        item(value).encode(bytes);
                        if let Some(time) = time {
                            time.encode(bytes);
                        }
                        let new = bytes.len() - end;
                        bytes[begin + old..].rotate_right(new);
                        bytes.drain(begin..begin + old);
                        *unchanged_prefix = None;
                    }
                    None => {
                        self.changed = true;
                        reserve_first(bytes);
                        name.encode(bytes);
                        if items >= 2 {
                            item(value).encode(bytes);
                        }
                        if *timed {
                            time_item(when.resolve(None)).encode(bytes);
                        }
                        *count += 1;
                    }
                }
                self.rename_encoding(is_int, field.len().max(value.len()));
                found.is_none()
            }
            State::Table(dict) => {
                let dict = *dict;
                let hash = self.hashing.hash(field);
                return self.set_in_table(txn, dict, Hashed { bytes: field, hash }, value, when, 0);
            }
        };
        if !self.fits() {
            self.make_table(txn)?;
        }
        Ok(new)
    }

    /// Like [`Edit::put`], for a field whose hash is known, in a table whose segments will be
    /// `depth` deep (0: unknown).
    pub(super) fn set_in_table(
        &mut self,
        txn: &mut Txn<'_>,
        dict: Dict,
        field: Hashed<'_>,
        value: &[u8],
        when: FieldTime,
        depth: u32,
    ) -> Result<bool, Error> {
        let (hashing, queue) = (self.hashing, txn.queue(self.place.shard));
        let shard = &mut txn.shards[self.place.shard];
        let found = dict.find(shard, field.hash, field.bytes, self.verify);
        match found.map_err(|_| self.damaged())? {
            Some(_) if self.what == Type::Set => Ok(false),
            Some(place) => {
                self.changed = true;
                let old = place.member().time(shard);
                let is_expired = is_expired(old, self.now);
                let time = when.resolve(old.filter(|_| !is_expired));
                dict.replace(shard, queue, place, field.bytes, value, time)?;
                if is_expired {
                    self.expired.push(field.bytes.to_vec());
                }
                Ok(is_expired)
            }
            None => {
                self.changed = true;
                let time = when.resolve(None);
                let hash = |field: &[u8]| hashing.hash(field);
                dict.insert_expecting(shard, field, value, time, depth, hash)?;
                Ok(true)
            }
        }
    }

    /// Removes a field or member. Returns true if it existed.
    pub(crate) fn remove(&mut self, txn: &mut Txn<'_>, field: &[u8]) -> Result<bool, Error> {
        let (items, damaged) = (self.items(), self.damaged());
        match &mut self.state {
            State::Listpack { bytes, count, unchanged_prefix, .. } => {
                let Some((at, _)) = find(bytes, items, item(field)) else { return Ok(false) };
                let mut all = Items::of(&bytes[at..]);
                all.by_ref().take(items).for_each(drop);
                let len = all.offset();
                bytes.drain(at..at + len);
                (*count, *unchanged_prefix) = (*count - 1, None);
                self.shrunk = true;
            }
            State::Table(dict) => {
                let queue = txn.queue(self.place.shard);
                let shard = &mut txn.shards[self.place.shard];
                let found = dict.find(shard, self.hashing.hash(field), field, self.verify);
                let Some(place) = found.map_err(|_| damaged)? else { return Ok(false) };
                let is_expired = is_expired(place.member().time(shard), self.now);
                shard.allow_reserve(true);
                let done = dict.remove(shard, queue, place);
                shard.allow_reserve(false);
                done?;
                if is_expired {
                    self.expired.push(field.to_vec());
                    self.changed = true;
                    return Ok(false);
                }
            }
        }
        self.changed = true;
        Ok(true)
    }

    /// Updates the encoding, as OBJECT ENCODING names it, after an element was added: an integer or
    /// not, with items of at most this many bytes.
    fn rename_encoding(&mut self, is_int: bool, longest: usize) {
        let State::Listpack { count, .. } = &self.state else { return };
        let long = match self.what {
            Type::Set => !is_int,
            _ => longest > self.limits.value,
        };
        if long || *count as usize > self.limits.entries {
            self.encoding = Encoding::Hashtable;
        }
    }

    /// Returns true if the collection can stay packed.
    pub(super) fn fits(&self) -> bool {
        let State::Listpack { bytes, count, .. } = &self.state else { return true };
        is_listpack(bytes.len(), *count, self.encoding != Encoding::Hashtable)
    }

    pub(super) fn make_table(&mut self, txn: &mut Txn<'_>) -> Result<(), Error> {
        let State::Listpack { bytes, timed, .. } = &self.state else { return Ok(()) };
        let hashing = self.hashing;
        let shard = &mut txn.shards[self.place.shard];
        let dict = Dict::create(shard)?;
        let mut items = Items::of(bytes);
        while let Some((at, field)) = items.next() {
            let value = if self.what == Type::Set { None } else { items.next() };
            let (field, value) = (Text::of(field), value.map(|(_, item)| Text::of(item)));
            let time = if *timed { time_at(bytes, at) } else { None };
            if *timed {
                items.next();
            }
            let value = value.as_ref().map_or(&[][..], Text::as_ref);
            dict.insert(shard, |field| hashing.hash(field), field.as_ref(), value, time)?;
        }
        self.encoding = Encoding::Hashtable;
        self.state = State::Table(dict);
        Ok(())
    }

    /// Writes the changes: creates the key, or deletes it if no element is left. Returns true if
    /// the key exists.
    pub fn finish(mut self, txn: &mut Txn<'_>, db: Db, key: &Key<'_>) -> Result<bool, Error> {
        let is_there = if self.changed { self.write(txn, db, key)? } else { self.old.is_some() };
        txn.keep_spare(self.take_bytes());
        Ok(is_there)
    }

    fn write(&self, txn: &mut Txn<'_>, db: Db, key: &Key<'_>) -> Result<bool, Error> {
        let left = self.len(txn);
        for field in &self.expired {
            txn.record_expired_field(self.place.shard, db, key.bytes(), field);
        }
        let (layout, count) = match &self.state {
            State::Listpack { count, timed: true, .. } => (Layout::ListpackWithTtls, *count),
            State::Listpack { count, .. } => (Layout::Listpack, *count),
            State::Table(_) => (Layout::HashTable, 0),
        };
        let written = EncodedCollection {
            place: self.place,
            old: self.old,
            head: Head { what: self.what, encoding: self.encoding, layout, count },
            content: match &self.state {
                State::Listpack { bytes, unchanged_prefix, .. } => {
                    Content::Listpack { bytes, unchanged_prefix: *unchanged_prefix }
                }
                State::Table(dict) => Content::At(dict.ptr()),
            },
            shrunk: self.shrunk,
            has_ttls: self.has_ttls(txn),
        };
        written.finish(txn, db, key, left)
    }
}
