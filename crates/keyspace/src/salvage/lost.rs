//! Keys to which no index leads any more: allocated blocks that nothing leads to, and that are
//! entries.

use std::collections::{HashMap, HashSet};

use heap::{Ptr, ROOTS, View};

use super::walk::Salvager;
use super::{SalvageFinding, SalvageStopped};
use crate::layout::LIBRARIES;
use crate::{Db, entry, verify};

/// The database of entries to which no index leads.
enum KeyLocation {
    Database(Db),
    Libraries,
}

impl Salvager<'_> {
    /// Searches for entries that no index led to, and copies them as far as their database is
    /// known.
    pub(super) fn search(&mut self) -> Result<(), SalvageStopped> {
        let mut found = self.unreached();
        for (shard, found) in found.iter_mut().enumerate() {
            // At most one of several entries with the same key is valid.
            let doubtful = self.repeated(found);
            self.roots(shard, found);
            match self.place(shard, found).filter(|_| doubtful.is_empty()) {
                Some(KeyLocation::Libraries) => {
                    found.iter().try_for_each(|&at| self.copy_library(at))?;
                }
                Some(KeyLocation::Database(db)) => {
                    for &at in found.iter() {
                        self.copy_found(db, at)?;
                    }
                }
                None => found.iter().try_for_each(|&at| self.unplaced(shard, at))?,
            }
            self.missing(shard, found.len() as u64);
        }
        Ok(())
    }

    /// Returns the sound entries that nothing led to, by their shard, without blocks that another
    /// of these entries owns.
    fn unreached(&mut self) -> Vec<Vec<Ptr>> {
        let mut found = vec![Vec::new(); self.pool.shards()];
        let mut owned = HashSet::new();
        for (at, capacity) in self.pool.allocated() {
            if self.marks.has(self.pool, at) {
                continue;
            }
            let seen = self.seen(at, capacity);
            let (Some(key), None) = (seen.key, seen.fault) else { continue };
            found[verify::shard(&key, self.pool.shards())].push(at);
            entry::owned(self.pool, at, |block| {
                owned.insert(block);
            });
        }
        found.iter_mut().for_each(|found| found.retain(|at| !owned.contains(at)));
        found.iter().flatten().for_each(|&at| self.mark_owned(at));
        found
    }

    fn repeated(&self, found: &[Ptr]) -> Vec<Ptr> {
        let mut names: HashMap<Vec<u8>, u64> = HashMap::new();
        for &at in found {
            *names.entry(entry::key(self.pool, at).into_owned()).or_default() += 1;
        }
        let is_repeated =
            |at: &&Ptr| names.get(&*entry::key(self.pool, **at)).is_some_and(|n| *n > 1);
        found.iter().filter(is_repeated).copied().collect()
    }

    /// Reports that the root words of a shard are lost, if all are zero and there are keys in the
    /// shard.
    fn roots(&mut self, shard: usize, found: &[Ptr]) {
        let pool = self.pool;
        let is_blank = (0..ROOTS).all(|n| pool.word(pool.root(shard, n)) == 0);
        if is_blank && !found.is_empty() {
            // The map of databases is one of the first shard's roots.
            (self.find)(SalvageFinding::Roots { shard, map: shard == 0 });
        }
    }

    /// Returns the database of the entries that were found in a shard, if there is only one
    /// candidate.
    fn place(&self, shard: usize, found: &[Ptr]) -> Option<KeyLocation> {
        match self.short[shard].as_slice() {
            &[(db, missing)] if found.len() as u64 <= missing && !self.lost_queues[shard] => {
                match db {
                    LIBRARIES => Some(KeyLocation::Libraries),
                    db => self.map.logical(db).map(KeyLocation::Database),
                }
            }
            _ => None,
        }
    }

    /// Reports how many keys of a shard are missing in addition to those that were found.
    fn missing(&mut self, shard: usize, mut found: u64) {
        for (db, missing) in std::mem::take(&mut self.short[shard]) {
            let keys = missing - found.min(missing);
            found -= found.min(missing);
            if keys > 0 {
                self.done.lost += keys;
                let db = self.map.number(db);
                (self.find)(SalvageFinding::Missing { shard, db, keys });
            }
        }
    }
}
