//! Writes the keys of one thread, each with its value, which may come in parts.

use std::io::Write;

use engine::save_options::SaveError;
use keyspace::{Db, Item, Policy};
use rdb::{FileWriter, Usage};

use super::file::{Dump, Pieces};
use super::value::{Encoder, Value};

/// A key whose value is not complete yet.
struct Open {
    db: Db,
    key: Vec<u8>,
    expiry: Option<u64>,
    usage: Option<Usage>,
    value: Value,
}

/// Encodes keys.
pub(super) struct KeyWriter<'w, 'd, W> {
    dump: &'w Dump<'d, W>,
    encoder: Encoder<'w>,
    /// Computes no checksum: the file as a whole has one.
    to: FileWriter<Pieces<'w, 'd, W>>,
    open: Option<Open>,
}

impl<'w, 'd, W: Write> KeyWriter<'w, 'd, W> {
    pub(super) fn new(dump: &'w Dump<'d, W>) -> KeyWriter<'w, 'd, W> {
        let encoder = Encoder::new(dump.engine.config(), dump.options, &dump.spools);
        let to = FileWriter::new(Pieces::new(dump), dump.options.compresses, false);
        KeyWriter { dump, encoder, to, open: None }
    }

    pub(super) fn policy(&self) -> Policy {
        self.dump.policy
    }

    /// Adds a key, or another part of the previous one.
    pub(super) fn add(
        &mut self,
        item: Item,
        usage: impl FnOnce(Db, &[u8]) -> Option<Usage>,
    ) -> Result<(), SaveError> {
        let Item { db, key, value, expiry } = item;
        if let Some(open) = &mut self.open
            && open.db == db
            && open.key == key
        {
            open.expiry = open.expiry.or(expiry);
            return Ok(self.encoder.add(&mut open.value, value)?);
        }
        self.close()?;
        let usage = if self.dump.policy.is_by_access() { usage(db, &key) } else { None };
        let value = self.encoder.begin(value)?;
        self.open = Some(Open { db, key, expiry, usage, value });
        Ok(())
    }

    /// Writes the key, whose value is complete.
    fn close(&mut self) -> Result<(), SaveError> {
        let Some(Open { db, key, expiry, usage, value }) = self.open.take() else { return Ok(()) };
        // Damage can leave an empty collection, which must not exist.
        if value.is_empty() {
            return Ok(());
        }
        if self.to.to_mut().db != db {
            self.to.flush()?;
            self.to.to_mut().release();
            self.to.to_mut().db = db;
        }
        let to = &mut self.to;
        self.encoder.write(to, value, |to, kind| to.key(&key, expiry, usage, kind))?;
        // A value whose first bytes were passed on must stay in one piece.
        if to.to_mut().has_begun() {
            to.flush()?
        } else {
            to.flush_full()?
        }
        to.to_mut().release();
        self.dump.count()
    }

    /// Writes the last key and the buffered bytes.
    pub(super) fn end(mut self) -> Result<(), SaveError> {
        self.close()?;
        Ok(self.to.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::Arc;

    use heap::{CreateOptions, Geometry, Heap};
    use keyspace::{Content, Keyspace, StreamId, StreamPart};
    use rdb::{Reader, Record};

    use super::*;
    use engine::clock::SystemClock;
    use engine::save_options::SaveOptions;
    use engine::table::Table;
    use engine::{Engine, EngineParts};

    fn engine() -> Engine {
        let geometry = Geometry { shards: 1, ..Geometry::default() };
        let options = CreateOptions { geometry, ..CreateOptions::default() };
        let heap = Heap::volatile(1 << 28, &options).expect("a heap in memory");
        // Without commands, which take long to build.
        Engine::new(EngineParts {
            keyspace: Arc::new(Keyspace::new(heap, 0)),
            log: None,
            clock: Arc::new(SystemClock),
            threads: 1,
            seed: 0,
            table: Table::new(&[]),
        })
    }

    fn item(key: &[u8], value: Content) -> Item {
        Item { db: Db::default(), key: key.into(), value, expiry: None }
    }

    /// A stream that exceeds the memory limit of a value, with something after its entries.
    fn large_stream() -> Content {
        let entry =
            |ms| StreamPart::Entry(StreamId { ms, seq: 0 }, vec![b"f".into(), vec![b'x'; 1000]]);
        let mut parts: Vec<StreamPart> = (1..=2000).map(entry).collect();
        let (last, deleted) = (StreamId { ms: 2000, seq: 0 }, StreamId::MIN);
        parts.push(StreamPart::Head { len: 2000, last, added: 2000, deleted });
        Content::Stream(parts)
    }

    #[test]
    fn no_other_thread_writes_into_a_large_value() {
        let engine = engine();
        let options = SaveOptions {
            stream: &|| None,
            compresses: false,
            has_checksum: true,
            is_base: false,
            is_for_valkey: false,
            is_background: false,
            backend: "test",
            spool: &|| Ok(Box::new(Cursor::new(Vec::new()))),
            go_on: &|_| true,
        };
        let dump = Dump::begin(&engine, Vec::new(), &options).expect("memory takes everything");
        let (mut one, mut other) = (KeyWriter::new(&dump), KeyWriter::new(&dump));
        let small = || Content::String(b"v".into());
        one.add(item(b"large", large_stream()), |_, _| None).expect("kept");
        one.add(item(b"after", small()), |_, _| None).expect("written");
        other.add(item(b"other", small()), |_, _| None).expect("kept");
        other.end().expect("written");
        one.end().expect("written");
        let bytes = dump.end().expect("written");
        let mut reader = Reader::new(&bytes[..], 1 << 20).expect("a dump");
        let mut keys = Vec::new();
        loop {
            match reader.next().expect("each value is whole") {
                Record::Key { key, .. } => keys.push(key),
                Record::End => break,
                _ => {}
            }
        }
        assert_eq!(keys, [b"large", b"other", b"after"]);
    }
}
