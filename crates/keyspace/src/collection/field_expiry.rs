//! Fields of hashes that have a time of their own.
//!
//! Packed, each element of such a hash is three items: field, value, time (0: none). In a table the
//! member has the time, and the table a tree of those that have one. The entry's expiry word says
//! that there are any, so that the entry is in the index of expiry times, where the background
//! finds it, and so that no other key is asked.
//!
//! A field whose time has come is absent for whoever reads. Who writes to the hash deletes it
//! first, and lists that: all of a packed hash, some of a table and those that the command names.
//! When the time of the last field has come the key has expired as if by a time of its own.

use heap::{Ptr, View};
use structures::blob::Blob;
use structures::dict::Dict;
use structures::listpack::{Item, Items};

use super::edit::{Edit, State};
use super::members::find;
use super::text::{Text, item};
use super::{Head, Layout, Limits};
use crate::layout::{FIELDS, Kind};
use crate::txn::KeyLocation;
use crate::types::{Encoding, Type};
use crate::{Db, Entry, Error, Key, Txn, entry};

/// Fields of a table that one command, or one step, deletes because their time has come.
const AT_ONCE: usize = 64;

/// A field of a hash, with its value and its time, in unix ms, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedField {
    /// The field.
    pub field: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// When it expires.
    pub time: Option<u64>,
}

/// What becomes of a field's time when its value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldTime {
    /// None from now on.
    Clear,
    /// As it was.
    Keep,
    /// This, in unix ms.
    At(u64),
}

impl FieldTime {
    pub(super) fn resolve(self, old: Option<u64>) -> Option<u64> {
        match self {
            FieldTime::Clear => None,
            FieldTime::Keep => old,
            FieldTime::At(at) => Some(at),
        }
    }
}

/// What is to become of a field that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldChange {
    /// Nothing.
    Leave,
    /// It has this time, in unix ms, or none.
    Time(Option<u64>),
    /// It goes.
    Delete,
}

/// Returns the time in an item; 0, or what is no time, is none.
fn time_in(item: Item<'_>) -> Option<u64> {
    match item {
        Item::Int(time) => u64::try_from(time).ok().filter(|&time| time != 0),
        Item::Bytes(_) => None,
    }
}

pub(super) fn time_item(time: Option<u64>) -> Item<'static> {
    Item::Int(time.map_or(0, |time| time as i64))
}

/// Returns the time of the element that begins at `at` of packed bytes of three items each.
pub(super) fn time_at(bytes: &[u8], at: usize) -> Option<u64> {
    Items::of(&bytes[at..]).nth(2).and_then(|(_, item)| time_in(item))
}

/// Returns the elements of packed bytes of three items each: where each begins and ends, field,
/// value, time.
pub(super) fn elements(bytes: &[u8]) -> impl Iterator<Item = Element<'_>> {
    let mut all = Items::of(bytes);
    std::iter::from_fn(move || {
        let begin = all.offset();
        let (_, field) = all.next()?;
        let (_, value) = all.next()?;
        let time = time_in(all.next()?.1);
        Some(Element { begin, end: all.offset(), field, value, time })
    })
}

pub(super) struct Element<'b> {
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) field: Item<'b>,
    pub(super) value: Item<'b>,
    pub(super) time: Option<u64>,
}

impl Element<'_> {
    pub(super) fn is_expired(&self, now: u64) -> bool {
        is_expired(self.time, now)
    }
}

pub(super) fn is_expired(time: Option<u64>, now: u64) -> bool {
    time.is_some_and(|time| time <= now)
}

fn dict(word: u64) -> Dict {
    Dict::at(Ptr::from_raw(word))
}

/// Returns true if it is of a kind that can have times: the expiry word, which says that it has,
/// has no checksum.
pub(crate) fn can_have_ttls(head: Head) -> bool {
    head.layout == Layout::ListpackWithTtls
        || head.layout == Layout::HashTable && head.what == Type::Hash
}

