//! Reading a set or a hash in place.
//!
//! A set is read as a hash whose values are empty. In a durable heap the packed bytes are verified
//! when a reader begins, and each member of a table when it is read: damaged data is refused, never
//! served.

use heap::{Ptr, Shard, View};
use structures::Damaged;
use structures::blob::Blob;
use structures::dict::{Dict, Member};
use structures::listpack::{Item, Items};

use crate::collection::{Head, Layout, Text, elements, is_expired, item, time_at};
use crate::entry;
use crate::key::Hashing;
use crate::layout::Kind;
use crate::types::Encoding;
use crate::{Entry, Error, Txn, Type};

/// How many times a random pick may meet an expired field before any field that has not expired is
/// taken.
const RANDOM_TRIES: usize = 100;

/// The maximum number of lookups whose memory accesses are prefetched together.
pub(crate) const ASKED_AT_ONCE: usize = 32;

/// The members of a set, or the fields of a hash with their values. Expired fields are absent.
pub struct Members<'t> {
    shard: &'t Shard<'t>,
    hashing: Hashing,
    at: Ptr,
    head: Head,
    now: u64,
    repr: Repr<'t>,
}

enum Repr<'t> {
    Listpack(&'t [u8]),
    Table(Dict),
}

/// Returns the bytes of a packed collection, verified if the heap is durable.
pub(crate) fn listpack_bytes<'t>(
    shard: &'t Shard<'_>,
    at: Ptr,
    head: Head,
    word: u64,
) -> Result<&'t [u8], Error> {
    let blob = Blob::from_word(word);
    let damaged = Error::Damaged(at.raw());
    if blob.is_large() || shard.heap().is_durable() && blob.check(shard).is_err() {
        return Err(damaged);
    }
    let mut bytes: &[u8] = &[];
    blob.read(shard, 0..u64::MAX, |piece| bytes = piece).map_err(|_| damaged)?;
    if bytes.is_empty() != (head.count == 0) { Err(damaged) } else { Ok(bytes) }
}

/// Returns the table at `word`, of the entry `at`. Refuses a table whose number of members is
/// damaged: it would pass for empty, and its key would be deleted together with the next member.
pub(crate) fn sound_table(shard: &Shard<'_>, at: Ptr, word: u64) -> Result<Dict, Error> {
    let dict = Dict::at(Ptr::from_raw(word));
    if dict.has_sound_len(shard) { Ok(dict) } else { Err(Error::Damaged(at.raw())) }
}

impl Txn<'_> {
    /// Returns the members of a set, or the fields of a hash.
    pub fn members<'t>(&'t self, entry: &Entry, what: Type) -> Result<Members<'t>, Error> {
        let shard = &self.shards[entry.shard];
        match entry::sound(shard, entry.at)? {
            Kind::Collection(head) if head.what == what => {
                Members::read(shard, self.shared().hashing, entry.at, head, self.now())
            }
            _ => Err(Error::WrongType),
        }
    }
}

