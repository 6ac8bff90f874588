//! The walk through a salvaged pool: indexes, entries, free queues.
//!
//! Only allocated blocks are read, and each block of an index is read once, so the walk ends
//! whatever the bytes are. An entry is used only after all of it was verified.

use heap::{Marks, Ptr, Salvage, View};
use structures::Damaged;
use structures::index::{Index, Near, WalkItem};

use super::{Map, SalvageFinding, SalvageOptions, SalvageStopped, Salvaged};
use crate::collection::Deep;
use crate::key::Hashing;
use crate::layout::{
    Counts, LIBRARIES, QUEUE_ROOT, counts_root, expiry_root, keys_root, physical_databases,
};
use crate::verify::{self, Seen};
use crate::{DamagedKey, Db, Keyspace, entry, queued, short};

/// The approximate number of entries that are sampled to verify the seed of the hash.
const SAMPLES: u32 = 256;

pub(super) struct Salvager<'s> {
    pub(super) pool: &'s Salvage,
    pub(super) to: &'s Keyspace,
    pub(super) options: SalvageOptions,
    pub(super) hashing: Option<Hashing>,
    pub(super) map: Map,
    pub(super) read: &'s dyn Fn(u64),
    pub(super) find: &'s mut dyn FnMut(SalvageFinding),
    pub(super) marks: Marks,
    pub(super) done: Salvaged,
    /// For each shard, the physical databases whose index misses keys, and how many each misses.
    pub(super) short: Vec<Vec<(u8, u64)>>,
    /// For each shard, whether its free queue is damaged.
    pub(super) lost_queues: Vec<bool>,
}

/// The result of walking one index.
#[derive(Default)]
struct Walked {
    /// The entries in the order of their offsets.
    entries: Vec<(Ptr, Near)>,
    /// The first damage of the index.
    damage: Option<Damaged>,
    /// The number of entries to which a correct slot leads, damaged ones included.
    found: u64,
    /// The entries of the index of expiry times in the order of their offsets, if that index is
    /// whole.
    listed: Option<Vec<Ptr>>,
}

