//! Changing a sorted set.
//!
//! This works like a change of a set or a hash: a packed sorted set is read into DRAM, changed
//! there, and written back when the command is done with it; it becomes a table as soon as it is
//! too large to be packed, and a table is changed member by member.

use heap::{Ptr, View};
use structures::sorted_set::SortedSet;

use super::shrink;
use crate::collection::{Head, Layout, Text, encode, item, offset, pairs};
use crate::entry;
use crate::key::Hashing;
use crate::layout::{Kind, OWNER_MEMBERS, OWNER_RANKS};
use crate::members::{
    Content, EncodedCollection, Limits, SeenElements, find, is_listpack, listpack_bytes,
    reserve_first, sound_table,
};
use crate::txn::{KeyLocation, Old};
use crate::types::{Encoding, Type};
use crate::{Db, Error, Key, Txn};

/// A sorted set that is being changed, whether or not it exists yet. Nothing is written before
/// [`SortedSetEdit::finish`], except to tables.
#[must_use = "what was changed is written when it is finished"]
pub struct SortedSetEdit {
    pub(super) place: KeyLocation,
    old: Option<Old>,
    pub(super) encoding: Encoding,
    limits: Limits,
    pub(super) hashing: Hashing,
    verify: bool,
    pub(super) state: State,
    /// The offset and the score of the last member of a packed sorted set, if they are known.
    last: Option<(usize, f64)>,
    /// For a sorted set that is created here: a filter for the members that it may already have.
    seen: Option<SeenElements>,
    pub(super) changed: bool,
    /// Whether members were removed: the write may then use the space that is reserved for deletes.
    shrunk: bool,
}

pub(super) enum State {
    Listpack {
        bytes: Vec<u8>,
        count: u32,
        /// The length of the bytes in the heap, if `bytes` starts with them unchanged.
        unchanged_prefix: Option<usize>,
    },
    Table(SortedSet),
    /// A table whose members were all removed: it is deleted as a whole.
    Gone,
}

impl SortedSetEdit {
    /// Begins to change a sorted set, which Redis calls small within `limits`. A key of another
    /// type is an error.
    pub(super) fn open(
        txn: &mut Txn<'_>,
        db: Db,
        key: &Key<'_>,
        limits: Limits,
    ) -> Result<SortedSetEdit, Error> {
        let (place, old) = txn.open_sound(db, key)?;
        let mut edit = SortedSetEdit::new(txn, place, limits);
        let Some(old) = old else { return Ok(edit) };
        let Kind::Collection(head) = old.kind else { return Err(Error::WrongType) };
        if head.what != Type::SortedSet {
            return Err(Error::WrongType);
        }
        let shard = &txn.shards[place.shard];
        let word = shard.word(entry::cell(shard, old.at));
        edit.state = match head.layout {
            Layout::Listpack => {
                let mut bytes = edit.take_bytes();
                bytes.extend_from_slice(listpack_bytes(shard, old.at, head, word)?);
                let unchanged_prefix = Some(bytes.len());
                State::Listpack { bytes, count: head.count, unchanged_prefix }
            }
            Layout::SortedSet => {
                State::Table(SortedSet::at(sound_table(shard, old.at, word)?.ptr()))
            }
            Layout::ListpackWithTtls | Layout::HashTable | Layout::List | Layout::Stream => {
                return Err(Error::WrongType);
            }
        };
        (edit.old, edit.encoding, edit.seen) = (Some(old), head.encoding, None);
        txn.touch_key(place, key);
        Ok(edit)
    }

    /// Begins to create a sorted set at a key that does not exist.
    pub(super) fn new(txn: &mut Txn<'_>, place: KeyLocation, limits: Limits) -> SortedSetEdit {
        let bytes = txn.take_spare();
        SortedSetEdit {
            place,
            old: None,
            encoding: Encoding::Listpack,
            limits,
            hashing: txn.shared().hashing,
            verify: txn.shared().heap().is_durable(),
            state: State::Listpack { bytes, count: 0, unchanged_prefix: None },
            last: None,
            seen: Some(SeenElements::default()),
            changed: false,
            shrunk: false,
        }
    }

    fn broken(&self) -> Error {
        Error::Damaged(self.old.map_or(0, |old| old.at.raw()))
    }

    fn failed(&self, error: structures::Error) -> Error {
        match error {
            structures::Error::Full(_) => Error::Full,
            structures::Error::Damaged(_) => self.broken(),
        }
    }

    /// Returns the present number of members.
    pub fn len(&self, txn: &Txn<'_>) -> u64 {
        match &self.state {
            State::Listpack { count, .. } => u64::from(*count),
            State::Table(sorted_set) => sorted_set.len(&txn.shards[self.place.shard]),
            State::Gone => 0,
        }
    }

