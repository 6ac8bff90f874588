//! Values: from any type and encoding to their parts.

use std::io::BufRead;

use crate::item::Item;
use crate::listpack::Listpack;
use crate::source::Source;
use crate::stream::{self, StreamId};
use crate::ziplist::Ziplist;
use crate::{Error, Kind, intset, item, zipmap};

/// A part of a value. A value is a string, or elements of one kind, or a stream's parts in the
/// order of this list.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Part<'p> {
    /// A string, whole.
    String(&'p [u8]),
    /// The next element of a list.
    Element(&'p [u8]),
    /// A member of a set.
    Member(&'p [u8]),
    /// A member of a sorted set; its score is a number.
    Scored(&'p [u8], f64),
    /// A field of a hash, its value, and when it expires, in unix ms.
    Field(&'p [u8], &'p [u8], Option<u64>),
    /// An entry of a stream: fields before their values.
    Entry(StreamId, &'p [&'p [u8]]),
    /// The properties of a stream, after all its entries.
    Stream {
        /// How many entries it has.
        len: u64,
        /// The greatest ID that it ever had.
        last: StreamId,
        /// How many entries were ever added.
        added: u64,
        /// The greatest ID that was deleted.
        deleted: StreamId,
    },
    /// A consumer group, before its consumers and entries.
    Group {
        /// Its name.
        name: &'p [u8],
        /// The last ID that was delivered to it.
        last: StreamId,
        /// How many entries it has read, if that is known.
        read: Option<u64>,
    },
    /// A consumer of the last group.
    Consumer {
        /// Its name.
        name: &'p [u8],
        /// When it last tried something, in unix ms.
        seen: u64,
        /// When it last got something, in unix ms; none if never.
        active: Option<u64>,
    },
    /// A pending entry of the last consumer.
    Pending {
        /// The entry's ID.
        id: StreamId,
        /// When it was last delivered, in unix ms.
        delivered: u64,
        /// How often it was delivered.
        count: u64,
    },
}

/// Reads a value of a type and shows its parts, which are valid only if this succeeds.
pub fn read_value<R: BufRead, E: From<Error>>(
    source: &mut Source<R>,
    kind: Kind,
    mut show: impl FnMut(Part<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let show: Show<'_, E> = &mut show;
    match kind {
        Kind::String => show(Part::String(&source.string()?)),
        Kind::List => each(source, 1, |_, words| show(Part::Element(&words[0]))),
        Kind::Set => each(source, 1, |_, words| show(Part::Member(&words[0]))),
        Kind::Hash => each(source, 2, |_, words| show(Part::Field(&words[0], &words[1], None))),
        Kind::HashValkey => each(source, 2, |source, words| {
            let time = u64::try_from(source.millis()?).ok();
            show(Part::Field(&words[0], &words[1], time))
        }),
        Kind::SortedSetText | Kind::SortedSet => each(source, 1, |source, words| {
            let score = match kind {
                Kind::SortedSet => source.double()?,
                _ => text_score(source)?,
            };
            show(Part::Scored(&words[0], number(source, score)?))
        }),
        Kind::HashExpiring | Kind::HashExpiringOld => expiring(source, kind, show),
        Kind::ListQuicklist | Kind::ListQuicklist2 => list_nodes(source, kind, show),
        Kind::Stream | Kind::Stream2 | Kind::Stream3 => stream::read(source, kind, show),
        Kind::Module | Kind::ModuleOld => Err(module(source)?.into()),
        _ => packed(source, kind, show),
    }
}

/// The function that is shown the parts of a value.
pub(crate) type Show<'s, E> = &'s mut dyn FnMut(Part<'_>) -> Result<(), E>;

/// Reads elements of some strings each, of which there is at least one.
fn each<R: BufRead, E: From<Error>>(
    source: &mut Source<R>,
    strings: usize,
    mut show: impl FnMut(&mut Source<R>, &[Vec<u8>; 2]) -> Result<(), E>,
) -> Result<(), E> {
    let mut words = [Vec::new(), Vec::new()];
    for _ in 0..source.count()? {
        for word in &mut words[..strings] {
            source.string_into(word)?;
        }
        show(source, &words)?;
    }
    Ok(())
}

/// Returns a score that is stored as a length and this many characters; three lengths represent
/// values without decimal digits.
fn text_score<R: BufRead>(source: &mut Source<R>) -> Result<f64, Error> {
    let len = source.byte()?;
    match len {
        253 => Ok(f64::NAN),
        254 => Ok(f64::INFINITY),
        255 => Ok(f64::NEG_INFINITY),
        len => {
            let mut text = [0; 252];
            let text = &mut text[..usize::from(len)];
            source.fill(text)?;
            item::score(text).ok_or_else(|| source.corrupt("Score"))
        }
    }
}

fn number<R: BufRead>(source: &Source<R>, score: f64) -> Result<f64, Error> {
    if score.is_nan() { Err(source.corrupt("Score")) } else { Ok(score) }
}

/// Reads a hash whose fields have expiry times, relative to the earliest of all.
fn expiring<R: BufRead, E: From<Error>>(
    source: &mut Source<R>,
    kind: Kind,
    show: Show<'_, E>,
) -> Result<(), E> {
    let earliest = match kind {
        Kind::HashExpiring => source.millis()?,
        _ => 1,
    };
    let (mut field, mut value) = (Vec::new(), Vec::new());
    for _ in 0..source.count()? {
        let time = match source.length()? {
            0 => None,
            after => {
                let time = i128::from(after) + i128::from(earliest) - 1;
                Some(u64::try_from(time).map_err(|_| source.corrupt("Field expiration"))?)
            }
        };
        source.string_into(&mut field)?;
        source.string_into(&mut value)?;
        show(Part::Field(&field, &value, time))?;
    }
    Ok(())
}

fn list_nodes<R: BufRead, E: From<Error>>(
    source: &mut Source<R>,
    kind: Kind,
    show: Show<'_, E>,
) -> Result<(), E> {
    const PLAIN: u64 = 1;
    const PACKED: u64 = 2;
    let (mut node, mut is_empty) = (Vec::new(), true);
    for _ in 0..source.count()? {
        let container = if kind == Kind::ListQuicklist2 { source.length()? } else { PACKED };
        source.string_into(&mut node)?;
        let mut element = |item: Item<'_>| {
            is_empty = false;
            item.with(|element| show(Part::Element(element)))
        };
        match (container, kind) {
            // Only large elements are stored in this way.
            (PLAIN, _) if !node.is_empty() => element(Item::Bytes(&node))?,
            (PACKED, Kind::ListQuicklist2) => {
                let node =
                    Listpack::parse(&node).ok_or_else(|| source.corrupt("Quicklist listpack"))?;
                node.items().try_for_each(element)?;
            }
            (PACKED, _) => {
                let node =
                    Ziplist::parse(&node).ok_or_else(|| source.corrupt("Quicklist ziplist"))?;
                node.items().try_for_each(element)?;
            }
            _ => return Err(source.corrupt("Quicklist").into()),
        }
    }
    if is_empty { Err(Error::Empty { at: source.at() }.into()) } else { Ok(()) }
}

/// Shows a list of one packed node, which ends at byte `at`.
pub(crate) fn list_node<E: From<Error>>(node: &[u8], at: u64, show: Show<'_, E>) -> Result<(), E> {
    let corrupt = Error::Corrupt { what: "Quicklist listpack", at };
    let list = Listpack::parse(node).ok_or(corrupt)?;
    not_empty(at, list.len())?;
    list.items().try_for_each(|item| item.with(|element| show(Part::Element(element))))
}

/// Reads a collection in one string.
fn packed<R: BufRead, E: From<Error>>(
    source: &mut Source<R>,
    kind: Kind,
    show: Show<'_, E>,
) -> Result<(), E> {
    // The earliest expiry time is written before the listpack, in which the times themselves are
    // complete.
    if kind == Kind::HashListpackExpiring {
        source.millis()?;
    }
    let bytes = source.string()?;
    packed_in(&bytes, source.at(), kind, show)
}

/// Shows a collection in one string, which ends at byte `at`.
pub(crate) fn packed_in<E: From<Error>>(
    bytes: &[u8],
    at: u64,
    kind: Kind,
    show: Show<'_, E>,
) -> Result<(), E> {
    let corrupt = || Error::Corrupt { what: packed_name(kind), at };
    match kind {
        Kind::HashZipmap => {
            // As in Redis, one without fields is corrupt.
            let fields = zipmap::fields(bytes).filter(|fields| !fields.is_empty());
            let fields = fields.ok_or_else(corrupt)?;
            fields.into_iter().try_for_each(|(field, value)| show(Part::Field(field, value, None)))
        }
        Kind::SetIntset => {
            let mut ints = intset::parse(bytes).ok_or_else(corrupt)?;
            not_empty(at, bytes.len() - 8)?;
            ints.try_for_each(|int| Item::Int(int).with(|member| show(Part::Member(member))))
        }
        Kind::ListZiplist | Kind::SortedSetZiplist | Kind::HashZiplist => {
            let list = Ziplist::parse(bytes).ok_or_else(corrupt)?;
            not_empty(at, list.len())?;
            items(at, kind, list.items(), list.len(), show)
        }
        _ => {
            let list = Listpack::parse(bytes).ok_or_else(corrupt)?;
            not_empty(at, list.len())?;
            items(at, kind, list.items(), list.len(), show)
        }
    }
}

/// Returns Redis's name for an encoding whose integrity it checks.
fn packed_name(kind: Kind) -> &'static str {
    match kind {
        Kind::HashZipmap => "Zipmap",
        Kind::SetIntset => "Intset",
        Kind::ListZiplist => "List ziplist",
        Kind::SortedSetZiplist => "Zset ziplist",
        Kind::HashZiplist => "Hash ziplist",
        Kind::SetListpack => "Set listpack",
        Kind::SortedSetListpack => "Zset listpack",
        _ => "Hash listpack",
    }
}

fn not_empty(at: u64, len: usize) -> Result<(), Error> {
    if len == 0 { Err(Error::Empty { at }) } else { Ok(()) }
}

/// Shows the elements of a packed collection, of one, two or three items each.
fn items<'b, E: From<Error>>(
    at: u64,
    kind: Kind,
    mut items: impl Iterator<Item = Item<'b>>,
    len: usize,
    show: Show<'_, E>,
) -> Result<(), E> {
    let each = match kind {
        Kind::ListZiplist | Kind::SetListpack => 1,
        Kind::HashListpackExpiring | Kind::HashListpackExpiringOld => 3,
        _ => 2,
    };
    let corrupt = |what| Error::Corrupt { what, at };
    if !len.is_multiple_of(each) {
        return Err(corrupt(packed_name(kind)).into());
    }
    while let Some(first) = items.next() {
        first.with(|first| match kind {
            Kind::ListZiplist => show(Part::Element(first)),
            Kind::SetListpack => show(Part::Member(first)),
            Kind::SortedSetZiplist | Kind::SortedSetListpack => {
                let score = items.next().and_then(|item| item.score());
                show(Part::Scored(first, score.ok_or_else(|| corrupt("Score"))?))
            }
            _ => {
                let value = items.next().unwrap_or(Item::Bytes(&[]));
                let time = if each == 3 { items.next() } else { Some(Item::Int(0)) };
                let time = time.and_then(|time| u64::try_from(time.int()?).ok());
                let time = time.ok_or_else(|| corrupt("Field expiration"))?;
                let time = (time != 0).then_some(time);
                value.with(|value| show(Part::Field(first, value, time)))
            }
        })?;
    }
    Ok(())
}

/// Returns the error for a module's data, with the name that its first number represents.
pub(crate) fn module<R: BufRead>(source: &mut Source<R>) -> Result<Error, Error> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let id = source.length()?;
    // Nine letters of six bits each, and ten bits of a version.
    let name = (0..9).map(|n| char::from(LETTERS[(id >> (58 - 6 * n)) as usize & 63])).collect();
    Ok(Error::Module { name, at: source.at() })
}
