//! fjall: a log-structured merge tree after a journal.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};

use crate::data::Key;
use crate::store::{Result, Store, View};

struct Fjall {
    database: Database,
    keyspace: Keyspace,
    mode: PersistMode,
}

/// The journal is synced by `fdatasync` after each write.
pub fn durable(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, PersistMode::SyncData)
}

/// The journal is written, and not synced.
pub fn relaxed(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, PersistMode::Buffer)
}

fn open(folder: &Path, mode: PersistMode) -> Result<Box<dyn Store>> {
    let database = Database::builder(folder.join("fjall")).open()?;
    let keyspace = database.keyspace("data", KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall { database, keyspace, mode }))
}

impl Store for Fjall {
    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.keyspace.insert(key.as_slice(), value)?;
        // The insertion has handed it to the kernel.
        if self.mode != PersistMode::Buffer {
            self.database.persist(self.mode)?;
        }
        Ok(())
    }

    fn put_all(&self, entries: &[(Key, &[u8])]) -> Result<()> {
        let mut batch = self.database.batch().durability(Some(self.mode));
        for (key, value) in entries {
            batch.insert(&self.keyspace, key.as_slice(), *value);
        }
        Ok(batch.commit()?)
    }

    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.keyspace.get(key)?.is_some_and(|value| {
            look(&value);
            true
        }))
    }

    fn range(&self, from: &Key, count: usize, look: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let mut shown = 0;
        for row in self.keyspace.range(from.as_slice()..).take(count) {
            look(&row.value()?);
            shown += 1;
        }
        Ok(shown)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn View + '_>>> {
        Ok(Some(Box::new(FjallView { snapshot: self.database.snapshot(), of: &self.keyspace })))
    }
}

struct FjallView<'s> {
    snapshot: Snapshot,
    of: &'s Keyspace,
}

impl View for FjallView<'_> {
    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.snapshot.get(self.of, key)?.is_some_and(|value| {
            look(&value);
            true
        }))
    }
}
