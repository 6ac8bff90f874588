//! LMDB, through heed: a copy-on-write B-tree that is mapped, with one writer at a time.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithTls};

use super::MAP_SIZE;
use crate::data::Key;
use crate::store::{Result, Store, View};

struct Lmdb {
    env: Env,
    table: Database<Bytes, Bytes>,
}

/// Every commit is on the disk.
pub fn durable(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, EnvFlags::empty())
}

/// A commit is written to the file and not synced.
pub fn relaxed(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, EnvFlags::NO_SYNC)
}

fn open(folder: &Path, flags: EnvFlags) -> Result<Box<dyn Store>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(usize::try_from(MAP_SIZE)?);
    // SAFETY: what NO_SYNC risks is the file after a power loss; there is none here.
    unsafe { options.flags(flags) };
    // SAFETY: the folder is this measurement's own: nobody else changes the file while it is
    // mapped.
    let env = unsafe { options.open(folder)? };
    let mut write = env.write_txn()?;
    let table = env.create_database(&mut write, None)?;
    write.commit()?;
    Ok(Box::new(Lmdb { env, table }))
}

impl Store for Lmdb {
    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.put_all(&[(*key, value)])
    }

    fn put_all(&self, entries: &[(Key, &[u8])]) -> Result<()> {
        let mut write = self.env.write_txn()?;
        for (key, value) in entries {
            self.table.put(&mut write, key, value)?;
        }
        Ok(write.commit()?)
    }

    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let read = self.env.read_txn()?;
        Ok(self.table.get(&read, key)?.is_some_and(|value| {
            look(value);
            true
        }))
    }

    fn range(&self, from: &Key, count: usize, look: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let read = self.env.read_txn()?;
        let rows = (Bound::Included(from.as_slice()), Bound::Unbounded);
        let mut shown = 0;
        for row in self.table.range(&read, &rows)?.take(count) {
            look(row?.1);
            shown += 1;
        }
        Ok(shown)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn View + '_>>> {
        Ok(Some(Box::new(LmdbView { read: self.env.read_txn()?, of: self.table })))
    }
}

struct LmdbView<'s> {
    read: RoTxn<'s, WithTls>,
    of: Database<Bytes, Bytes>,
}

impl View for LmdbView<'_> {
    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.of.get(&self.read, key)?.is_some_and(|value| {
            look(value);
            true
        }))
    }
}
