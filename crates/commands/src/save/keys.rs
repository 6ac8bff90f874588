//! The keys that one thread writes, each with its value, which may come in parts.

use std::io::Write;

use keyspace::{Db, Item, Policy};
use rdb::{FileWriter, Usage};

use super::file::{Dump, Pieces};
use super::value::{Encoder, Value};
use crate::save_options::SaveError;

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
    /// Has no checksum: the file as a whole has one.
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

    /// Adds a key, or a part of the one before.
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

    /// Writes the key whose value is complete now.
    fn close(&mut self) -> Result<(), SaveError> {
        let Some(Open { db, key, expiry, usage, value }) = self.open.take() else { return Ok(()) };
        // Damage can leave a collection without elements, which is nothing that exists.
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
        to.flush_full()?;
        to.to_mut().release();
        self.dump.count()
    }

    /// Writes what is left.
    pub(super) fn end(mut self) -> Result<(), SaveError> {
        self.close()?;
        Ok(self.to.flush()?)
    }
}
