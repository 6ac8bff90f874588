//! The walk through one shard: its indexes, entries and free queue, and the allocated blocks that
//! none of them reach.
//!
//! Bytes are verified before their references are followed: a damaged blob reaches nothing, so it
//! cannot make the blocks of another key look as if they were in use twice.

use std::borrow::Cow;

use heap::{Block, Ledger, Ptr, Reached, Shard, View};
use structures::index::{Index, Near, WalkItem};

use crate::collection::Deep;
use crate::entry;
use crate::layout::{
    Counts, FieldCounts, LIBRARIES, QUEUE_ROOT, counts_root, expiry_root, fields_root, keys_root,
    physical_databases,
};
use crate::shared::Shared;
use crate::verify::{self, Fault, Seen};
use crate::{CheckError, Checked, DamagedKey, queued, short};

/// How many entries ahead the first cache lines of an entry are prefetched.
const PREFETCH_DISTANCE: usize = 16;

pub(crate) struct Walk<'w, 'h> {
    shared: &'w Shared,
    shard: &'w Shard<'h>,
    ledger: Ledger<'h>,
    read: &'w dyn Fn(u64),
    problem: &'w mut dyn FnMut(CheckError),
    checked: Checked,
    /// The entries with sound keys, if the caller wants them.
    sound: Option<Vec<Sound>>,
}

/// An entry whose key is sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sound {
    pub(crate) db: u8,
    pub(crate) at: Ptr,
    pub(crate) hash: u64,
    pub(crate) expires: bool,
}

/// The entries of one index, in the order of their offsets.
pub(crate) type Entries = Vec<(Ptr, Near)>;

impl<'w, 'h> Walk<'w, 'h> {
    pub(crate) fn new(
        shared: &'w Shared,
        shard: &'w Shard<'h>,
        read: &'w dyn Fn(u64),
        problem: &'w mut dyn FnMut(CheckError),
    ) -> Walk<'w, 'h> {
        let ledger = Ledger::of(shard, &mut |error| problem(CheckError::Heap(error)));
        Walk { read, ..Walk::over(shared, shard, ledger, problem) }
    }

    /// Returns a walk for which `ledger` says which blocks are allocated.
    pub(crate) fn over(
        shared: &'w Shared,
        shard: &'w Shard<'h>,
        ledger: Ledger<'h>,
        problem: &'w mut dyn FnMut(CheckError),
    ) -> Walk<'w, 'h> {
        let checked = Checked::default();
        Walk { shared, shard, ledger, read: &|_| {}, problem, checked, sound: None }
    }

    pub(crate) fn run(mut self) -> Checked {
        self.reach_all();
        for block in self.ledger.unreached() {
            let (at, bytes) = (block.ptr.raw(), block.capacity as u64);
            (self.problem)(CheckError::Lost { at, bytes });
        }
        self.checked
    }

    /// Returns the entries with sound keys, and the allocated blocks that were not reached.
    pub(crate) fn collect(mut self) -> (Vec<Sound>, Vec<Block>) {
        self.sound = Some(Vec::new());
        self.reach_all();
        (self.sound.unwrap_or_default(), self.ledger.unreached().collect())
    }

