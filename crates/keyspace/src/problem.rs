//! The results of a check: figures, and a text for each problem. Also the reasons why a repair ends
//! early.

use heap::{CheckError as HeapError, CommitError};
use structures::Damaged;

use crate::layout::LIBRARIES;

/// The totals of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Keys in all databases.
    pub keys: u64,
    /// Keys with an expiry time.
    pub expiring: u64,
    /// Function libraries.
    pub libraries: u64,
    /// Reachable blocks, each counted once.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub bytes: u64,
}

impl Checked {
    /// Adds the totals of another shard.
    pub fn add(&mut self, other: Checked) {
        self.keys += other.keys;
        self.expiring += other.expiring;
        self.libraries += other.libraries;
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }
}

/// A database as messages name it: by the number that clients know, or as the function libraries.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseName(pub usize);

impl std::fmt::Display for DatabaseName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 == usize::from(LIBRARIES) {
            true => f.write_str("function libraries"),
            false => write!(f, "database {}", self.0),
        }
    }
}

/// A key whose bytes are not those that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedKey {
    /// The shard that it is in.
    pub shard: usize,
    /// The database, as clients number it.
    pub db: usize,
    /// Its name, if that is sound.
    pub key: Option<Vec<u8>>,
    /// Byte offset in the pool of its entry.
    pub entry: u64,
    /// Which part of it is damaged.
    pub what: &'static str,
    /// Byte offset in the pool of the damaged part.
    pub at: u64,
    /// A hash with which a lookup reaches its slot in the index of keys.
    pub(crate) hash: u64,
    /// How many bits of `hash` are known to be those of the key's hash.
    pub(crate) bits: u32,
}

impl std::fmt::Display for DamagedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{}, key \"{}\": ", DatabaseName(self.db), key.escape_ascii())?,
            None => write!(f, "{}, a key whose name is lost: ", DatabaseName(self.db))?,
        }
        write!(f, "damaged {} at offset {:#x} (entry at {:#x})", self.what, self.at, self.entry)
    }
}

/// The reason why a repair ended early. What it had repaired before stays repaired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Something is damaged that cannot be rebuilt from anything else.
    #[error(
        "cannot be repaired: {0}; `perdura salvage POOL --to NEW` copies what is sound into a new \
         pool"
    )]
    Metadata(String),
    /// There is no space for the rebuilt structures.
    #[error(
        "the pool has no free space for the repair: let it grow (--pool-size), or delete keys first"
    )]
    Full,
    /// A transaction failed.
    #[error("a repair could not be written: {0}")]
    Commit(#[from] CommitError),
}

/// A problem of a keyspace that a check found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// A problem of the heap's own tables.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// A key is damaged.
    #[error("{0}")]
    Key(DamagedKey),
    /// An index is damaged: some of its keys may not be found.
    #[error("shard {shard}, {}, index of {}: {source}", DatabaseName(*db), kind(*expiry))]
    Index {
        /// The shard.
        shard: usize,
        /// The database, as clients number it.
        db: usize,
        /// Whether it is the index of keys with an expiry time.
        expiry: bool,
        /// The damage that was found.
        source: Damaged,
    },
    /// The free queue is damaged: the space of the blocks that it led to is lost.
    #[error("shard {shard}, free queue: {source}")]
    Queue {
        /// The shard.
        shard: usize,
        /// The damage that was found.
        source: Damaged,
    },
    /// An entry has an expiry time and is not in the index of expiry times, or the other way round.
    #[error(
        "shard {shard}, {}: the entry at offset {at:#x} {}",
        DatabaseName(*db),
        if *listed { "has no expiry time and is in the index of those that do" }
        else { "has an expiry time and is missing from the index of those that do" }
    )]
    Expiry {
        /// The shard.
        shard: usize,
        /// The database, as clients number it.
        db: usize,
        /// The entry's byte offset in the pool.
        at: u64,
        /// Whether the entry is in the index.
        listed: bool,
    },
    /// The counts of a database differ from its indexes.
    #[error(
        "shard {shard}, {}: counted {found_keys} keys ({found_expiring} with an expiry time), \
         the pool says {keys} ({expiring})",
        DatabaseName(*db)
    )]
    Count {
        /// The shard.
        shard: usize,
        /// The database, as clients number it.
        db: usize,
        /// The number of keys that the pool records.
        keys: u32,
        /// The number of keys with an expiry time that the pool records.
        expiring: u32,
        /// The number of keys that the check found.
        found_keys: u32,
        /// The number of keys with an expiry time that the check found.
        found_expiring: u32,
    },
    /// The counts of a database's hashes with field expiration differ from its keys.
    #[error(
        "shard {shard}, {}: counted {found} hashes with times of fields, the pool says otherwise",
        DatabaseName(*db)
    )]
    Fields {
        /// The shard.
        shard: usize,
        /// The database, as clients number it.
        db: usize,
        /// The number of hashes with field expiration that the check found.
        found: u32,
    },
    /// A block is allocated but not reachable.
    #[error("the block of {bytes} bytes at offset {at:#x} is allocated and not reachable")]
    Lost {
        /// Its byte offset in the pool.
        at: u64,
        /// The capacity of the block, in bytes.
        bytes: u64,
    },
    /// A block is reachable, but its bit says that it is free.
    #[error("shard {shard}: the block at offset {at:#x} is reached but not allocated")]
    Unallocated {
        /// The shard.
        shard: usize,
        /// Its byte offset in the pool.
        at: u64,
    },
    /// A reference leads to where no block can begin, or two references lead to the same block.
    #[error("the block at offset {at:#x} is reached twice, or none can begin there")]
    Dangling {
        /// Its byte offset in the pool.
        at: u64,
    },
}

fn kind(expiry: bool) -> &'static str {
    if expiry { "expiry times" } else { "keys" }
}
