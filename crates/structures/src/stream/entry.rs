//! An entry in a node: packed items.
//!
//! ```text
//! milliseconds, then sequence number, each less the node's   2 integers, modulo 2^64
//! number of fields, or 0: those of the node                  integer
//! field, value, field, value ..; or the values alone
//! ```
//!
//! The node's fields are those of its first entry: most streams repeat them.

use super::{Id, Limits};
use crate::listpack::Item;

/// An entry of a stream, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'v> {
    /// Its ID.
    pub id: Id,
    pairs: usize,
    /// The node's fields, if the entry has the same ones.
    names: Option<&'v [u8]>,
    body: &'v [u8],
}

/// Fields and values of an entry, in order.
#[derive(Clone, Debug)]
pub struct Pairs<'v> {
    left: usize,
    names: Option<&'v [u8]>,
    body: &'v [u8],
}

impl<'v> Entry<'v> {
    /// Returns the number of its fields.
    pub fn len(&self) -> usize {
        self.pairs
    }

    /// Returns true if it has no field; impossible in a sound stream.
    pub fn is_empty(&self) -> bool {
        self.pairs == 0
    }

    /// Returns its fields with their values.
    pub fn pairs(&self) -> Pairs<'v> {
        Pairs { left: self.pairs, names: self.names, body: self.body }
    }
}

impl<'v> Iterator for Pairs<'v> {
    type Item = (Item<'v>, Item<'v>);

    fn next(&mut self) -> Option<(Item<'v>, Item<'v>)> {
        self.left = self.left.checked_sub(1)?;
        let field = take(self.names.as_mut().unwrap_or(&mut self.body))?;
        Some((field, take(&mut self.body)?))
    }
}

/// Takes the item at the start of some bytes; leaves the bytes after it.
fn take<'v>(bytes: &mut &'v [u8]) -> Option<Item<'v>> {
    let (item, len) = Item::decode(bytes)?;
    *bytes = &bytes[len..];
    Some(item)
}

fn take_int(bytes: &mut &[u8]) -> Option<u64> {
    match take(bytes)? {
        Item::Int(int) => Some(int as u64),
        Item::Bytes(_) => None,
    }
}

/// The fields that the entries of a node share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared<'v> {
    /// Their number and the fields, as they are encoded.
    pub(super) all: &'v [u8],
    count: usize,
    names: &'v [u8],
}

impl<'v> Shared<'v> {
    /// Encodes the fields of a first entry.
    pub(super) fn encode(pairs: &[(Item<'_>, Item<'_>)], out: &mut Vec<u8>) {
        Item::Int(pairs.len() as i64).encode(out);
        pairs.iter().for_each(|(field, _)| field.encode(out));
    }

    /// Reads the fields at the start of a node's content.
    pub(super) fn decode(content: &'v [u8]) -> Option<Shared<'v>> {
        let mut rest = content;
        let count = take_int(&mut rest).filter(|&count| count <= content.len() as u64)? as usize;
        let names = rest;
        for _ in 0..count {
            take(&mut rest)?;
        }
        let names = &names[..names.len() - rest.len()];
        Some(Shared { all: &content[..content.len() - rest.len()], count, names })
    }

    fn are(&self, pairs: &[(Item<'_>, Item<'_>)]) -> bool {
        let mut names = self.names;
        self.count == pairs.len() && pairs.iter().all(|pair| take(&mut names) == Some(pair.0))
    }
}

/// Encodes an entry for a node with this base and these fields.
pub(super) fn encode(
    base: Id,
    shared: Shared<'_>,
    id: Id,
    pairs: &[(Item<'_>, Item<'_>)],
    out: &mut Vec<u8>,
) {
    Item::Int(id.ms.wrapping_sub(base.ms) as i64).encode(out);
    Item::Int(id.seq.wrapping_sub(base.seq) as i64).encode(out);
    let same = shared.are(pairs);
    Item::Int(if same { 0 } else { pairs.len() as i64 }).encode(out);
    for (field, value) in pairs {
        if !same {
            field.encode(out);
        }
        value.encode(out);
    }
}

/// Encodes an entry whose ID and fields are the node's.
pub(super) fn encode_first(pairs: &[(Item<'_>, Item<'_>)], out: &mut Vec<u8>) {
    (0..3).for_each(|_| Item::Int(0).encode(out));
    pairs.iter().for_each(|(_, value)| value.encode(out));
}

/// The entries of a node in order. Ends early if the bytes are no entry.
#[derive(Clone, Debug)]
pub(super) struct Entries<'v> {
    base: Id,
    shared: Shared<'v>,
    rest: &'v [u8],
    left: usize,
}

impl<'v> Entries<'v> {
    pub(super) fn of(base: Id, shared: Shared<'v>, bytes: &'v [u8], count: usize) -> Entries<'v> {
        Entries { base, shared, rest: bytes, left: count }
    }

    /// Returns the bytes after the entries that have been shown.
    pub(super) fn rest(&self) -> &'v [u8] {
        self.rest
    }

    fn decode(&mut self) -> Option<Entry<'v>> {
        let mut rest = self.rest;
        let ms = self.base.ms.wrapping_add(take_int(&mut rest)?);
        let seq = self.base.seq.wrapping_add(take_int(&mut rest)?);
        let (names, pairs) = match take_int(&mut rest)? {
            0 => (Some(self.shared.names), self.shared.count),
            own => (None, usize::try_from(own).ok().filter(|&own| own <= rest.len())?),
        };
        let body = rest;
        for _ in 0..if names.is_some() { pairs } else { 2 * pairs } {
            take(&mut rest)?;
        }
        self.rest = rest;
        let body = &body[..body.len() - rest.len()];
        Some(Entry { id: Id { ms, seq }, pairs, names, body })
    }
}

impl<'v> Iterator for Entries<'v> {
    type Item = Entry<'v>;

    fn next(&mut self) -> Option<Entry<'v>> {
        self.left = self.left.checked_sub(1)?;
        self.decode()
    }
}

impl Limits {
    /// Returns true if a node of this many bytes and entries may take another entry of this length.
    pub(super) fn admit(self, bytes: usize, entries: usize, new: usize) -> bool {
        bytes + new < self.bytes && entries < self.count
    }
}