impl<'t> Members<'t> {
    fn read(
        shard: &'t Shard<'t>,
        hashing: Hashing,
        at: Ptr,
        head: Head,
        now: u64,
    ) -> Result<Members<'t>, Error> {
        let word = shard.word(entry::cell(shard, at));
        let repr = match head.layout {
            Layout::Listpack | Layout::ListpackWithTtls => {
                Repr::Listpack(listpack_bytes(shard, at, head, word)?)
            }
            Layout::HashTable => Repr::Table(sound_table(shard, at, word)?),
            Layout::List | Layout::SortedSet | Layout::Stream => return Err(Error::WrongType),
        };
        Ok(Members { shard, hashing, at, head, now, repr })
    }

    /// Returns the number of members that have not expired.
    pub fn len(&self) -> u64 {
        match &self.repr {
            Repr::Listpack(bytes) if self.is_timed() => {
                elements(bytes).filter(|element| !element.is_expired(self.now)).count() as u64
            }
            Repr::Listpack(_) => u64::from(self.head.count),
            Repr::Table(dict) if dict.has_ttls(self.shard) => {
                let len = dict.len(self.shard);
                len.saturating_sub(dict.count_until(self.shard, self.now))
            }
            Repr::Table(dict) => dict.len(self.shard),
        }
    }

    /// Returns true if each packed element includes an expiry time.
    fn is_timed(&self) -> bool {
        self.head.layout == Layout::ListpackWithTtls
    }

    /// Returns true if there are none, which is never so for a key that exists.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if it is packed.
    pub fn is_listpack(&self) -> bool {
        matches!(self.repr, Repr::Listpack(_))
    }

    /// Returns true if all members are integers, which are then visited in ascending order.
    pub fn is_intset(&self) -> bool {
        self.head.encoding == Encoding::Intset
    }

    fn damaged(&self, _: Damaged) -> Error {
        Error::Damaged(self.at.raw())
    }

    fn with_values(&self) -> bool {
        self.head.what != Type::Set
    }

    /// Returns the value of a field, or an empty value for a member of a set; `None` if it does not
    /// exist.
    pub fn get(&self, field: &[u8]) -> Result<Option<Text<'t>>, Error> {
        match &self.repr {
            Repr::Listpack(bytes) => {
                let Some((at, value)) = find(bytes, self.head.items(), item(field)) else {
                    return Ok(None);
                };
                if self.is_timed() && is_expired(time_at(bytes, at), self.now) {
                    return Ok(None);
                }
                Ok(Some(Text::of(value.unwrap_or(Item::Bytes(&[])))))
            }
            Repr::Table(dict) => {
                let verify = self.shard.heap().is_durable();
                let hash = self.hashing.hash(field);
                let place = dict.find(self.shard, hash, field, verify);
                let place = place.map_err(|damaged| self.damaged(damaged))?;
                let member = place.map(|place| place.member()).filter(|&member| self.lives(member));
                Ok(member.map(|member| Text::bytes(member.value(self.shard))))
            }
        }
    }

    /// Returns true if a member has not expired.
    fn lives(&self, member: Member) -> bool {
        !is_expired(member.time(self.shard), self.now)
    }

    /// Returns the expiry time of a field, in unix ms, if it has one. The outer `None` means that
    /// there is no such field.
    pub fn time(&self, field: &[u8]) -> Result<Option<Option<u64>>, Error> {
        let time = match &self.repr {
            Repr::Listpack(bytes) => {
                let found = find(bytes, self.head.items(), item(field));
                found.map(|(at, _)| if self.is_timed() { time_at(bytes, at) } else { None })
            }
            Repr::Table(dict) => {
                let verify = self.shard.heap().is_durable();
                let place = dict.find(self.shard, self.hashing.hash(field), field, verify);
                let place = place.map_err(|damaged| self.damaged(damaged))?;
                place.map(|place| place.member().time(self.shard))
            }
        };
        Ok(time.filter(|&time| !is_expired(time, self.now)))
    }

    /// Returns true if it has this member or field.
    pub fn contains(&self, field: &[u8]) -> Result<bool, Error> {
        self.get(field).map(|value| value.is_some())
    }

    /// Reports for each of these fields, in order, whether it exists. In a table, prefetches the
    /// lookups of a group of fields before it looks at the first.
    pub fn contains_each(
        &self,
        fields: &[&[u8]],
        mut report: impl FnMut(usize, bool),
    ) -> Result<(), Error> {
        for (number, some) in fields.chunks(ASKED_AT_ONCE).enumerate() {
            if let Repr::Table(dict) = self.repr {
                prefetch_members(self.shard, dict, &self.hashing, some.iter().copied());
            }
            for (at, field) in some.iter().enumerate() {
                report(number * ASKED_AT_ONCE + at, self.contains(field)?);
            }
        }
        Ok(())
    }

    /// Visits all members with their values (empty in a set): those of a packed hash in the order
    /// in which the fields were added, integers in ascending order.
    pub fn visit(&self, mut visit: impl FnMut(&[u8], &[u8])) -> Result<(), Error> {
        let mut cursor = 0;
        loop {
            cursor = self.scan(cursor, usize::MAX, &mut visit)?;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Visits about `count` members from `cursor` on, or all members of a packed collection, and
    /// returns the cursor to continue from (0: the end).
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, Error> {
        match &self.repr {
            Repr::Listpack(_) => {
                self.listpack().into_iter().for_each(|(field, value)| {
                    visit(Text::of(field).as_ref(), Text::of(value).as_ref());
                });
                Ok(0)
            }
            Repr::Table(dict) => {
                let mut damaged = None;
                let next =
                    dict.scan(self.shard, cursor, count, |member| match self.sound(member) {
                        Ok(()) if !self.lives(member) => {}
                        Ok(()) => visit(&member.field(self.shard), &member.value(self.shard)),
                        Err(error) => damaged = Some(error),
                    });
                damaged.map_or(Ok(next), Err)
            }
        }
    }

    fn sound(&self, member: Member) -> Result<(), Error> {
        if !self.shard.heap().is_durable() {
            return Ok(());
        }
        member.check(self.shard).map_err(|damaged| self.damaged(damaged))
    }

    /// Returns the elements of a packed collection, in the order in which clients see them.
    fn listpack(&self) -> Vec<(Item<'t>, Item<'t>)> {
        let Repr::Listpack(bytes) = self.repr else { return Vec::new() };
        if self.is_timed() {
            let live = elements(bytes).filter(|element| !element.is_expired(self.now));
            return live.map(|element| (element.field, element.value)).collect();
        }
        let mut items = Items::of(bytes).map(|(_, item)| item);
        let mut all = Vec::with_capacity(self.head.count as usize);
        while let Some(field) = items.next() {
            let value = if self.with_values() { items.next() } else { None };
            all.push((field, value.unwrap_or(Item::Bytes(&[]))));
        }
        if self.is_intset() {
            all.sort_unstable_by_key(|(item, _)| match item {
                Item::Int(int) => *int,
                Item::Bytes(_) => i64::MAX,
            });
        }
        all
    }

    /// Returns a random member that has not expired, after verifying it.
    fn random_member(
        &self,
        dict: Dict,
        mut random: impl FnMut() -> u64,
    ) -> Result<Option<Member>, Error> {
        for _ in 0..RANDOM_TRIES {
            let Some(member) = dict.random(self.shard, &mut random) else { return Ok(None) };
            self.sound(member)?;
            if self.lives(member) {
                return Ok(Some(member));
            }
        }
        // Nearly all members have expired: take the first that has not.
        let (mut found, mut cursor) = (None, 0);
        loop {
            cursor = dict.scan(self.shard, cursor, 1, |member| {
                if found.is_none() && self.lives(member) {
                    found = Some(member);
                }
            });
            if let Some(member) = found {
                return self.sound(member).map(|()| Some(member));
            }
            if cursor == 0 {
                return Ok(None);
            }
        }
    }

    /// Returns a member with its value, picked nearly uniformly with the numbers from `random`.
    pub fn random(
        &self,
        mut random: impl FnMut() -> u64,
    ) -> Result<Option<(Text<'t>, Text<'t>)>, Error> {
        match &self.repr {
            Repr::Listpack(_) if self.is_timed() => {
                let live = self.listpack();
                let nth = ((u128::from(random()) * live.len() as u128) >> 64) as usize;
                Ok(live.get(nth).map(|&(field, value)| (Text::of(field), Text::of(value))))
            }
            Repr::Listpack(bytes) => {
                let count = u64::from(self.head.count);
                let nth = ((u128::from(random()) * u128::from(count)) >> 64) as usize;
                let mut items = Items::of(bytes).map(|(_, item)| item);
                let field = items.nth(nth * self.head.items());
                let value = items.next().filter(|_| self.with_values());
                let value = value.unwrap_or(Item::Bytes(&[]));
                Ok(field.map(|field| (Text::of(field), Text::of(value))))
            }
            Repr::Table(dict) => {
                let Some(member) = self.random_member(*dict, random)? else { return Ok(None) };
                let (field, value) = (member.field(self.shard), member.value(self.shard));
                Ok(Some((Text::bytes(field), Text::bytes(value))))
            }
        }
    }
}

/// Prefetches what lookups of these members, at most [`ASKED_AT_ONCE`], will read of a table.
pub(crate) fn prefetch_members<'a>(
    shard: &Shard<'_>,
    dict: Dict,
    hashing: &Hashing,
    members: impl Iterator<Item = &'a [u8]>,
) {
    let mut buckets = [None; ASKED_AT_ONCE];
    for (member, bucket) in members.zip(&mut buckets) {
        *bucket = dict.prefetch_bucket(shard, hashing.hash(member));
    }
    for bucket in buckets.iter().flatten() {
        bucket.prefetch_entry(shard);
    }
}

/// Returns the offset of an element in packed bytes, and its value if elements have one. An expiry
/// time after the value is ignored. Of other values and expiry times only the lengths are read.
pub(crate) fn find<'b>(
    bytes: &'b [u8],
    items: usize,
    wanted: Item<'_>,
) -> Option<(usize, Option<Item<'b>>)> {
    let (wanted, mut at) = (wanted.encoded(), 0);
    loop {
        let end = at + Item::span(bytes.get(at..)?)?;
        if wanted.is(bytes.get(at..end)?) {
            let value = if items >= 2 { Some(Item::decode(&bytes[end..])?.0) } else { None };
            return Some((at, value));
        }
        at = end;
        for _ in 1..items {
            at += Item::span(bytes.get(at..)?)?;
        }
    }
}
