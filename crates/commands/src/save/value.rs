//! Encodes the parts of a value that a snapshot shows for a dump.
//!
//! The encoding is the one that redis-server 7.0 would choose for the value under the configured
//! limits; a value that came in many parts gets the encoding for large ones.

use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Mutex;

use engine::config::Config;
use engine::save_options::{SaveOptions, Spool};
use keyspace::{Content, Limits, TimedField, Type};
use rdb::{FileWriter, Kind, ListLimit, ListNodes, ListpackBuilder, Writer};

use super::stream::StreamValue;

/// The number of bytes from which a value counts as large.
pub const COLLECTED_BYTES: usize = 1 << 20;
/// The number of elements from which a value counts as large.
pub const COLLECTED_ELEMENTS: usize = 4096;

/// A value that is not complete yet.
pub(super) enum Value {
    String(Vec<u8>),
    Elements(Type, Vec<Vec<u8>>),
    Fields(Vec<TimedField>),
    Large(Box<Large>),
    Stream(Box<StreamValue>),
}

impl Value {
    /// Returns true if it is a collection without elements.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Value::Elements(_, elements) => elements.is_empty(),
            Value::Fields(fields) => fields.is_empty(),
            Value::Large(_) | Value::Stream(_) | Value::String(_) => false,
        }
    }
}

/// Encodes values.
pub(super) struct Encoder<'d> {
    pub(super) config: &'d Config,
    options: &'d SaveOptions<'d>,
    /// Held while a spool is made.
    spools: &'d Mutex<()>,
}

fn mixed() -> io::Error {
    io::Error::other("the parts of a value are of two types")
}