/// Returns true if any field has a time.
pub(crate) fn has_ttls<V: View>(view: &V, head: Head, word: u64) -> bool {
    match head.layout {
        Layout::ListpackWithTtls => {
            let bytes = Blob::from_word(word).to_vec(view).unwrap_or_default();
            elements(&bytes).any(|element| element.time.is_some())
        }
        Layout::HashTable => head.what == Type::Hash && dict(word).has_ttls(view),
        Layout::Listpack | Layout::List | Layout::SortedSet | Layout::Stream => false,
    }
}

/// Returns true if the time of every field has come. What is damaged has not: it is refused when it
/// is read.
pub(crate) fn all_fields_expired<V: View>(view: &V, head: Head, word: u64, now: u64) -> bool {
    match head.layout {
        Layout::ListpackWithTtls => {
            let blob = Blob::from_word(word);
            let bytes = blob.to_vec(view).unwrap_or_default();
            elements(&bytes).all(|element| element.is_expired(now))
                && elements(&bytes).count() == head.count as usize
                && blob.check(view).is_ok()
        }
        Layout::HashTable => head.what == Type::Hash && dict(word).all_fields_expired(view, now),
        Layout::Listpack | Layout::List | Layout::SortedSet | Layout::Stream => false,
    }
}

/// Returns true if the time of any field has come.
pub(crate) fn has_expired_fields<V: View>(view: &V, head: Head, word: u64, now: u64) -> bool {
    match head.layout {
        Layout::ListpackWithTtls => {
            let bytes = Blob::from_word(word).to_vec(view).unwrap_or_default();
            elements(&bytes).any(|element| element.is_expired(now))
        }
        Layout::HashTable => {
            head.what == Type::Hash && is_expired(dict(word).first_time(view), now)
        }
        Layout::Listpack | Layout::List | Layout::SortedSet | Layout::Stream => false,
    }
}

/// As [`super::pieces`], of a hash whose fields may have times.
pub(crate) fn timed_pieces<V: View>(
    view: &V,
    head: Head,
    word: u64,
    cursor: u64,
    count: usize,
    mut visit: impl FnMut(TimedField),
) -> u64 {
    match head.layout {
        Layout::ListpackWithTtls => {
            let bytes = Blob::from_word(word).to_vec(view).unwrap_or_default();
            for Element { field, value, time, .. } in elements(&bytes) {
                let text = |item| Text::of(item).as_ref().to_vec();
                visit(TimedField { field: text(field), value: text(value), time });
            }
            0
        }
        Layout::HashTable => dict(word).scan(view, cursor, count, |member| {
            let (field, value) = (member.field(view), member.value(view));
            let (field, value) = (field.into_owned(), value.into_owned());
            visit(TimedField { field, value, time: member.time(view) });
        }),
        Layout::Listpack | Layout::List | Layout::SortedSet | Layout::Stream => 0,
    }
}

impl Edit {
    /// Deletes fields whose time has come: all of a packed hash, up to a number of a table.
    #[inline]
    pub(super) fn expire(&mut self, txn: &mut Txn<'_>) -> Result<(), Error> {
        match self.old {
            Some(old) if old.expiry & FIELDS != 0 => self.expire_some(txn),
            _ => Ok(()),
        }
    }

    #[cold]
    fn expire_some(&mut self, txn: &mut Txn<'_>) -> Result<(), Error> {
        let before = self.expired.len();
        match &mut self.state {
            State::Listpack { bytes, count, unchanged_prefix, timed: true } => {
                let now = self.now;
                let expired = elements(bytes).filter(|element| element.is_expired(now));
                let expired: Vec<(usize, usize, Vec<u8>)> = expired
                    .map(|gone| (gone.begin, gone.end, Text::of(gone.field).as_ref().to_vec()))
                    .collect();
                for (begin, end, field) in expired.into_iter().rev() {
                    bytes.drain(begin..end);
                    (*count, *unchanged_prefix) = (*count - 1, None);
                    self.expired.push(field);
                }
            }
            State::Listpack { .. } => {}
            State::Table(dict) => {
                let dict = *dict;
                let expired = dict.until(&txn.shards[self.place.shard], self.now, AT_ONCE);
                for field in expired.map_err(|_| self.damaged())? {
                    let before = self.expired.len();
                    self.remove(txn, &field)?;
                    if self.expired.len() == before {
                        return Err(self.damaged());
                    }
                }
            }
        }
        if self.expired.len() > before {
            (self.changed, self.shrunk) = (true, true);
        }
        Ok(())
    }

