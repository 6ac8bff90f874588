//! Perdura's library.

use std::path::Path;
use std::time::Duration;

use perdura::Strings;
use perdura::prelude::*;
use perdura::{DomainRequest, Durability, Options, Perdura, Snapshot, Table};

use super::MAP_SIZE;
use crate::child::MEMORY;
use crate::data::Key;
use crate::store::{Failure, Result, Store, View};

/// The table of rows: the order that other stores have anyway.
const ROWS: &str = "rows";

fn open(options: Options) -> Result<Box<dyn Store>> {
    Ok(Box::new(Perdura::open(options.limit(MAP_SIZE))?))
}

fn pool(folder: &Path, domain: DomainRequest) -> Options {
    Options::new(folder.join("perdura.pool")).domain(domain)
}

/// Flushes and fences of persistent memory, on memory that is not.
pub fn emulated(folder: &Path) -> Result<Box<dyn Store>> {
    open(pool(folder, DomainRequest::Clwb).emulate_pmem(true))
}

/// A journal, which is synced before each call returns.
pub fn journal(folder: &Path) -> Result<Box<dyn Store>> {
    open(pool(folder, DomainRequest::Journal))
}

/// A journal, which is synced each second.
pub fn interval(folder: &Path) -> Result<Box<dyn Store>> {
    let every = Durability::Interval(Duration::from_secs(1));
    open(pool(folder, DomainRequest::Journal).durability(every))
}

/// A journal in memory, used as persistent memory is, of a pool that is elsewhere; next to the pool
/// where nobody names a folder in memory.
pub fn journal_in_memory(folder: &Path) -> Result<Box<dyn Store>> {
    let memory = std::env::var_os(MEMORY).unwrap_or_else(|| folder.into());
    let journal = Path::new(&memory).join("perdura.journal");
    open(pool(folder, DomainRequest::Journal).journal(journal).emulate_pmem(true))
}

/// `msync` before each commit returns.
pub fn msync(folder: &Path) -> Result<Box<dyn Store>> {
    open(pool(folder, DomainRequest::Msync))
}

/// Nothing is flushed: the kernel keeps the pages when the process ends.
pub fn process(folder: &Path) -> Result<Box<dyn Store>> {
    open(pool(folder, DomainRequest::Process))
}

/// In DRAM.
pub fn volatile(_: &Path) -> Result<Box<dyn Store>> {
    open(Options::volatile())
}

impl Store for Perdura {
    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        Ok(self.set(key, value)?)
    }

    fn put_all(&self, entries: &[(Key, &[u8])]) -> Result<()> {
        let keys: Vec<&Key> = entries.iter().map(|(key, _)| key).collect();
        self.try_transaction(&keys, |tx| {
            entries.iter().try_for_each(|(key, value)| tx.set(key, value))?;
            Ok::<_, Failure>(())
        })
    }

    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.get_with(key, look)?)
    }

    fn put_rows(&self, entries: &[(Key, &[u8])]) -> Result<()> {
        self.try_transaction(&[ROWS], |tx| {
            let rows: Table<Vec<u8>, Vec<u8>, _> = tx.table(ROWS);
            for (key, value) in entries {
                rows.insert(key, value)?;
            }
            Ok::<_, Failure>(())
        })
    }

    fn range(&self, from: &Key, count: usize, look: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let rows: Table<Vec<u8>, Vec<u8>> = self.table(ROWS);
        let mut shown = 0;
        for row in rows.range(from.as_slice()..).take(count) {
            look(&row?.1);
            shown += 1;
        }
        Ok(shown)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn View + '_>>> {
        Ok(Some(Box::new(Perdura::snapshot(self)?)))
    }
}

impl View for Snapshot<&Perdura> {
    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = Strings::get(self, key)?;
        Ok(value.is_some_and(|value| {
            look(&value);
            true
        }))
    }
}