impl<'d> Encoder<'d> {
    pub(super) fn new(
        config: &'d Config,
        options: &'d SaveOptions<'d>,
        spools: &'d Mutex<()>,
    ) -> Encoder<'d> {
        Encoder { config, options, spools }
    }

    fn spool(&self) -> io::Result<Box<dyn Spool>> {
        let _one = self.spools.lock();
        (self.options.spool)()
    }

    /// Makes a buffer for a part of a large value.
    pub(super) fn body(&self) -> Body {
        Body { writer: Writer::new(Vec::new(), self.options.compresses), spool: None }
    }

    /// Begins a value with its first part.
    pub(super) fn begin(&self, first: Content) -> io::Result<Value> {
        Ok(match first {
            Content::String(value) => Value::String(value),
            Content::Elements(what, elements) => Value::Elements(what, elements),
            Content::Fields(fields) => Value::Fields(fields),
            Content::Stream(parts) => {
                let mut stream = StreamValue::new(self);
                stream.add(self, parts)?;
                Value::Stream(Box::new(stream))
            }
        })
    }

    /// Adds a further part.
    pub(super) fn add(&self, value: &mut Value, part: Content) -> io::Result<()> {
        match (&mut *value, part) {
            (Value::String(value), Content::String(more)) => value.extend_from_slice(&more),
            (Value::Elements(what, elements), Content::Elements(same, more)) if *what == same => {
                elements.extend(more);
                if is_large(elements.len(), elements.iter().map(Vec::len).sum()) {
                    let (what, elements) = (*what, std::mem::take(elements));
                    let mut large = Large::new(self, what);
                    large.add(self, &elements)?;
                    *value = Value::Large(Box::new(large));
                }
            }
            (Value::Fields(fields), Content::Fields(more)) => {
                fields.extend(more);
                let bytes = fields.iter().map(|one| one.field.len() + one.value.len()).sum();
                if is_large(fields.len(), bytes) {
                    let fields = std::mem::take(fields);
                    let mut large = Large::timed(self);
                    large.add_fields(self, &fields)?;
                    *value = Value::Large(Box::new(large));
                }
            }
            (Value::Large(large), Content::Elements(what, more)) if large.what == what => {
                large.add(self, &more)?;
            }
            (Value::Large(large), Content::Fields(more)) if large.is_timed() => {
                large.add_fields(self, &more)?;
            }
            (Value::Stream(stream), Content::Stream(parts)) => stream.add(self, parts)?,
            _ => return Err(mixed()),
        }
        Ok(())
    }

    /// Writes a complete value; `begin` writes its key with the value's type first.
    pub(super) fn write<W: Write>(
        &self,
        file: &mut FileWriter<W>,
        value: Value,
        begin: impl FnOnce(&mut FileWriter<W>, Kind) -> io::Result<()>,
    ) -> io::Result<()> {
        match value {
            Value::String(value) => {
                begin(file, Kind::String)?;
                file.value().string(&value)
            }
            Value::Elements(what, elements) => self.elements(file, what, elements, begin),
            Value::Fields(fields) if fields.iter().all(|one| one.time.is_none()) => {
                let plain = fields.into_iter().flat_map(|one| [one.field, one.value]);
                self.elements(file, Type::Hash, plain.collect(), begin)
            }
            Value::Fields(fields) if self.options.is_for_valkey => {
                begin(file, Kind::HashValkey)?;
                file.value().length(fields.len() as u64)?;
                fields.iter().try_for_each(|one| field_of_valkey(file.value(), one))
            }
            Value::Fields(fields) => {
                begin(file, Kind::HashExpiring)?;
                timed(file.value(), &fields)
            }
            Value::Large(large) => {
                begin(file, large.kind)?;
                large.write(self, file)
            }
            Value::Stream(stream) => {
                begin(file, Kind::Stream2)?;
                stream.write(file)
            }
        }
    }

    fn elements<W: Write>(
        &self,
        file: &mut FileWriter<W>,
        what: Type,
        elements: Vec<Vec<u8>>,
        begin: impl FnOnce(&mut FileWriter<W>, Kind) -> io::Result<()>,
    ) -> io::Result<()> {
        match what {
            Type::List => {
                begin(file, Kind::ListQuicklist2)?;
                let nodes = self.list_nodes(&elements);
                file.value().length(nodes.len() as u64)?;
                nodes.iter().try_for_each(|node| file.value().list_node(node))
            }
            Type::Set => match self.ints(&elements) {
                Some(ints) => {
                    begin(file, Kind::SetIntset)?;
                    file.value().string(&rdb::intset(&ints))
                }
                None => {
                    begin(file, Kind::Set)?;
                    strings(file.value(), 1, &elements)
                }
            },
            Type::Hash if is_small(self.config.hash_limits(), &elements, |_| true) => {
                begin(file, Kind::HashListpack)?;
                let mut pack = ListpackBuilder::default();
                elements.iter().for_each(|element| pack.push(element));
                file.value().string(&pack.finish())
            }
            Type::Hash => {
                begin(file, Kind::Hash)?;
                strings(file.value(), 2, &elements)
            }
            _ => self.sorted_set(file, &elements, begin),
        }
    }

    fn sorted_set<W: Write>(
        &self,
        file: &mut FileWriter<W>,
        elements: &[Vec<u8>],
        begin: impl FnOnce(&mut FileWriter<W>, Kind) -> io::Result<()>,
    ) -> io::Result<()> {
        let (pairs, _) = elements.as_chunks::<2>();
        let is_member = |at: usize| at % 2 == 1;
        if is_small(self.config.sorted_set_limits(), elements, is_member) {
            begin(file, Kind::SortedSetListpack)?;
            let mut pack = ListpackBuilder::default();
            for [score, member] in pairs {
                pack.push(member);
                pack.push_score(read_score(score)?);
            }
            return file.value().string(&pack.finish());
        }
        begin(file, Kind::SortedSet)?;
        file.value().length(pairs.len() as u64)?;
        // As Redis does: each loaded member is then inserted before those already there.
        pairs.iter().rev().try_for_each(|[score, member]| scored(file.value(), score, member))
    }

    fn list_nodes(&self, elements: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut nodes = ListNodes::new(self.list_limit());
        let mut all: Vec<_> = elements.iter().filter_map(|element| nodes.push(element)).collect();
        all.extend(nodes.finish());
        all
    }

    fn list_limit(&self) -> ListLimit {
        ListLimit::new(self.config.list_node())
    }

    /// Returns the members of a set as sorted integers, if all are integers, and not too many.
    fn ints(&self, members: &[Vec<u8>]) -> Option<Vec<i64>> {
        if members.len() > self.config.set_limits().entries {
            return None;
        }
        let ints: Option<Vec<i64>> = members.iter().map(|one| rdb::canonical_int(one)).collect();
        let mut ints = ints?;
        ints.sort_unstable();
        Some(ints)
    }
}

fn is_large(elements: usize, bytes: usize) -> bool {
    elements > COLLECTED_ELEMENTS || bytes > COLLECTED_BYTES
}

/// Returns true if pairs are within the limits of the listpack encoding; `counts` says at which
/// positions the length matters.
fn is_small(limits: Limits, pairs: &[Vec<u8>], counts: impl Fn(usize) -> bool) -> bool {
    let short = |(at, one): (usize, &Vec<u8>)| one.len() <= limits.value || !counts(at);
    pairs.len() / 2 <= limits.entries && pairs.iter().enumerate().all(short)
}

fn strings(writer: &mut Writer<Vec<u8>>, each: usize, all: &[Vec<u8>]) -> io::Result<()> {
    writer.length((all.len() / each) as u64)?;
    all.iter().try_for_each(|one| writer.string(one))
}

fn read_score(text: &[u8]) -> io::Result<f64> {
    let score = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    score.ok_or_else(|| io::Error::other("a score is no number"))
}

fn scored(writer: &mut Writer<Vec<u8>>, score: &[u8], member: &[u8]) -> io::Result<()> {
    writer.string(member)?;
    writer.double(read_score(score)?)
}