    /// Gives the elements of a packed hash a time each.
    pub(super) fn make_timed(&mut self) {
        let State::Listpack { bytes, unchanged_prefix, timed, .. } = &mut self.state else {
            return;
        };
        if *timed {
            return;
        }
        let mut new = Vec::with_capacity(bytes.len() + 16);
        for (number, (_, item)) in Items::of(bytes).enumerate() {
            item.encode(&mut new);
            if number % 2 == 1 {
                time_item(None).encode(&mut new);
            }
        }
        (*bytes, *unchanged_prefix, *timed) = (new, None, true);
        if self.encoding == Encoding::Listpack {
            self.encoding = Encoding::ListpackEx;
        }
    }

    /// Returns the time of a field, if the field is there.
    pub(super) fn time(&self, txn: &Txn<'_>, field: &[u8]) -> Result<Option<Option<u64>>, Error> {
        let found = match &self.state {
            State::Listpack { bytes, timed, .. } => {
                let found = find(bytes, self.items(), item(field));
                found.map(|(at, _)| if *timed { time_at(bytes, at) } else { None })
            }
            State::Table(dict) => {
                let shard = &txn.shards[self.place.shard];
                let found = dict.find(shard, self.hashing.hash(field), field, self.verify);
                let found = found.map_err(|_| self.damaged())?;
                found.map(|place| place.member().time(shard))
            }
        };
        Ok(found.filter(|&time| !is_expired(time, self.now)))
    }

    /// Gives a field that is there a time, or none.
    fn set_time(
        &mut self,
        txn: &mut Txn<'_>,
        field: &[u8],
        time: Option<u64>,
    ) -> Result<(), Error> {
        if time.is_some() {
            self.make_timed();
        }
        let damaged = self.damaged();
        match &mut self.state {
            State::Listpack { timed: false, .. } => return Ok(()),
            State::Listpack { bytes, unchanged_prefix, .. } => {
                let Some((at, _)) = find(bytes, 3, item(field)) else { return Ok(()) };
                let mut all = Items::of(&bytes[at..]);
                all.by_ref().take(2).for_each(drop);
                let begin = at + all.offset();
                all.by_ref().take(1).for_each(drop);
                let end = at + all.offset();
                let mut new = Vec::with_capacity(9);
                time_item(time).encode(&mut new);
                bytes.splice(begin..end, new);
                *unchanged_prefix = None;
            }
            State::Table(dict) => {
                let shard = &mut txn.shards[self.place.shard];
                let found = dict.find(shard, self.hashing.hash(field), field, self.verify);
                let Some(place) = found.map_err(|_| damaged)? else { return Ok(()) };
                dict.set_time(shard, place, time).map_err(|error| match error {
                    structures::Error::Full(_) => Error::Full,
                    structures::Error::Damaged(_) => damaged,
                })?;
            }
        }
        self.changed = true;
        if !self.fits() {
            self.make_table(txn)?;
        }
        Ok(())
    }

    /// Returns true if any field has a time.
    pub(super) fn has_ttls(&self, txn: &Txn<'_>) -> bool {
        match &self.state {
            State::Listpack { bytes, timed, .. } => {
                *timed && elements(bytes).any(|element| element.time.is_some())
            }
            State::Table(dict) => dict.has_ttls(&txn.shards[self.place.shard]),
        }
    }
}

