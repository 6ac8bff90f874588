//! Writes a value as the payload of DUMP.
//!
//! Lists and streams are read twice, since the number of their nodes comes first: once to count
//! them, once to write them, so that only the payload and one node are in memory.

use std::io;

use engine::config::Config;
use engine::failure::Failure;
use keyspace::{Encoding, Entry, Side, StreamEntry, StreamGroup, StreamId, StreamRef, Txn, Type};
use rdb::{Kind, ListLimit, ListNodes, ListpackBuilder, StreamLimit, StreamNodes, payload};

type Writer = rdb::Writer<Vec<u8>>;

/// The error if the number of elements read differs from the value's own count.
const DAMAGED: &str = "MEDIAERR the value of this key is damaged: DEL it, or SET it again";

/// Why a payload was not written; writing to memory itself does not fail.
struct Stopped(Failure);

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Stopped {
        Stopped(Failure::text(format!("ERR {error}")))
    }
}

impl From<keyspace::Error> for Stopped {
    fn from(error: keyspace::Error) -> Stopped {
        Stopped(error.into())
    }
}

type Written = Result<(), Stopped>;

/// Returns the payload of an entry.
pub(in crate::keys) fn payload(
    config: &Config,
    txn: &Txn<'_>,
    entry: &Entry,
) -> Result<Vec<u8>, Failure> {
    let mut writer = Writer::new(Vec::new(), true);
    let properties = txn.properties(entry);
    let kind = properties.value_type();
    let is_timed = kind == Type::Hash && properties.has_field_ttls();
    let written = match kind {
        Type::List => list(&mut writer, ListLimit::new(config.list_node()), txn, entry),
        Type::Set => set(&mut writer, txn, entry),
        Type::Hash if is_timed => timed_hash(&mut writer, txn, entry),
        Type::Hash => hash(&mut writer, txn, entry),
        Type::SortedSet => sorted_set(&mut writer, txn, entry),
        Type::Stream => stream(&mut writer, config, txn, entry),
        _ => string(&mut writer, txn, entry),
    };
    written.map_err(|stopped| stopped.0)?;
    let mut bytes = writer.into_inner();
    let version = if is_timed { rdb::VERSION_FIELD_EXPIRATION } else { rdb::VERSION };
    payload::append_footer(&mut bytes, version);
    Ok(bytes)
}

fn string(writer: &mut Writer, txn: &Txn<'_>, entry: &Entry) -> Written {
    let value = txn.string(entry)?;
    writer.kind(Kind::String)?;
    match value.as_slice() {
        Some(bytes) => writer.string(bytes)?,
        None => writer.string(&value.to_vec()?)?,
    }
    Ok(())
}

/// Returns true to go on after an element; keeps the error otherwise.
fn keep(result: &mut io::Result<()>, next: io::Result<()>) -> bool {
    *result = next;
    result.is_ok()
}

fn whole(found: u64, expected: u64) -> Written {
    if found == expected { Ok(()) } else { Err(Stopped(DAMAGED.into())) }
}

fn list(writer: &mut Writer, limit: ListLimit, txn: &Txn<'_>, entry: &Entry) -> Written {
    let elements = txn.list(entry)?;
    let (mut nodes, mut count, mut len) = (ListNodes::new(limit), 0, 0);
    elements.visit(0, Side::Head, |element| {
        count += u64::from(nodes.push(element).is_some());
        len += 1;
        true
    })?;
    whole(len, elements.len()?)?;
    writer.kind(Kind::ListQuicklist2)?;
    writer.length(count + 1)?;
    let (mut nodes, mut written) = (ListNodes::new(limit), Ok(()));
    elements.visit(0, Side::Head, |element| match nodes.push(element) {
        Some(node) => keep(&mut written, writer.list_node(&node)),
        None => true,
    })?;
    written?;
    nodes.finish().map_or(Ok(()), |node| writer.list_node(&node))?;
    Ok(())
}

fn set(writer: &mut Writer, txn: &Txn<'_>, entry: &Entry) -> Written {
    let members = txn.members(entry, Type::Set)?;
    let mut found = 0;
    if members.is_intset() {
        let mut ints = Vec::new();
        members.visit(|member, _| {
            found += 1;
            ints.extend(rdb::canonical_int(member));
        })?;
        whole(ints.len() as u64, members.len())?;
        writer.kind(Kind::SetIntset)?;
        writer.string(&rdb::intset(&ints))?;
        return Ok(());
    }
    writer.kind(Kind::Set)?;
    writer.length(members.len())?;
    let mut written = Ok(());
    members.visit(|member, _| {
        found += 1;
        if written.is_ok() {
            written = writer.string(member);
        }
    })?;
    written?;
    whole(found, members.len())
}

fn hash(writer: &mut Writer, txn: &Txn<'_>, entry: &Entry) -> Written {
    let members = txn.members(entry, Type::Hash)?;
    let mut found = 0;
    if txn.properties(entry).encoding() != Encoding::Hashtable {
        let mut pack = ListpackBuilder::default();
        members.visit(|field, value| {
            found += 1;
            pack.push(field);
            pack.push(value);
        })?;
        whole(found, members.len())?;
        writer.kind(Kind::HashListpack)?;
        writer.string(&pack.finish())?;
        return Ok(());
    }
    writer.kind(Kind::Hash)?;
    writer.length(members.len())?;
    let mut written = Ok(());
    members.visit(|field, value| {
        found += 1;
        if written.is_ok() {
            written = writer.string(field).and_then(|()| writer.string(value));
        }
    })?;
    written?;
    whole(found, members.len())
}