/// Writes fields with TTLs, which are relative to the earliest of them.
fn timed(writer: &mut Writer<Vec<u8>>, fields: &[TimedField]) -> io::Result<()> {
    let earliest = fields.iter().filter_map(|one| one.time).min().unwrap_or(1);
    writer.millis(earliest)?;
    writer.length(fields.len() as u64)?;
    fields.iter().try_for_each(|one| timed_field(writer, earliest, one))
}

fn timed_field(writer: &mut Writer<Vec<u8>>, earliest: u64, one: &TimedField) -> io::Result<()> {
    writer.length(one.time.map_or(0, |time| time - earliest + 1))?;
    writer.string(&one.field)?;
    writer.string(&one.value)
}

/// Writes a field as Valkey does: all bits of its time are set if it does not expire.
fn field_of_valkey(writer: &mut Writer<Vec<u8>>, one: &TimedField) -> io::Result<()> {
    writer.string(&one.field)?;
    writer.string(&one.value)?;
    writer.millis(one.time.unwrap_or(u64::MAX))
}

/// A collection that is not kept in memory as a whole.
pub(super) struct Large {
    what: Type,
    kind: Kind,
    count: u64,
    nodes: ListNodes,
    body: Body,
}

impl Large {
    /// The base of the fields' expiry times: the earliest is not known when the first is written.
    const EARLIEST: u64 = 1;

    fn new(encoder: &Encoder<'_>, what: Type) -> Large {
        let kind = match what {
            Type::List => Kind::ListQuicklist2,
            Type::Set => Kind::Set,
            Type::Hash => Kind::Hash,
            _ => Kind::SortedSet,
        };
        let nodes = ListNodes::new(encoder.list_limit());
        Large { what, kind, count: 0, nodes, body: encoder.body() }
    }

    fn timed(encoder: &Encoder<'_>) -> Large {
        let is_for_valkey = encoder.options.is_for_valkey;
        let kind = if is_for_valkey { Kind::HashValkey } else { Kind::HashExpiring };
        Large { kind, ..Large::new(encoder, Type::Hash) }
    }

    fn is_timed(&self) -> bool {
        matches!(self.kind, Kind::HashExpiring | Kind::HashValkey)
    }

    fn add(&mut self, encoder: &Encoder<'_>, elements: &[Vec<u8>]) -> io::Result<()> {
        let writer = &mut self.body.writer;
        match self.what {
            Type::List => {
                for element in elements {
                    if let Some(node) = self.nodes.push(element) {
                        self.count += 1;
                        writer.list_node(&node)?;
                    }
                }
            }
            Type::SortedSet => {
                let (pairs, _) = elements.as_chunks::<2>();
                self.count += pairs.len() as u64;
                pairs.iter().try_for_each(|[score, member]| scored(writer, score, member))?;
            }
            what => {
                let each = if what == Type::Hash { 2 } else { 1 };
                self.count += (elements.len() / each) as u64;
                elements.iter().try_for_each(|one| writer.string(one))?;
            }
        }
        self.body.spill(encoder)
    }

    fn add_fields(&mut self, encoder: &Encoder<'_>, fields: &[TimedField]) -> io::Result<()> {
        self.count += fields.len() as u64;
        let writer = &mut self.body.writer;
        fields.iter().try_for_each(|one| match self.kind {
            Kind::HashValkey => field_of_valkey(writer, one),
            _ => timed_field(writer, Large::EARLIEST, one),
        })?;
        self.body.spill(encoder)
    }

    fn write<W: Write>(
        mut self,
        encoder: &Encoder<'_>,
        file: &mut FileWriter<W>,
    ) -> io::Result<()> {
        let nodes = std::mem::replace(&mut self.nodes, ListNodes::new(encoder.list_limit()));
        if let Some(node) = nodes.finish() {
            self.count += 1;
            self.body.writer.list_node(&node)?;
        }
        if self.kind == Kind::HashExpiring {
            file.value().millis(Large::EARLIEST)?;
        }
        file.value().length(self.count)?;
        self.body.write(file)
    }
}

/// Bytes of a value: the first ones in a file, if there are many, the others in memory.
pub(super) struct Body {
    pub(super) writer: Writer<Vec<u8>>,
    spool: Option<Box<dyn Spool>>,
}

impl Body {
    /// Moves the bytes in memory to the file, if there are many.
    pub(super) fn spill(&mut self, encoder: &Encoder<'_>) -> io::Result<()> {
        let bytes = self.writer.inner_mut();
        if bytes.len() < COLLECTED_BYTES {
            return Ok(());
        }
        let spool = match &mut self.spool {
            Some(spool) => spool,
            none => none.insert(encoder.spool()?),
        };
        spool.write_all(bytes)?;
        bytes.clear();
        Ok(())
    }

    pub(super) fn write<W: Write>(mut self, file: &mut FileWriter<W>) -> io::Result<()> {
        if let Some(spool) = &mut self.spool {
            spool.flush()?;
            spool.seek(SeekFrom::Start(0))?;
            file.copy(spool)?;
        }
        file.copy(&mut &self.writer.inner_mut()[..])
    }
}
