//! Perdura's library.

use std::path::Path;
use std::time::Duration;

use perdura::prelude::*;
use perdura::{DomainRequest, Durability, Options, Perdura};

use super::MAP_SIZE;
use crate::data::Key;
use crate::store::{Failure, Result, Store};

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
        self.transaction(&keys, |tx| {
            entries.iter().try_for_each(|(key, value)| tx.set(key, value))?;
            Ok::<_, Failure>(())
        })
    }

    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.get_with(key, look)?)
    }
}