impl Salvager<'_> {
    pub(super) fn run(&mut self) -> Result<(), SalvageStopped> {
        for shard in 0..self.pool.shards() {
            for db in physical_databases() {
                self.database(shard, db)?;
            }
        }
        for shard in 0..self.pool.shards() {
            self.queue(shard);
        }
        self.search()
    }

    fn database(&mut self, shard: usize, db: u8) -> Result<(), SalvageStopped> {
        let root = self.pool.root(shard, keys_root(db));
        let mut walked = self.index(root);
        walked.listed = self.listed(shard, db);
        for (at, near) in std::mem::take(&mut walked.entries) {
            self.entry(shard, db, at, near, &mut walked)?;
        }
        let counted = u64::from(self.counts(shard, db).keys);
        let number = self.map.number(db);
        let is_whole = walked.damage.is_none() && self.pool.word(root) != 0;
        if is_whole && counted != walked.found {
            let found = walked.found;
            (self.find)(SalvageFinding::Count { shard, db: number, counted, found });
        }
        if !is_whole && counted > walked.found {
            self.short[shard].push((db, counted - walked.found));
        }
        if let Some(source) = walked.damage {
            (self.find)(SalvageFinding::Index { shard, db: number, source });
        }
        Ok(())
    }

    fn counts(&self, shard: usize, db: u8) -> Counts {
        Counts::decode(self.pool.word(self.pool.root(shard, counts_root(db))))
    }

    /// Returns the entries of the index of expiry times, if it is whole.
    fn listed(&mut self, shard: usize, db: u8) -> Option<Vec<Ptr>> {
        let walked = self.index(self.pool.root(shard, expiry_root(db)));
        let is_whole = walked.damage.is_none()
            && walked.entries.len() as u64 == u64::from(self.counts(shard, db).expiring);
        is_whole.then(|| walked.entries.into_iter().map(|(at, _)| at).collect())
    }

    /// Returns the slots of an index, and marks the index's blocks.
    fn index(&mut self, root: Ptr) -> Walked {
        let mut walked = Walked::default();
        let (pool, marks, read) = (self.pool, &mut self.marks, self.read);
        Index::at(root).salvage_walk(pool, |found| {
            match found {
                WalkItem::Block(at, bytes) => {
                    let is_block = pool.capacity(at) >= bytes && marks.mark(pool, at);
                    read(if is_block { bytes as u64 } else { 0 });
                    return is_block;
                }
                WalkItem::Entry(slot, near) => walked.entries.push((slot.entry(), near)),
                WalkItem::Damage(source) => drop(walked.damage.get_or_insert(source)),
            }
            true
        });
        walked.entries.sort_unstable_by_key(|(at, _)| *at);
        walked
    }

    /// Verifies the entry that a slot of an index leads to, and copies it.
    fn entry(
        &mut self,
        shard: usize,
        db: u8,
        at: Ptr,
        near: Near,
        walked: &mut Walked,
    ) -> Result<(), SalvageStopped> {
        let capacity = self.pool.capacity(at);
        let mut wrong = |found| {
            walked.damage.get_or_insert(Damaged::new("index slot", at, near.hash(), found));
        };
        if capacity < short::LEAST || !self.marks.mark(self.pool, at) {
            wrong(0);
            return Ok(());
        }
        let seen = self.seen(at, capacity).owned();
        let seen = match &self.hashing {
            Some(hashing) => seen.by(near, hashing),
            None => seen,
        };
        if let Some(fault) = seen.fault {
            walked.found += 1;
            self.done.lost += 1;
            (self.find)(SalvageFinding::Key(DamagedKey {
                shard,
                db: self.map.number(db),
                key: seen.key.map(std::borrow::Cow::into_owned),
                entry: at.raw(),
                what: fault.what,
                at: fault.at,
                hash: near.hash(),
                bits: near.bits(),
            }));
            return Ok(());
        }
        let key = seen.key.unwrap_or_default();
        let home = verify::shard(&key, self.pool.shards());
        let hash = self.hashing.as_ref().map(|hashing| hashing.hash(&key));
        if home != shard || hash.is_some_and(|hash| !near.fits(hash)) {
            // The entry is sound, so the slot that leads to it is wrong.
            wrong(hash.unwrap_or(0));
            return Ok(());
        }
        walked.found += 1;
        self.mark_owned(at);
        if db == LIBRARIES {
            return self.copy_library(at);
        }
        match self.map.logical(db) {
            Some(db) => {
                let time = self.time(shard, db, at, walked);
                self.copy(db, at, time)
            }
            None => self.unplaced(shard, at),
        }
    }

    /// Returns when an entry expires (0: never). If the entry contradicts an index of expiry times
    /// that is whole, reports this and returns 0.
    fn time(&mut self, shard: usize, db: Db, at: Ptr, walked: &Walked) -> u64 {
        let word = entry::expiry_word(self.pool, at);
        let listed = walked.listed.as_ref().map(|listed| listed.binary_search(&at).is_ok());
        if listed.is_none_or(|listed| listed == (word != 0)) {
            return entry::expiry(self.pool, at);
        }
        let key = entry::key(self.pool, at).into_owned();
        (self.find)(SalvageFinding::Time { shard, db: db.number(), key, at: at.raw() });
        0
    }

    pub(super) fn seen(&self, at: Ptr, capacity: usize) -> Seen<'_> {
        let block_capacity = |at| self.pool.capacity(at);
        let deep = Deep { hashing: self.hashing.as_ref(), block_capacity: &block_capacity };
        verify::entry(self.pool, at, capacity, Some(deep))
    }

    /// Marks the blocks that a sound entry owns.
    pub(super) fn mark_owned(&mut self, at: Ptr) {
        let (pool, marks) = (self.pool, &mut self.marks);
        let mut bytes = pool.capacity(at) as u64;
        entry::owned(pool, at, |block| {
            if marks.mark(pool, block) {
                bytes += pool.capacity(block) as u64;
            }
        });
        (self.read)(bytes);
    }

    /// Marks the blocks that wait to be freed: they are allocated, but belong to no key any more.
    fn queue(&mut self, shard: usize) {
        let (pool, hashing) = (self.pool, self.hashing.as_ref());
        let hash = |key: &[u8]| hashing.map_or(0, |hashing| hashing.hash(key));
        let (blocks, checked) = queued::blocks(pool, pool.root(shard, QUEUE_ROOT), hash);
        if let Err(source) = checked {
            self.lost_queues[shard] = true;
            (self.find)(SalvageFinding::Queue { shard, source });
        }
        for at in blocks {
            self.marks.mark(pool, at);
        }
    }
}

/// Returns true if this hash placed the entries of a pool, that is, if at least half of a sample of
/// sound entries are where the hash places them.
pub(super) fn leads_to_keys(pool: &Salvage, hashing: &Hashing) -> bool {
    let (mut fit, mut differ) = (0, 0);
    let mut marks = Marks::default();
    for shard in 0..pool.shards() {
        for db in physical_databases() {
            Index::at(pool.root(shard, keys_root(db))).salvage_walk(pool, |found| match found {
                WalkItem::Block(at, bytes) => {
                    fit + differ < SAMPLES && pool.capacity(at) >= bytes && marks.mark(pool, at)
                }
                WalkItem::Entry(slot, near) => {
                    let capacity = pool.capacity(slot.entry());
                    let seen = (capacity >= short::LEAST)
                        .then(|| verify::entry(pool, slot.entry(), capacity, None));
                    if let Some(key) = seen.and_then(|seen| seen.key)
                        && verify::shard(&key, pool.shards()) == shard
                    {
                        let fits = near.fits(hashing.hash(&key));
                        *(if fits { &mut fit } else { &mut differ }) += 1;
                    }
                    true
                }
                WalkItem::Damage(_) => true,
            });
        }
    }
    fit >= differ
}
