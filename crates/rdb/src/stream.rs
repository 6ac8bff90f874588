//! Streams: entries in listpacks that share the fields of their first entry, then consumer groups.
//!
//! A listpack begins with a master entry: entries, deleted entries, fields, the fields' names, a
//! zero. Each entry: flags, the difference of its ID from that of the node (milliseconds,
//! sequence), fields with values or, if it has the master's fields, values alone; and the number of
//! these items.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use crate::item::Item;
use crate::listpack::{Items, Listpack};
use crate::source::Source;
use crate::value::Show;
use crate::{Error, Kind, Part};

/// An entry's ID, which orders entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId {
    /// Unix milliseconds, mostly.
    pub ms: u64,
    /// Distinguishes entries of the same millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The lowest of all, which no entry has.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> StreamId {
        let number = u128::from_be_bytes(bytes);
        StreamId { ms: (number >> 64) as u64, seq: number as u64 }
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }
}

pub(crate) const DELETED: i64 = 1;
pub(crate) const SAME_FIELDS: i64 = 2;
/// Represents an unknown number of read entries.
const UNKNOWN: u64 = u64::MAX;

pub(crate) fn read<R: BufRead, E: From<Error>>(
    source: &mut Source<R>,
    kind: Kind,
    show: Show<'_, E>,
) -> Result<(), E> {
    let (mut node, mut entries) = (Vec::new(), 0);
    let (mut first, mut last_entry) = (None, StreamId::MIN);
    for _ in 0..source.length()? {
        source.string_into(&mut node)?;
        let base = node[..].try_into().map_err(|_| source.corrupt("Stream node key"))?;
        source.string_into(&mut node)?;
        let list = Listpack::parse(&node).ok_or_else(|| source.corrupt("Stream listpack"))?;
        let base = StreamId::from_bytes(base);
        let walk = Node { base, first: &mut first, last: &mut last_entry };
        entries += walk.entries(list, || source.corrupt("Stream listpack"), show)?;
    }
    let len = source.length()?;
    let last = id(source)?;
    let (mut added, mut deleted) = (len, StreamId::MIN);
    if kind != Kind::Stream {
        // The ID of the first entry, which the entries show.
        id(source)?;
        deleted = id(source)?;
        added = source.length()?;
    }
    if entries != len || last_entry > last {
        return Err(source.corrupt("Stream length").into());
    }
    show(Part::Stream { len, last, added, deleted })?;
    for _ in 0..source.length()? {
        group(source, kind, |upto| entries_read(upto, len, first, last), show)?;
    }
    Ok(())
}

/// Returns how many entries a group has read whose last one is `upto`. Redis estimates it in this
/// way for dumps of versions that did not count them, assuming that only entries before the first
/// are missing.
fn entries_read(upto: StreamId, len: u64, first: Option<StreamId>, last: StreamId) -> Option<u64> {
    match first {
        None => Some(0),
        Some(_) if upto == last => Some(len),
        Some(first) => (upto <= first).then(|| u64::from(upto == first)),
    }
}

fn id<R: BufRead>(source: &mut Source<R>) -> Result<StreamId, Error> {
    Ok(StreamId { ms: source.length()?, seq: source.length()? })
}

/// A node of a stream, and the IDs of the first entry of all and the last one before it.
struct Node<'n> {
    base: StreamId,
    first: &'n mut Option<StreamId>,
    last: &'n mut StreamId,
}

impl Node<'_> {
    /// Shows the entries that were not deleted. Returns how many there are.
    fn entries<E: From<Error>>(
        self,
        list: Listpack<'_>,
        corrupt: impl Fn() -> Error,
        show: Show<'_, E>,
    ) -> Result<u64, E> {
        let mut items = list.items();
        let int =
            |items: &mut Items<'_>| items.next().and_then(|item| item.int()).ok_or_else(&corrupt);
        let (live, deleted) = (int(&mut items)?, int(&mut items)?);
        let fields = usize::try_from(int(&mut items)?).ok().filter(|&count| count <= list.len());
        let master: Vec<Item<'_>> = items.by_ref().take(fields.ok_or_else(&corrupt)?).collect();
        if int(&mut items)? != 0 {
            return Err(corrupt().into());
        }
        let (mut found, mut gone, mut words) = (0, 0, Vec::new());
        while let Some(flags) = items.next() {
            let flags = flags.int().ok_or_else(&corrupt)?;
            let id = StreamId {
                ms: self.base.ms.wrapping_add_signed(int(&mut items)?),
                seq: self.base.seq.wrapping_add_signed(int(&mut items)?),
            };
            words.clear();
            let has_master = flags & SAME_FIELDS != 0;
            let count = if has_master { master.len() as i64 } else { int(&mut items)? };
            let count = usize::try_from(count).ok().filter(|count| *count <= list.len());
            let mut masters = master.iter().copied();
            for _ in 0..count.ok_or_else(&corrupt)? {
                let field = if has_master { masters.next() } else { items.next() };
                words.extend([field.ok_or_else(&corrupt)?, items.next().ok_or_else(&corrupt)?]);
            }
            let expected = if has_master { words.len() / 2 + 3 } else { words.len() + 4 };
            if int(&mut items)? != expected as i64 || *self.last >= id {
                return Err(corrupt().into());
            }
            *self.last = id;
            if flags & DELETED != 0 {
                gone += 1;
            } else {
                found += 1;
                self.first.get_or_insert(id);
                show_entry(id, &words, show)?;
            }
        }
        if (found, gone) != (live, deleted) || words.is_empty() {
            return Err(corrupt().into());
        }
        Ok(found as u64)
    }
}

