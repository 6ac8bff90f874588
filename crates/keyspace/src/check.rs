//! Verifying a whole keyspace at rest: every checksum, every count, and that what is reachable is what is allocated.
//!
//! For `perdura check` and for tests: it takes as long as the pool is large, a shard at a time.

use heap::{CheckError as HeapError, Ptr, Shard, View};
use structures::Damaged;
use structures::index::{Index, Part};
use structures::reclaim::Queue;

use crate::Keyspace;
use crate::entry;
use crate::key::{DATABASES, Key};
use crate::layout::{
    Counts, EXPIRY_AT, KEY_LEN_AT, Kind, OWNER_KEYS, QUEUE_ROOT, counts_root, expiry_root,
    keys_root,
};

/// What a check went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Keys in all databases.
    pub keys: u64,
    /// Blocks that are reached, each once.
    pub blocks: u64,
}

/// What is wrong with a keyspace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The heap's own tables are.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// A structure is.
    #[error(transparent)]
    Structure(#[from] Damaged),
    /// An entry is.
    #[error(
        "damaged {what} of the entry at offset {at:#x}: expected {expected:#x}, found {found:#x}"
    )]
    Entry {
        /// What should be there.
        what: &'static str,
        /// The entry's byte offset in the pool.
        at: u64,
        /// What the rest of the entry says.
        expected: u64,
        /// What stands there.
        found: u64,
    },
    /// The counts of a database are not those of its indexes.
    #[error(
        "shard {shard}, database {db}: counted {found_keys} keys ({found_expiring} with an expiry time), \
         the pool says {keys} ({expiring})"
    )]
    Count {
        /// The shard.
        shard: usize,
        /// The physical database.
        db: usize,
        /// Keys, as the pool says.
        keys: u32,
        /// Keys with an expiry time, as the pool says.
        expiring: u32,
        /// Keys that there are.
        found_keys: u32,
        /// Keys with an expiry time that there are.
        found_expiring: u32,
    },
    /// A block is allocated but nothing leads to it.
    #[error("the block at offset {at:#x} is allocated and not reachable")]
    Lost {
        /// Its byte offset in the pool.
        at: u64,
    },
    /// Something leads to a block that is not allocated, or two things lead to one block.
    #[error("the block at offset {at:#x} is reached but not allocated, or reached twice")]
    Dangling {
        /// Its byte offset in the pool.
        at: u64,
    },
}

impl Keyspace {
    /// Verifies everything. The keyspace must be at rest: no other thread writes.
    pub fn check(&self) -> Result<Checked, CheckError> {
        let mut walk = Walk { keyspace: self, reached: Vec::new(), keys: 0 };
        for shard in 0..self.shards() {
            walk.shard(&self.heap().lock(shard))?;
        }
        walk.compare()
    }
}

struct Walk<'k> {
    keyspace: &'k Keyspace,
    reached: Vec<u64>,
    keys: u64,
}

impl Walk<'_> {
    fn shard(&mut self, shard: &Shard<'_>) -> Result<(), CheckError> {
        for db in 0..DATABASES as u8 {
            let entries = self.index(shard, keys_root(db))?;
            for &at in &entries {
                self.entry(shard, at)?;
            }
            let expiring = self.index(shard, expiry_root(db))?;
            for &at in &expiring {
                let known = u64::from(entries.binary_search(&at).is_ok());
                unless_equal("place in the index of keys", at, 1, known)?;
            }
            let with_expiry =
                entries.iter().filter(|&&at| shard.word(at.add(EXPIRY_AT)) != 0).count();
            let counts = Counts::decode(shard.word(shard.root(counts_root(db))));
            let found = (entries.len() as u32, expiring.len() as u32);
            if (counts.keys, counts.expiring) != found || with_expiry != expiring.len() {
                return Err(CheckError::Count {
                    shard: shard.id(),
                    db: usize::from(db),
                    keys: counts.keys,
                    expiring: counts.expiring,
                    found_keys: found.0,
                    found_expiring: with_expiry as u32,
                });
            }
            self.keys += entries.len() as u64;
        }
        self.queue(shard)
    }

    /// The entries of an index, in the order of their places; its blocks are reached.
    fn index(&mut self, shard: &Shard<'_>, root: usize) -> Result<Vec<Ptr>, CheckError> {
        let hashing = &self.keyspace.hashing;
        let mut entries = Vec::new();
        let reached = &mut self.reached;
        Index::at(shard.root(root)).check(
            shard,
            |at| entry::hash(shard, at, hashing),
            |part| match part {
                Part::Block(at) => reached.push(at.raw()),
                Part::Entry(at) => entries.push(at),
            },
        )?;
        entries.sort_unstable();
        Ok(entries)
    }

    fn entry(&mut self, shard: &Shard<'_>, at: Ptr) -> Result<(), CheckError> {
        self.reached.push(at.raw());
        entry::blobs(shard, at, |block| self.reached.push(block.raw()));
        entry::check(shard, at)?;
        let key = entry::key(shard, at);
        let crc = u64::from(crc32c::crc32c(&key));
        unless_equal("key", at, shard.word(at.add(KEY_LEN_AT)) >> 32, crc)?;
        let home = Key::new(&key, &self.keyspace.hashing, self.keyspace.shards()).shard();
        unless_equal("shard", at, home as u64, shard.id() as u64)?;
        let word = shard.word(at);
        match Kind::decode(word) {
            None => unless_equal("value word", at, 0, word),
            Some(Kind::Inline { len, crc, .. }) => {
                let found = crc32c::crc32c(entry::body(shard, at, len));
                unless_equal("value", at, u64::from(crc), u64::from(found))
            }
            Some(_) => Ok(()),
        }
    }

    fn queue(&mut self, shard: &Shard<'_>) -> Result<(), CheckError> {
        let hashing = &self.keyspace.hashing;
        let mut entries = Vec::new();
        let reached = &mut self.reached;
        Queue::at(shard.root(QUEUE_ROOT)).check(
            shard,
            |_, at| entry::hash(shard, at, hashing),
            |owner, part| match part {
                Part::Block(at) => reached.push(at.raw()),
                Part::Entry(at) if owner == OWNER_KEYS => entries.push(at),
                Part::Entry(_) => {}
            },
        )?;
        for at in entries {
            self.entry(shard, at)?;
        }
        Ok(())
    }

    fn compare(mut self) -> Result<Checked, CheckError> {
        self.reached.sort_unstable();
        let mut reached = self.reached.iter().copied().peekable();
        for block in self.keyspace.heap().allocated()? {
            let at = block.ptr.raw();
            match reached.next() {
                Some(found) if found == at => {}
                Some(found) if found < at => return Err(CheckError::Dangling { at: found }),
                _ => return Err(CheckError::Lost { at }),
            }
        }
        match reached.next() {
            Some(at) => Err(CheckError::Dangling { at }),
            None => Ok(Checked { keys: self.keys, blocks: self.reached.len() as u64 }),
        }
    }
}

fn unless_equal(what: &'static str, at: Ptr, expected: u64, found: u64) -> Result<(), CheckError> {
    if expected == found {
        return Ok(());
    }
    Err(CheckError::Entry { what, at: at.raw(), expected, found })
}