fn timed_hash(writer: &mut Writer, txn: &Txn<'_>, entry: &Entry) -> Written {
    let members = txn.members(entry, Type::Hash)?;
    let (mut earliest, mut failed) = (u64::MAX, Ok(()));
    let time = |field: &[u8], failed: &mut Result<(), keyspace::Error>| {
        members.time(field).map(Option::flatten).unwrap_or_else(|error| {
            *failed = Err(error);
            None
        })
    };
    members.visit(|field, _| {
        earliest = earliest.min(time(field, &mut failed).unwrap_or(u64::MAX));
    })?;
    writer.kind(Kind::HashExpiring)?;
    writer.millis(earliest)?;
    writer.length(members.len())?;
    let (mut written, mut found) = (Ok(()), 0);
    members.visit(|field, value| {
        found += 1;
        // 0 means none, and 1 the earliest.
        let after = time(field, &mut failed).map_or(0, |time| time - earliest + 1);
        if written.is_ok() {
            let head = writer.length(after).and_then(|()| writer.string(field));
            written = head.and_then(|()| writer.string(value));
        }
    })?;
    failed?;
    written?;
    whole(found, members.len())
}

fn sorted_set(writer: &mut Writer, txn: &Txn<'_>, entry: &Entry) -> Written {
    let sorted_set = txn.sorted_set(entry)?;
    let Some(last) = sorted_set.len().checked_sub(1) else { return Err(Stopped(DAMAGED.into())) };
    let (mut found, mut written) = (0, Ok(()));
    if txn.properties(entry).encoding() == Encoding::Listpack {
        let mut pack = ListpackBuilder::default();
        sorted_set.visit(0, false, |member, score| {
            found += 1;
            pack.push(member);
            pack.push_score(score);
            true
        })?;
        whole(found, sorted_set.len())?;
        writer.kind(Kind::SortedSetListpack)?;
        writer.string(&pack.finish())?;
        return Ok(());
    }
    writer.kind(Kind::SortedSet)?;
    writer.length(sorted_set.len())?;
    sorted_set.visit(last, true, |member, score| {
        found += 1;
        keep(&mut written, writer.string(member).and_then(|()| writer.double(score)))
    })?;
    written?;
    whole(found, sorted_set.len())
}

fn stream(writer: &mut Writer, config: &Config, txn: &Txn<'_>, entry: &Entry) -> Written {
    let stream = txn.stream(entry)?;
    let (bytes, entries) = config.stream_node();
    let limit = StreamLimit { bytes, entries };
    let (mut nodes, mut count, mut len) = (StreamNodes::new(limit), 0, 0);
    let all = StreamId::MIN..=StreamId::MAX;
    stream.visit(all.clone(), false, |entry| {
        count += u64::from(push(&mut nodes, entry).is_some());
        len += 1;
        true
    })?;
    let head = stream.head();
    whole(len, head.len)?;
    writer.kind(Kind::Stream2)?;
    writer.length(count + u64::from(len > 0))?;
    let (mut nodes, mut written) = (StreamNodes::new(limit), Ok(()));
    stream.visit(all, false, |entry| match push(&mut nodes, entry) {
        Some(node) => keep(&mut written, writer.stream_node(&node)),
        None => true,
    })?;
    written?;
    nodes.finish().map_or(Ok(()), |node| writer.stream_node(&node))?;
    writer.length(len)?;
    writer.id(id(head.last))?;
    writer.id(id(stream.first_id()?.unwrap_or(StreamId::MIN)))?;
    writer.id(id(head.deleted))?;
    writer.length(head.added)?;
    let groups = stream.groups()?;
    writer.length(groups.len() as u64)?;
    groups.iter().try_for_each(|(name, group)| write_group(writer, &stream, name, group))
}

fn push(nodes: &mut StreamNodes, entry: &StreamEntry<'_>) -> Option<rdb::StreamNode> {
    let words: Vec<_> = entry.pairs().flat_map(|(field, value)| [field, value]).collect();
    let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    nodes.push(id(entry.id()), &words)
}

fn id(id: StreamId) -> rdb::StreamId {
    rdb::StreamId { ms: id.ms, seq: id.seq }
}

fn write_group(
    writer: &mut Writer,
    stream: &StreamRef<'_>,
    name: &[u8],
    group: &StreamGroup,
) -> Written {
    writer.string(name)?;
    writer.id(id(group.last))?;
    // -1 stands for an unknown number.
    writer.length(group.read.unwrap_or(u64::MAX))?;
    writer.length(stream.pending_count(group))?;
    let (mut found, mut written) = (0, Ok(()));
    stream.visit_pending(group, None, StreamId::MIN, |pending| {
        found += 1;
        let head = writer.raw_id(id(pending.id)).and_then(|()| writer.millis(pending.delivered));
        keep(&mut written, head.and_then(|()| writer.length(pending.count)))
    })?;
    written?;
    whole(found, stream.pending_count(group))?;
    let consumers = stream.consumers(group)?;
    writer.length(consumers.len() as u64)?;
    for (name, consumer) in &consumers {
        writer.string(name)?;
        writer.millis(consumer.seen)?;
        writer.length(stream.pending_count_of(consumer))?;
        let (mut found, mut written) = (0, Ok(()));
        stream.visit_pending(group, Some(consumer), StreamId::MIN, |pending| {
            found += 1;
            keep(&mut written, writer.raw_id(id(pending.id)))
        })?;
        written?;
        whole(found, stream.pending_count_of(consumer))?;
    }
    Ok(())
}