    /// Calls `decide` with the present score of a member (`None`: there is no such member), and
    /// sets the score that it returns, if any. A score must not be NaN.
    pub fn change(
        &mut self,
        txn: &mut Txn<'_>,
        member: &[u8],
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> Result<(), Error> {
        match &self.state {
            State::Table(sorted_set) => {
                let sorted_set = *sorted_set;
                self.change_table(txn, sorted_set, member, decide)
            }
            State::Gone => Ok(()),
            State::Listpack { bytes, .. } => {
                let name = item(member);
                let may_have = self.seen.as_mut().is_none_or(|seen| seen.enter(name));
                let at = if may_have { find(bytes, 2, name).map(|(at, _)| at) } else { None };
                let found = at.and_then(|at| pairs(&bytes[at..]).next().map(|pair| (at, pair)));
                let old = found.map(|(at, pair)| (at, at + pair.end, pair.score));
                let score = decide(old.map(|(.., score)| score));
                if let Some(score) = score.filter(|new| old.is_none_or(|(.., old)| *new != old)) {
                    self.put_in_listpack(member, old.map(|(at, end, _)| (at, end)), score);
                    if !self.fits() {
                        self.make_table(txn)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn put_in_listpack(&mut self, member: &[u8], old: Option<(usize, usize)>, score: f64) {
        debug_assert!(!score.is_nan(), "members are ordered by their scores");
        let State::Listpack { bytes, count, unchanged_prefix } = &mut self.state else { return };
        self.changed = true;
        match old {
            Some((at, end)) => {
                bytes.drain(at..end);
                (*unchanged_prefix, self.last) = (None, None);
            }
            None => {
                *count += 1;
                reserve_first(bytes);
                let is_large =
                    *count as usize > self.limits.entries || member.len() > self.limits.value;
                if is_large {
                    self.encoding = Encoding::Skiplist;
                }
            }
        }
        let is_skiplist = self.encoding == Encoding::Skiplist;
        // Loads add members in ascending order.
        let after = match self.last {
            Some((_, highest)) if score > highest => bytes.len(),
            Some((last, _)) => offset(&bytes[last..], score, member) + last,
            None => 0,
        };
        let at = if after == bytes.len() { after } else { offset(bytes, score, member) };
        if at == bytes.len() {
            self.last = Some((at, score));
            return encode(item(member), score, is_skiplist, bytes);
        }
        (*unchanged_prefix, self.last) = (None, None);
        let end = bytes.len();
        encode(item(member), score, is_skiplist, bytes);
        let new = bytes.len() - end;
        bytes[at..].rotate_right(new);
    }

    fn fits(&self) -> bool {
        let State::Listpack { bytes, count, .. } = &self.state else { return true };
        is_listpack(bytes.len(), *count, self.encoding == Encoding::Listpack)
    }

    fn make_table(&mut self, txn: &mut Txn<'_>) -> Result<(), Error> {
        let State::Listpack { bytes, .. } = &self.state else { return Ok(()) };
        let hashing = self.hashing;
        let shard = &mut txn.shards[self.place.shard];
        let sorted_set = SortedSet::create(shard)?;
        for pair in pairs(bytes) {
            let member = Text::of(pair.member);
            sorted_set.insert(shard, |member| hashing.hash(member), member.as_ref(), pair.score)?;
        }
        self.encoding = Encoding::Skiplist;
        self.state = State::Table(sorted_set);
        Ok(())
    }

    fn change_table(
        &mut self,
        txn: &mut Txn<'_>,
        sorted_set: SortedSet,
        member: &[u8],
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> Result<(), Error> {
        let (hashing, queue) = (self.hashing, txn.queue(self.place.shard));
        let shard = &mut txn.shards[self.place.shard];
        let found = sorted_set.find(shard, hashing.hash(member), member, self.verify);
        let found = found.map_err(|_| self.broken())?;
        let Some(score) = decide(found.map(|found| found.score)) else { return Ok(()) };
        debug_assert!(!score.is_nan(), "members are ordered by their scores");
        match found {
            Some(found) if found.score == score => return Ok(()),
            Some(found) => {
                let done = sorted_set.update(shard, queue, found, member, score);
                done.map_err(|error| self.failed(error))?;
            }
            None => sorted_set.insert(shard, |member| hashing.hash(member), member, score)?,
        }
        self.changed = true;
        Ok(())
    }

    /// Removes a member. Returns true if it existed.
    pub fn remove(&mut self, txn: &mut Txn<'_>, member: &[u8]) -> Result<bool, Error> {
        match &mut self.state {
            State::Gone => return Ok(false),
            State::Listpack { bytes, count, unchanged_prefix } => {
                let Some((at, _)) = find(bytes, 2, item(member)) else { return Ok(false) };
                let len = pairs(&bytes[at..]).next().map_or(0, |pair| pair.end);
                bytes.drain(at..at + len);
                (*count, *unchanged_prefix) = (*count - 1, None);
                (self.last, self.shrunk) = (None, true);
            }
            State::Table(sorted_set) => {
                let sorted_set = *sorted_set;
                let queue = txn.queue(self.place.shard);
                let shard = &mut txn.shards[self.place.shard];
                let found = sorted_set.find(shard, self.hashing.hash(member), member, self.verify);
                let Some(found) = found.map_err(|_| self.broken())? else { return Ok(false) };
                shard.allow_reserve(true);
                let done = sorted_set.remove(shard, queue, found, member);
                shard.allow_reserve(false);
                done.map_err(|error| self.failed(error))?;
            }
        }
        self.changed = true;
        Ok(true)
    }

    /// Removes up to `count` members from number `rank` on, and calls `take` with each and its
    /// score, the lowest first. Returns how many were removed.
    pub fn remove_range(
        &mut self,
        txn: &mut Txn<'_>,
        rank: u64,
        count: u64,
        mut take: impl FnMut(&[u8], f64),
    ) -> Result<u64, Error> {
        let len = self.len(txn);
        let count = count.min(len.saturating_sub(rank));
        if count == 0 {
            return Ok(0);
        }
        match &mut self.state {
            State::Gone => return Ok(0),
            State::Listpack { bytes, count: held, unchanged_prefix } => {
                let (mut from, mut to) = (None, 0);
                for pair in pairs(bytes).skip(rank as usize).take(count as usize) {
                    take(Text::of(pair.member).as_ref(), pair.score);
                    from.get_or_insert(pair.at);
                    to = pair.end;
                }
                bytes.drain(from.unwrap_or(to)..to);
                (*held, *unchanged_prefix) = (*held - count as u32, None);
                (self.last, self.shrunk) = (None, true);
            }
            State::Table(sorted_set) => {
                let sorted_set = *sorted_set;
                self.remove_from_table(txn, sorted_set, rank, count, len, take)?;
            }
        }
        self.changed = true;
        Ok(count)
    }

    fn remove_from_table(
        &mut self,
        txn: &mut Txn<'_>,
        sorted_set: SortedSet,
        rank: u64,
        count: u64,
        len: u64,
        take: impl FnMut(&[u8], f64),
    ) -> Result<(), Error> {
        let queue = txn.queue(self.place.shard);
        let shard = &mut txn.shards[self.place.shard];
        if count == len {
            shrink::show(shard, sorted_set, 0, len, self.verify, take)
                .map_err(|_| self.broken())?;
            self.state = State::Gone;
            return Ok(());
        }
        let hashing = self.hashing;
        if let Some(few) = shrink::rebuilt(shard, sorted_set, hashing, rank, count, self.verify)
            .map_err(|error| self.failed(error))?
        {
            shrink::show(shard, sorted_set, rank, count, self.verify, take)
                .map_err(|_| self.broken())?;
            sorted_set.release(shard, queue, OWNER_MEMBERS, OWNER_RANKS)?;
            self.state = State::Table(few);
            return Ok(());
        }
        shard.allow_reserve(true);
        let hash = |member: &[u8]| hashing.hash(member);
        let ranks = rank..rank.saturating_add(count);
        let done = sorted_set.remove_range(shard, queue, hash, ranks, self.verify, take);
        shard.allow_reserve(false);
        match done {
            Ok(removed) if removed == count => Ok(()),
            Ok(_) => Err(self.broken()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Writes the changes: creates the key, or deletes it if no member is left. Returns true if the
    /// key exists.
    pub fn finish(mut self, txn: &mut Txn<'_>, db: Db, key: &Key<'_>) -> Result<bool, Error> {
        let is_there = if self.changed { self.write(txn, db, key)? } else { self.old.is_some() };
        txn.keep_spare(self.take_bytes());
        Ok(is_there)
    }

    /// Takes the buffer for packed members.
    fn take_bytes(&mut self) -> Vec<u8> {
        match &mut self.state {
            State::Listpack { bytes, .. } => std::mem::take(bytes),
            State::Table(_) | State::Gone => Vec::new(),
        }
    }

    fn write(&self, txn: &mut Txn<'_>, db: Db, key: &Key<'_>) -> Result<bool, Error> {
        let left = self.len(txn);
        let (layout, count, content) = match &self.state {
            State::Listpack { bytes, count, unchanged_prefix } => (
                Layout::Listpack,
                *count,
                Content::Listpack { bytes, unchanged_prefix: *unchanged_prefix },
            ),
            State::Table(sorted_set) => (Layout::SortedSet, 0, Content::At(sorted_set.ptr())),
            State::Gone => (Layout::SortedSet, 0, Content::At(Ptr::NULL)),
        };
        let head = Head { what: Type::SortedSet, encoding: self.encoding, layout, count };
        let (place, old, shrunk) = (self.place, self.old, self.shrunk);
        EncodedCollection { place, old, head, content, shrunk, has_ttls: false }
            .finish(txn, db, key, left)
    }
}
