//! The expiry times of a hash's fields, and where they are kept.
//!
//! Each element of such a hash in the packed form is three items: field, value, time (0: none). In
//! a table, the member has its time, and the table has a tree of the members with one. The entry's
//! expiry word records that there are such times, so that the entry is in the index of expiry
//! times, where the background work finds it, and so that no other hash has to be examined.

use heap::View;
use structures::blob::Blob;
use structures::listpack::{Item, Items};

use super::lifecycle::dict;
use super::text::Text;
use super::{Head, Layout};
use crate::types::Type;

/// A field of a hash, with its value and its expiry time, in unix ms, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedField {
    /// The field.
    pub field: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// When it expires.
    pub time: Option<u64>,
}

/// Returns the time in an item; `None` for 0 and for anything that is not a time.
fn time_in(item: Item<'_>) -> Option<u64> {
    match item {
        Item::Int(time) => u64::try_from(time).ok().filter(|&time| time != 0),
        Item::Bytes(_) => None,
    }
}

pub(crate) fn time_item(time: Option<u64>) -> Item<'static> {
    Item::Int(time.map_or(0, |time| time as i64))
}

/// Returns the time of the element that begins at `at` in packed bytes of three items for each
/// element.
pub(crate) fn time_at(bytes: &[u8], at: usize) -> Option<u64> {
    Items::of(&bytes[at..]).nth(2).and_then(|(_, item)| time_in(item))
}

/// Returns the elements of packed bytes of three items for each element, each with its range,
/// field, value and time.
pub(crate) fn elements(bytes: &[u8]) -> impl Iterator<Item = Element<'_>> {
    let mut all = Items::of(bytes);
    std::iter::from_fn(move || {
        let begin = all.offset();
        let (_, field) = all.next()?;
        let (_, value) = all.next()?;
        let time = time_in(all.next()?.1);
        Some(Element { begin, end: all.offset(), field, value, time })
    })
}

pub(crate) struct Element<'b> {
    pub(crate) begin: usize,
    pub(crate) end: usize,
    pub(crate) field: Item<'b>,
    pub(crate) value: Item<'b>,
    pub(crate) time: Option<u64>,
}

impl Element<'_> {
    pub(crate) fn is_expired(&self, now: u64) -> bool {
        is_expired(self.time, now)
    }
}

pub(crate) fn is_expired(time: Option<u64>, now: u64) -> bool {
    time.is_some_and(|time| time <= now)
}

/// Returns true if the collection's layout can have fields with times: the expiry word, which
/// records that there are any, has no checksum.
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

/// Returns true if all fields have expired. A damaged value has not: reading it returns an error.
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

/// Returns true if any field has expired.
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

/// Like [`super::pieces`], for a hash whose fields may have times.
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