fn show_entry<E>(id: StreamId, words: &[Item<'_>], show: Show<'_, E>) -> Result<(), E> {
    let mut digits = vec![itoa::Buffer::new(); words.len()];
    let words: Vec<&[u8]> = words
        .iter()
        .zip(&mut digits)
        .map(|(word, digits)| match word {
            Item::Bytes(bytes) => bytes,
            Item::Int(int) => digits.format(*int).as_bytes(),
        })
        .collect();
    show(Part::Entry(id, &words))
}

fn group<R: BufRead, E: From<Error>>(
    source: &mut Source<R>,
    kind: Kind,
    estimate: impl Fn(StreamId) -> Option<u64>,
    show: Show<'_, E>,
) -> Result<(), E> {
    let name = source.string()?;
    let last = id(source)?;
    let read = match kind {
        Kind::Stream => estimate(last),
        _ => Some(source.length()?).filter(|&read| read != UNKNOWN),
    };
    show(Part::Group { name: &name, last, read })?;
    let mut pending = HashMap::new();
    for _ in 0..source.length()? {
        let id = StreamId::from_bytes(source.array()?);
        let delivery = (time(source)?, source.length()?, false);
        if pending.insert(id, delivery).is_some() {
            return Err(source.bad_group("Duplicated global PEL entry loading stream").into());
        }
    }
    let mut owners = HashSet::new();
    for _ in 0..source.length()? {
        let name = source.string()?;
        if !owners.insert(name.clone()) {
            return Err(source.bad_group("Duplicate stream consumer detected").into());
        }
        let seen = time(source)?;
        // Versions before 7.2 wrote one time, which Redis uses for both.
        let active = match kind {
            Kind::Stream3 => u64::try_from(source.millis()?).ok(),
            _ => Some(seen),
        };
        show(Part::Consumer { name: &name, seen, active })?;
        for _ in 0..source.length()? {
            let id = StreamId::from_bytes(source.array()?);
            let unknown = || source.bad_group("Consumer entry not found in group global PEL");
            let delivery = pending.get_mut(&id).ok_or_else(unknown)?;
            let (delivered, count, is_owned) = *delivery;
            if is_owned {
                let twice = "Stream consumer PEL entry already has a consumer assigned";
                return Err(source.bad_group(twice).into());
            }
            delivery.2 = true;
            show(Part::Pending { id, delivered, count })?;
        }
    }
    // Each belongs to one consumer.
    match pending.values().all(|(.., is_owned)| *is_owned) {
        true => Ok(()),
        false => Err(source.bad_group("NACK in group global PEL without consumer").into()),
    }
}

/// Returns a time that may have been written by a clock before 1970.
fn time<R: BufRead>(source: &mut Source<R>) -> Result<u64, Error> {
    Ok(u64::try_from(source.millis()?).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_an_old_dump_has_read_what_redis_estimates() {
        let id = |ms| StreamId { ms, seq: 0 };
        let of = |upto, len, first| entries_read(id(upto), len, first, id(6));
        assert_eq!(of(6, 2, Some(id(5))), Some(2), "all of them");
        assert_eq!(of(5, 2, Some(id(5))), Some(1), "the first one");
        assert_eq!(of(4, 2, Some(id(5))), Some(0), "what is gone");
        assert_eq!(of(5, 3, Some(id(4))), None, "one between, of which nobody knows the number");
        assert_eq!(of(7, 3, Some(id(4))), None, "more than there is");
        assert_eq!(of(6, 0, None), Some(0));
    }
}
