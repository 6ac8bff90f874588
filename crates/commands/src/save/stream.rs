//! A stream: nodes of entries, then its metadata, then its consumer groups.
//!
//! A group's pending entries come ordered by ID. A dump lists them by ID too, and once more by
//! consumer. Groups are kept in memory until then, some 40 bytes for each pending entry.

use std::collections::HashMap;
use std::io::{self, Write};

use keyspace::{StreamId, StreamPart};
use rdb::{FileWriter, StreamLimit, StreamNodes, Writer};

use super::value::{Body, COLLECTED_BYTES, Encoder};

/// A stream that is not complete yet.
pub(super) struct StreamValue {
    nodes: StreamNodes,
    /// Complete nodes, and their bytes.
    full: Vec<rdb::StreamNode>,
    bytes: usize,
    count: u64,
    /// The nodes before `full`, if there are many.
    body: Option<Body>,
    first: Option<StreamId>,
    head: Head,
    groups: Vec<Group>,
}

#[derive(Default)]
struct Head {
    len: u64,
    last: StreamId,
    added: u64,
    deleted: StreamId,
}

struct Group {
    name: Vec<u8>,
    last: StreamId,
    read: Option<u64>,
    pending: Vec<(StreamId, u64, u64)>,
    consumers: Vec<Consumer>,
    by_name: HashMap<Vec<u8>, usize>,
}

struct Consumer {
    name: Vec<u8>,
    seen: u64,
    pending: Vec<StreamId>,
}

fn id(id: StreamId) -> rdb::StreamId {
    rdb::StreamId { ms: id.ms, seq: id.seq }
}

fn misplaced() -> io::Error {
    io::Error::other("a part of a consumer group comes before the group")
}

impl StreamValue {
    pub(super) fn new(encoder: &Encoder<'_>) -> StreamValue {
        let (bytes, entries) = encoder.config.stream_node();
        StreamValue {
            nodes: StreamNodes::new(StreamLimit { bytes, entries }),
            full: Vec::new(),
            bytes: 0,
            count: 0,
            body: None,
            first: None,
            head: Head::default(),
            groups: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, encoder: &Encoder<'_>, parts: Vec<StreamPart>) -> io::Result<()> {
        for part in parts {
            match part {
                StreamPart::Entry(at, words) => {
                    self.first.get_or_insert(at);
                    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    if let Some(node) = self.nodes.push(id(at), &words) {
                        self.add_node(encoder, node)?;
                    }
                }
                StreamPart::Head { len, last, added, deleted } => {
                    self.head = Head { len, last, added, deleted };
                }
                StreamPart::Group { name, last, read } => self.groups.push(Group {
                    name,
                    last,
                    read,
                    pending: Vec::new(),
                    consumers: Vec::new(),
                    by_name: HashMap::new(),
                }),
                StreamPart::Consumer { name, seen, .. } => {
                    let group = self.groups.last_mut().ok_or_else(misplaced)?;
                    group.by_name.insert(name.clone(), group.consumers.len());
                    group.consumers.push(Consumer { name, seen, pending: Vec::new() });
                }
                StreamPart::Pending { consumer, id, delivered, count, .. } => {
                    let group = self.groups.last_mut().ok_or_else(misplaced)?;
                    let owner = group.by_name.get(&consumer).ok_or_else(misplaced)?;
                    group.consumers[*owner].pending.push(id);
                    group.pending.push((id, delivered, count));
                }
            }
        }
        Ok(())
    }

    fn add_node(&mut self, encoder: &Encoder<'_>, node: rdb::StreamNode) -> io::Result<()> {
        self.count += 1;
        self.bytes += node.listpack.len();
        self.full.push(node);
        if self.bytes < COLLECTED_BYTES {
            return Ok(());
        }
        self.bytes = 0;
        let body = self.body.get_or_insert_with(|| encoder.body());
        self.full.drain(..).try_for_each(|node| body.writer.stream_node(&node))?;
        body.spill(encoder)
    }

    pub(super) fn write<W: Write>(self, file: &mut FileWriter<W>) -> io::Result<()> {
        let last = self.nodes.finish();
        file.value().length(self.count + u64::from(last.is_some()))?;
        self.body.map_or(Ok(()), |body| body.write(file))?;
        let writer = file.value();
        self.full.iter().chain(&last).try_for_each(|node| writer.stream_node(node))?;
        let Head { len, last, added, deleted } = self.head;
        writer.length(len)?;
        writer.id(id(last))?;
        writer.id(id(self.first.unwrap_or(StreamId::MIN)))?;
        writer.id(id(deleted))?;
        writer.length(added)?;
        writer.length(self.groups.len() as u64)?;
        self.groups.iter().try_for_each(|group| write_group(writer, group))
    }
}

fn write_group(writer: &mut Writer<Vec<u8>>, group: &Group) -> io::Result<()> {
    writer.string(&group.name)?;
    writer.id(id(group.last))?;
    // -1 stands for an unknown number.
    writer.length(group.read.unwrap_or(u64::MAX))?;
    writer.length(group.pending.len() as u64)?;
    for (entry, delivered, count) in &group.pending {
        writer.raw_id(id(*entry))?;
        writer.millis(*delivered)?;
        writer.length(*count)?;
    }
    writer.length(group.consumers.len() as u64)?;
    for consumer in &group.consumers {
        writer.string(&consumer.name)?;
        writer.millis(consumer.seen)?;
        writer.length(consumer.pending.len() as u64)?;
        consumer.pending.iter().try_for_each(|entry| writer.raw_id(id(*entry)))?;
    }
    Ok(())
}
