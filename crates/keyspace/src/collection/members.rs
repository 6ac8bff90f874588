//! Reading a set or a hash where it lies.
//!
//! A set is read as a hash whose values are empty. In a durable heap the packed bytes are verified when a reader begins,
//! and each member of a table when it is read: what is damaged is refused, never served.

use heap::{Ptr, Shard, View};
use structures::Damaged;
use structures::blob::Blob;
use structures::dict::{Dict, Member};
use structures::packed::{Item, Items};

use super::text::item;
use super::{Form, Head, Text};
use crate::entry;
use crate::key::Hashing;
use crate::value::Encoding;
use crate::{Error, Type};

/// The members of a set, or the fields of a hash with their values.
pub struct Members<'t> {
    shard: &'t Shard<'t>,
    hashing: Hashing,
    at: Ptr,
    head: Head,
    repr: Repr<'t>,
}

enum Repr<'t> {
    Packed(&'t [u8]),
    Table(Dict),
}

/// The bytes of a packed collection, verified where they may be damaged.
pub(super) fn packed_bytes<'t>(
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
    blob.read(shard, 0..u64::MAX, |piece| bytes = piece);
    if bytes.is_empty() != (head.count == 0) { Err(damaged) } else { Ok(bytes) }
}

/// The table at `word`, of the entry `at`. One whose number of members cannot be read is not to be relied on: it would pass
/// for empty, and its key would go with the next member.
pub(super) fn sound_table(shard: &Shard<'_>, at: Ptr, word: u64) -> Result<Dict, Error> {
    let dict = Dict::at(Ptr::from_raw(word));
    if dict.has_sound_len(shard) { Ok(dict) } else { Err(Error::Damaged(at.raw())) }
}

impl<'t> Members<'t> {
    pub(crate) fn read(
        shard: &'t Shard<'t>,
        hashing: Hashing,
        at: Ptr,
        head: Head,
    ) -> Result<Members<'t>, Error> {
        let word = shard.word(entry::cell(shard, at));
        let repr = match head.form {
            Form::Packed => Repr::Packed(packed_bytes(shard, at, head, word)?),
            Form::Table => Repr::Table(sound_table(shard, at, word)?),
            Form::List | Form::Ranked | Form::Stream => return Err(Error::WrongType),
        };
        Ok(Members { shard, hashing, at, head, repr })
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        match &self.repr {
            Repr::Packed(_) => u64::from(self.head.count),
            Repr::Table(dict) => dict.len(self.shard),
        }
    }

    /// Whether there is none: never so for a key that exists.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is small and lies in one piece.
    pub fn is_packed(&self) -> bool {
        matches!(self.repr, Repr::Packed(_))
    }

    /// Whether all are integers, in ascending order.
    pub fn is_intset(&self) -> bool {
        self.head.encoding == Encoding::Intset
    }

    fn damaged(&self, _: Damaged) -> Error {
        Error::Damaged(self.at.raw())
    }

    fn with_values(&self) -> bool {
        self.head.what != Type::Set
    }

    /// The value of a field; for a set, an empty one if it has the member.
    pub fn get(&self, field: &[u8]) -> Result<Option<Text<'t>>, Error> {
        match &self.repr {
            Repr::Packed(bytes) => {
                let Some((_, value)) = find(bytes, self.head.items(), item(field)) else {
                    return Ok(None);
                };
                Ok(Some(Text::of(value.unwrap_or(Item::Bytes(&[])))))
            }
            Repr::Table(dict) => {
                let verify = self.shard.heap().is_durable();
                let hash = self.hashing.hash(field);
                let place = dict.find(self.shard, hash, field, verify);
                let place = place.map_err(|damaged| self.damaged(damaged))?;
                Ok(place.map(|place| Text::bytes(place.member().value(self.shard))))
            }
        }
    }

    /// Whether it has the member or field.
    pub fn contains(&self, field: &[u8]) -> Result<bool, Error> {
        self.get(field).map(|value| value.is_some())
    }

    /// Visits all, with their values (empty in a set): a packed hash in the order in which the fields came, integers in
    /// ascending order.
    pub fn visit(&self, mut visit: impl FnMut(&[u8], &[u8])) -> Result<(), Error> {
        let mut cursor = 0;
        loop {
            cursor = self.scan(cursor, usize::MAX, &mut visit)?;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Visits about `count` from `cursor` on, all of them where it is packed, and answers where to go on (0: the end).
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, Error> {
        match &self.repr {
            Repr::Packed(_) => {
                self.packed().into_iter().for_each(|(field, value)| {
                    visit(Text::of(field).as_ref(), Text::of(value).as_ref());
                });
                Ok(0)
            }
            Repr::Table(dict) => {
                let mut damaged = None;
                let next =
                    dict.scan(self.shard, cursor, count, |member| match self.sound(member) {
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

    /// The elements of a packed form, in the order in which clients see them.
    fn packed(&self) -> Vec<(Item<'t>, Item<'t>)> {
        let Repr::Packed(bytes) = self.repr else { return Vec::new() };
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

    /// One picked nearly uniformly by the random numbers given, with its value.
    pub fn random(
        &self,
        mut random: impl FnMut() -> u64,
    ) -> Result<Option<(Text<'t>, Text<'t>)>, Error> {
        match &self.repr {
            Repr::Packed(bytes) => {
                let count = u64::from(self.head.count);
                let nth = ((u128::from(random()) * u128::from(count)) >> 64) as usize;
                let mut items = Items::of(bytes).map(|(_, item)| item);
                let field = items.nth(nth * self.head.items());
                let value = items.next().filter(|_| self.with_values());
                let value = value.unwrap_or(Item::Bytes(&[]));
                Ok(field.map(|field| (Text::of(field), Text::of(value))))
            }
            Repr::Table(dict) => {
                let Some(member) = dict.random(self.shard, random) else { return Ok(None) };
                self.sound(member)?;
                let (field, value) = (member.field(self.shard), member.value(self.shard));
                Ok(Some((Text::bytes(field), Text::bytes(value))))
            }
        }
    }
}

/// Where an element begins in packed bytes, and its value if elements have one.
pub(super) fn find<'b>(
    bytes: &'b [u8],
    items: usize,
    wanted: Item<'_>,
) -> Option<(usize, Option<Item<'b>>)> {
    let mut all = Items::of(bytes);
    while let Some((at, field)) = all.next() {
        let value = if items == 2 { Some(all.next()?.1) } else { None };
        if field == wanted {
            return Some((at, value));
        }
    }
    None
}