impl Txn<'_> {
    /// Gives fields of a hash their values, in order, and each this time; makes the key where there
    /// is none. How many are new.
    pub fn put_fields<'a>(
        &mut self,
        db: Db,
        key: &Key<'_>,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        time: FieldTime,
        limits: Limits,
    ) -> Result<usize, Error> {
        let mut edit = self.edit(db, key, Type::Hash, limits)?;
        edit.expire(self)?;
        let mut new = 0;
        for (field, value) in fields {
            new += usize::from(edit.put(self, field, value, time)?);
        }
        edit.finish(self, db, key)?;
        Ok(new)
    }

    /// Shows the time of each of these fields, in order (`None`: the field is absent), and does
    /// with the field what `change` answers.
    pub fn change_fields<'a>(
        &mut self,
        db: Db,
        key: &Key<'_>,
        fields: impl IntoIterator<Item = &'a [u8]>,
        mut change: impl FnMut(&'a [u8], Option<Option<u64>>) -> FieldChange,
    ) -> Result<(), Error> {
        let mut edit = self.edit(db, key, Type::Hash, Limits::NONE)?;
        edit.expire(self)?;
        for field in fields {
            let time = edit.time(self, field)?;
            match change(field, time) {
                _ if time.is_none() => {}
                FieldChange::Leave => {}
                FieldChange::Time(new) if Some(new) == time => {}
                FieldChange::Time(new) => edit.set_time(self, field, new)?,
                FieldChange::Delete => {
                    edit.remove(self, field)?;
                }
            }
        }
        edit.finish(self, db, key)?;
        Ok(())
    }

    /// Returns true if it is a hash of which any field has a time of its own.
    pub fn has_field_ttls(&self, entry: &Entry) -> bool {
        entry::expiry_word(&self.shards[entry.shard], entry.at) & FIELDS != 0
    }

    /// Deletes fields whose time has come: all of a packed hash, some of a table; how many.
    pub(crate) fn expire_fields(&mut self, db: Db, key: &Key<'_>) -> Result<usize, Error> {
        let (place, old) = self.open(db, key)?;
        if !old.is_some_and(|old| self.has_expired_fields(place, old.at)) {
            return Ok(0);
        }
        let mut edit = self.edit(db, key, Type::Hash, Limits::NONE)?;
        edit.expire(self)?;
        let expired = edit.expired.len();
        edit.finish(self, db, key)?;
        Ok(expired)
    }

    /// Deletes all fields of a hash whose time has come, however many: for one who stores what is
    /// read of it.
    pub fn delete_expired_fields(&mut self, db: Db, key: &Key<'_>) -> Result<(), Error> {
        while self.expire_fields(db, key)? > 0 {}
        Ok(())
    }

    /// Returns true if an entry is a hash of which fields are to be deleted.
    pub(crate) fn has_expired_fields(&self, place: KeyLocation, at: Ptr) -> bool {
        let shard = &self.shards[place.shard];
        if entry::expiry_word(shard, at) & FIELDS == 0 {
            return false;
        }
        let Kind::Collection(head) = entry::kind(shard, at) else { return false };
        has_expired_fields(shard, head, shard.word(entry::cell(shard, at)), self.now())
    }

    /// Counts the fields of a hash that goes because their time has come.
    pub(crate) fn count_expired_fields(&self, place: KeyLocation, at: Ptr) {
        let shard = &self.shards[place.shard];
        if entry::expiry_word(shard, at) & FIELDS == 0 {
            return;
        }
        let Kind::Collection(head) = entry::kind(shard, at) else { return };
        let word = shard.word(entry::cell(shard, at));
        if all_fields_expired(shard, head, word, self.now()) {
            let fields = match head.layout {
                Layout::HashTable => dict(word).len(shard),
                _ => u64::from(head.count),
            };
            self.volatile(place.shard).counters.expired_fields.add(fields);
        }
    }
}
