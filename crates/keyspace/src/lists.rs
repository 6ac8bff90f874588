//! Lists: elements are pushed and popped at both ends, and read and changed anywhere.
//!
//! The cell of an entry holds the one word of a list (`structures::list`); the value word only
//! records that the value is a list. An empty list has no key.

use heap::{Shard, View};
use structures::list::{self, Element, List, Retain};
use structures::listpack::Item;
use structures::reclaim::Queue;

use crate::collection::{Head, Layout, Text, item};
use crate::entry::{self, Value};
use crate::layout::Kind;
use crate::txn::{AbsentKey, KeyLocation, Old};
use crate::types::{Encoding, Type};
use crate::{Db, Entry, Error, Event, Expire, Key, Txn};

pub use structures::list::{Limits as NodeLimits, Side};

/// A list that is read in place.
pub struct ListRef<'t> {
    shard: &'t Shard<'t>,
    list: List,
    at: u64,
}

/// Returns an element as text; a long one is copied.
fn text<'v>(shard: &Shard<'_>, element: Element<'v>) -> Text<'v> {
    match element {
        Element::Item(item) => Text::of(item),
        Element::Blob(blob) => Text::bytes(blob.to_vec(shard).unwrap_or_default().into()),
    }
}

fn is_equal(shard: &Shard<'_>, element: Element<'_>, wanted: Item<'_>) -> bool {
    match (element, wanted) {
        (Element::Item(found), wanted) => found == wanted,
        (Element::Blob(blob), Item::Bytes(bytes)) => {
            let len = bytes.len() as u64;
            blob.len(shard) == Ok(len) && blob.to_vec(shard).is_ok_and(|own| own == bytes)
        }
        (Element::Blob(_), Item::Int(_)) => false,
    }
}

impl ListRef<'_> {
    fn damaged(&self) -> Error {
        Error::Damaged(self.at)
    }

    /// Returns the number of elements.
    pub fn len(&self) -> Result<u64, Error> {
        self.list.len(self.shard).map_err(|_| self.damaged())
    }

    /// Returns true if there are none, which is never so for a key that exists.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Visits elements from number `index` on, counted from the head, in the direction away from
    /// the side `from`, until `visit` returns `false`.
    pub fn visit(
        &self,
        index: u64,
        from: Side,
        mut visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Error> {
        let verify = self.shard.heap().is_durable();
        let show = |element: Element<'_>| match element {
            Element::Item(Item::Bytes(bytes)) => visit(bytes),
            other => visit(text(self.shard, other).as_ref()),
        };
        let done = self.list.visit(self.shard, index, from, verify, show);
        done.map_err(|_| self.damaged())
    }

    /// Like [`ListRef::visit`], but calls `visit` with whether each element is equal to `wanted`.
    pub fn compare(
        &self,
        index: u64,
        from: Side,
        wanted: &[u8],
        mut visit: impl FnMut(bool) -> bool,
    ) -> Result<(), Error> {
        let verify = self.shard.heap().is_durable();
        let wanted = item(wanted);
        let show = |element: Element<'_>| visit(is_equal(self.shard, element, wanted));
        let done = self.list.visit(self.shard, index, from, verify, show);
        done.map_err(|_| self.damaged())
    }
}

const HEAD: Head =
    Head { what: Type::List, encoding: Encoding::Quicklist, layout: Layout::List, count: 0 };

/// The state that an edit of a list needs besides the list.
struct Edit<'e, 'k> {
    shard: &'e mut Shard<'k>,
    queue: Queue,
    verify: bool,
}

/// The operations that change lists. All but [`Lists::push_new`] find the list by its key.
pub struct Lists<'t, 'k> {
    txn: &'t mut Txn<'k>,
}

impl<'k> Txn<'k> {
    /// Returns the list of an entry.
    pub fn list(&self, entry: &Entry) -> Result<ListRef<'_>, Error> {
        let shard = &self.shards[entry.shard];
        entry::sound(shard, entry.at)?;
        match entry::kind(shard, entry.at) {
            Kind::Collection(head) if head.what == Type::List => {
                let list = List::from_word(shard.word(entry::cell(shard, entry.at)));
                Ok(ListRef { shard, list, at: entry.at.raw() })
            }
            _ => Err(Error::WrongType),
        }
    }

    /// Returns the operations that change lists.
    #[inline]
    pub fn lists(&mut self) -> Lists<'_, 'k> {
        Lists { txn: self }
    }
}

impl Lists<'_, '_> {
    /// Changes the list of a key. Creates the key if there is none, and deletes it if the list
    /// becomes empty.
    fn edit<T>(
        &mut self,
        db: Db,
        key: &Key<'_>,
        change: impl FnOnce(&mut Edit<'_, '_>, List) -> Result<(List, T), list::Error>,
    ) -> Result<T, Error> {
        let (place, old) = self.txn.open_sound(db, key)?;
        self.edit_at(place, old, db, key, change)
    }

