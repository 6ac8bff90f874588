//! RocksDB: a log-structured merge tree after a write-ahead log.

use std::path::Path;

use rocksdb::{
    DB, DBCompressionType, Direction, IteratorMode, Options, Snapshot, WriteBatch, WriteOptions,
};

use crate::data::Key;
use crate::store::{Result, Store, View};

struct RocksDb {
    db: DB,
    write: WriteOptions,
}

/// The log is synced after each write.
pub fn durable(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, true)
}

/// The log is written, and not synced.
pub fn relaxed(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, false)
}

fn open(folder: &Path, sync: bool) -> Result<Box<dyn Store>> {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    let mut write = WriteOptions::default();
    write.set_sync(sync);
    Ok(Box::new(RocksDb { db: DB::open(&options, folder.join("rocksdb"))?, write }))
}

impl Store for RocksDb {
    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        Ok(self.db.put_opt(key, value, &self.write)?)
    }

    fn put_all(&self, entries: &[(Key, &[u8])]) -> Result<()> {
        let mut batch = WriteBatch::default();
        entries.iter().for_each(|(key, value)| batch.put(key, value));
        Ok(self.db.write_opt(batch, &self.write)?)
    }

    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.db.get_pinned(key)?.is_some_and(|value| {
            look(&value);
            true
        }))
    }

    fn range(&self, from: &Key, count: usize, look: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let mut shown = 0;
        for row in self.db.iterator(IteratorMode::From(from, Direction::Forward)).take(count) {
            look(&row?.1);
            shown += 1;
        }
        Ok(shown)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn View + '_>>> {
        Ok(Some(Box::new(self.db.snapshot())))
    }
}

impl View for Snapshot<'_> {
    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(Snapshot::get(self, key)?.is_some_and(|value| {
            look(&value);
            true
        }))
    }
}