    /// Returns the ledger, in which every block that was reached is marked.
    pub(crate) fn reached(mut self) -> Ledger<'h> {
        self.reach_all();
        self.ledger
    }

    fn reach_all(&mut self) {
        for db in physical_databases() {
            self.database(db);
        }
        self.queue();
    }

    fn logical(&self, db: u8) -> usize {
        self.shared.logical_of(db)
    }

    fn database(&mut self, db: u8) {
        let entries = self.index(db, false);
        let expiring = self.index(db, true);
        let mut with_expiry = Vec::new();
        let mut keys = 0;
        for (number, &(at, near)) in entries.iter().enumerate() {
            if let Some(&(ahead, _)) = entries.get(number + PREFETCH_DISTANCE) {
                self.shard.prefetch(ahead);
                self.shard.prefetch(ahead.add(64));
            }
            keys += 1;
            if self.entry(db, at, near) {
                with_expiry.push(at);
            }
        }
        self.compare_expiry(db, &with_expiry, &expiring);
        let counts = Counts::decode(self.shard.word(self.shard.root(counts_root(db))));
        let found = (keys, expiring.len() as u32);
        if (counts.keys, counts.expiring) != found {
            let (shard, db) = (self.shard.id(), self.logical(db));
            (self.problem)(CheckError::Count {
                shard,
                db,
                keys: counts.keys,
                expiring: counts.expiring,
                found_keys: found.0,
                found_expiring: found.1,
            });
        }
        let hashes = with_expiry.iter().fold(FieldCounts::default(), |counts, &at| {
            counts.plus(FieldCounts::of(entry::expiry_word(self.shard, at)))
        });
        if self.shard.word(self.shard.root(fields_root(db))) != hashes.encode() {
            let (shard, db) = (self.shard.id(), self.logical(db));
            (self.problem)(CheckError::Fields { shard, db, found: hashes.hashes });
        }
        match db {
            LIBRARIES => self.checked.libraries += u64::from(keys),
            _ => self.checked.keys += u64::from(keys),
        }
        self.checked.expiring += expiring.len() as u64;
    }

    /// Returns the slots of an index, and marks the index's blocks as reached.
    fn index(&mut self, db: u8, expiry: bool) -> Entries {
        let root = if expiry { expiry_root(db) } else { keys_root(db) };
        let (id, logical) = (self.shard.id(), self.logical(db));
        let mut entries = Entries::new();
        let Walk { ledger, shard, problem, checked, read, .. } = self;
        Index::at(shard.root(root)).salvage_walk(*shard, |found| {
            match found {
                WalkItem::Block(at, bytes) => {
                    let sound = matches!(ledger.reach(at), Reached::First(block_capacity) if block_capacity >= bytes);
                    if sound {
                        checked.blocks += 1;
                        checked.bytes += bytes as u64;
                        read(bytes as u64);
                    }
                    return sound;
                }
                WalkItem::Entry(slot, near) => entries.push((slot.entry(), near)),
                WalkItem::Damage(source) => {
                    problem(CheckError::Index { shard: id, db: logical, expiry, source });
                }
            }
            true
        });
        entries.sort_unstable_by_key(|(at, _)| *at);
        entries
    }

    /// Verifies an entry of an index of keys. Returns true if it has an expiry time.
    fn entry(&mut self, db: u8, at: Ptr, near: Near) -> bool {
        let Some(capacity) =
            self.ledger.capacity(at).filter(|&block_capacity| block_capacity >= short::LEAST)
        else {
            self.nowhere(db, at, near);
            return false;
        };
        let seen = self.seen(at, capacity).by(near, &self.shared.hashing);
        if let Some(fault) = seen.fault {
            self.ledger.reach(at);
            self.keep_named(db, at, near, &seen);
            self.damaged(db, at, near, seen.key.map(Cow::into_owned), fault);
            return seen.expires;
        }
        let key = seen.key.unwrap_or_default();
        let (hash, home) = verify::place(&key, &self.shared.hashing, self.shared.shards());
        if !near.fits(hash) || home != self.shard.id() {
            // The entry is sound, so the slot that leads to it is wrong.
            self.wrong_slot(db, at, near, hash);
            return false;
        }
        self.reach(at, capacity);
        if let Some(sound) = &mut self.sound {
            sound.push(Sound { db, at, hash, expires: seen.expires });
        }
        let mut blocks = Vec::new();
        entry::owned(self.shard, at, |block| blocks.push(block));
        for block in blocks {
            let block_capacity = self.ledger.capacity(block).unwrap_or(0);
            self.reach(block, block_capacity);
        }
        seen.expires
    }

    fn seen(&self, at: Ptr, capacity: usize) -> Seen<'w> {
        let block_capacity = |at| self.ledger.capacity(at).unwrap_or(0);
        let deep = Deep { hashing: Some(&self.shared.hashing), block_capacity: &block_capacity };
        verify::entry(self.shard, at, capacity, Some(deep))
    }

    /// Keeps a damaged entry whose name is still readable among the sound ones.
    fn keep_named(&mut self, db: u8, at: Ptr, near: Near, seen: &Seen<'_>) {
        let (Some(sound), Some(key)) = (&mut self.sound, &seen.key) else { return };
        let hash = self.shared.hashing.hash(key);
        if near.fits(hash) {
            sound.push(Sound { db, at, hash, expires: seen.expires });
        }
    }

    fn wrong_slot(&mut self, db: u8, at: Ptr, near: Near, hash: u64) {
        let (shard, db) = (self.shard.id(), self.logical(db));
        let source = structures::Damaged::new("index slot", at, near.hash(), hash);
        (self.problem)(CheckError::Index { shard, db, expiry: false, source });
    }

    /// Reports a slot that leads to where no block is allocated: either the slot is wrong, or the
    /// bitmap is.
    fn nowhere(&mut self, db: u8, at: Ptr, near: Near) {
        let block_capacity =
            self.ledger.block_size(at).filter(|&block_capacity| block_capacity >= short::LEAST);
        let seen = block_capacity.map(|block_capacity| self.seen(at, block_capacity));
        let hash = seen.and_then(|seen| seen.key.filter(|_| seen.fault.is_none()));
        let hash = hash.map(|key| verify::place(&key, &self.shared.hashing, 1).0);
        match hash {
            Some(hash) if near.fits(hash) => {
                self.unallocated(at);
            }
            found => self.wrong_slot(db, at, near, found.unwrap_or(0)),
        }
    }

    fn reach(&mut self, at: Ptr, bytes: usize) {
        match self.ledger.reach(at) {
            Reached::First(_) => {
                self.checked.blocks += 1;
                self.checked.bytes += bytes as u64;
                (self.read)(bytes as u64);
            }
            Reached::Nothing if self.ledger.block_size(at).is_some() => self.unallocated(at),
            _ => (self.problem)(CheckError::Dangling { at: at.raw() }),
        }
    }

    fn unallocated(&mut self, at: Ptr) {
        (self.problem)(CheckError::Unallocated { shard: self.shard.id(), at: at.raw() });
    }

    fn damaged(&mut self, db: u8, at: Ptr, near: Near, key: Option<Vec<u8>>, fault: Fault) {
        let hash = match &key {
            Some(key) => self.shared.hashing.hash(key),
            None => near.hash(),
        };
        let (shard, db) = (self.shard.id(), self.logical(db));
        (self.problem)(CheckError::Key(DamagedKey {
            shard,
            db,
            bits: if key.is_some() { 64 } else { near.bits() },
            key,
            entry: at.raw(),
            what: fault.what,
            at: fault.at,
            hash,
        }));
    }

    fn compare_expiry(&mut self, db: u8, with_expiry: &[Ptr], listed: &Entries) {
        let (shard, db) = (self.shard.id(), self.logical(db));
        let mut differs = |at: Ptr, listed| {
            (self.problem)(CheckError::Expiry { shard, db, at: at.raw(), listed });
        };
        let mut listed = listed.iter().map(|(at, _)| *at).peekable();
        for &at in with_expiry {
            while let Some(other) = listed.next_if(|&other| other < at) {
                differs(other, true);
            }
            if listed.next_if_eq(&at).is_none() {
                differs(at, false);
            }
        }
        listed.for_each(|other| differs(other, true));
    }

    fn queue(&mut self) {
        let hashing = &self.shared.hashing;
        let root = self.shard.root(QUEUE_ROOT);
        let (blocks, checked) = queued::blocks(self.shard, root, |key| hashing.hash(key));
        if let Err(source) = checked {
            (self.problem)(CheckError::Queue { shard: self.shard.id(), source });
        }
        for at in blocks {
            let block_capacity = self.ledger.capacity(at).unwrap_or(0);
            self.reach(at, block_capacity);
        }
    }
}