    fn edit_at<T>(
        &mut self,
        place: KeyLocation,
        old: Option<Old>,
        db: Db,
        key: &Key<'_>,
        change: impl FnOnce(&mut Edit<'_, '_>, List) -> Result<(List, T), list::Error>,
    ) -> Result<T, Error> {
        let queue = self.txn.queue(place.shard);
        let shard = &mut self.txn.shards[place.shard];
        let mut word = 0;
        if let Some(old) = old {
            match old.kind {
                Kind::Collection(head) if head.what == Type::List => {}
                _ => return Err(Error::WrongType),
            }
            word = shard.word(entry::cell(shard, old.at));
        }
        let verify = shard.heap().is_durable();
        let mut edit = Edit { shard, queue, verify };
        let (list, answer) =
            change(&mut edit, List::from_word(word)).map_err(|error| match error {
                list::Error::Full(_) => Error::Full,
                list::Error::Damaged(_) => Error::Damaged(old.map_or(0, |old| old.at.raw())),
            })?;
        match old {
            Some(old) if list.is_empty() => {
                self.txn.unlink(place, key.hash, old.slot, false)?;
                let shard = &mut self.txn.shards[place.shard];
                entry::release_shell(shard, queue, old.at)?;
                self.txn.record_change(place.shard, db, key.bytes(), Event::Deleted);
            }
            Some(old) => {
                self.txn.touch_key(place, key);
                self.txn.change_collection(place, old, HEAD, word, list.word());
                self.txn.record_change(place.shard, db, key.bytes(), Event::Written);
            }
            None if list.is_empty() => {}
            None => {
                let value = Value::Collection(HEAD, list.word());
                self.txn.put(place, key, None, value, 0, Expire::Clear)?;
                self.txn.record_change(place.shard, db, key.bytes(), Event::Written);
            }
        }
        Ok(answer)
    }

    /// Pushes elements one after the other at one end, and creates the key if there is none.
    /// Returns the new length.
    pub fn push<'a>(
        &mut self,
        db: Db,
        key: &Key<'_>,
        side: Side,
        elements: impl IntoIterator<Item = &'a [u8]>,
        limits: NodeLimits,
    ) -> Result<u64, Error> {
        self.edit(db, key, |edit, list| {
            let list = list.push_all(edit.shard, side, elements.into_iter().map(item), limits)?;
            Ok((list, list.len(edit.shard)?))
        })
    }

    /// Creates a list with these elements at a key that does not exist.
    pub fn push_new<'a>(
        &mut self,
        absent: AbsentKey,
        db: Db,
        key: &Key<'_>,
        elements: impl IntoIterator<Item = &'a [u8]>,
        limits: NodeLimits,
    ) -> Result<(), Error> {
        let items = elements.into_iter().map(item);
        self.edit_at(absent.place(), None, db, key, |edit, list| {
            Ok((list.push_all(edit.shard, Side::Tail, items, limits)?, ()))
        })
    }

    /// Pops up to `count` elements from one end, and calls `take` with each. Deletes the key if no
    /// element is left. Returns how many were popped, and how many are left.
    pub fn pop(
        &mut self,
        db: Db,
        key: &Key<'_>,
        side: Side,
        count: u64,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(u64, u64), Error> {
        self.edit(db, key, |edit, list| {
            let len = list.len(edit.shard)?;
            let count = count.min(len);
            let take = |shard: &Shard<'_>, element: Element<'_>| {
                take(text(shard, element).as_ref());
            };
            let list = list.pop(edit.shard, edit.queue, side, count, edit.verify, take)?;
            Ok((list, (count, len - count)))
        })
    }

    /// Replaces element number `index`. Returns `false` if there is none.
    pub fn set(
        &mut self,
        db: Db,
        key: &Key<'_>,
        index: u64,
        element: &[u8],
        limits: NodeLimits,
    ) -> Result<bool, Error> {
        self.edit(db, key, |edit, list| {
            list.set(edit.shard, edit.queue, index, item(element), limits)
        })
    }

    /// Inserts an element before number `index`, or after the last one if there is no such number.
    /// Returns the new length.
    pub fn insert(
        &mut self,
        db: Db,
        key: &Key<'_>,
        index: u64,
        element: &[u8],
        limits: NodeLimits,
    ) -> Result<u64, Error> {
        self.edit(db, key, |edit, list| {
            let list = list.insert(edit.shard, index, item(element), limits)?;
            Ok((list, list.len(edit.shard)?))
        })
    }

    /// Removes up to `most` elements that are equal to this one, starting from the side `from`.
    /// Returns how many were removed.
    pub fn remove(
        &mut self,
        db: Db,
        key: &Key<'_>,
        from: Side,
        most: u64,
        element: &[u8],
        limits: NodeLimits,
    ) -> Result<u64, Error> {
        self.edit(db, key, |edit, list| {
            let (wanted, mut removed) = (item(element), 0);
            let retain = |shard: &Shard<'_>, element: Element<'_>| match () {
                () if removed >= most => Retain::Stop,
                () if is_equal(shard, element, wanted) => {
                    removed += 1;
                    Retain::Drop
                }
                () => Retain::Keep,
            };
            edit.shard.allow_reserve(true);
            let list = list.retain(edit.shard, edit.queue, from, limits, retain);
            edit.shard.allow_reserve(false);
            Ok((list?, removed))
        })
    }

    /// Removes this many elements at the head and at the tail.
    pub fn trim(&mut self, db: Db, key: &Key<'_>, head: u64, tail: u64) -> Result<(), Error> {
        self.edit(db, key, |edit, list| {
            let list = list.trim(edit.shard, edit.queue, Side::Head, head)?;
            let list = list.trim(edit.shard, edit.queue, Side::Tail, tail)?;
            Ok((list, ()))
        })
    }
}
