//! The results of a salvage: figures, and a text for each finding.

use structures::Damaged;

use crate::DamagedKey;
use crate::DatabaseName;

/// The totals of a salvage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Keys in the new pool.
    pub keys: u64,
    /// Those of `keys` with an expiry time.
    pub expiring: u64,
    /// Function libraries in the new pool.
    pub libraries: u64,
    /// Those of `keys` to which no index led.
    pub found: u64,
    /// Keys that were not copied because they had expired.
    pub expired: u64,
    /// Keys that are lost, or in doubt and not copied. Each was reported by name or in a count.
    pub lost: u64,
}

/// Something in a salvaged pool that is damaged or in doubt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageFinding {
    /// A key is damaged, and was not copied.
    #[error("lost: {0}")]
    Key(DamagedKey),
    /// Keys are missing, and their names are unknown.
    #[error("lost: shard {shard}, {}: {keys} keys whose names are not known", DatabaseName(*db))]
    Missing {
        /// The shard.
        shard: usize,
        /// The database, as clients number it.
        db: usize,
        /// How many keys are missing.
        keys: u64,
    },
    /// A sound key was found whose database is not known: no index leads to it, or the map of
    /// databases is damaged.
    #[error(
        "in doubt: shard {shard}, key \"{}\" (entry at {at:#x}): which database it is of, and \
         whether it was deleted, is not known: {}",
        key.escape_ascii(),
        match put { Some(db) => format!("put into database {db}"), None => "not copied".to_owned() }
    )]
    Unplaced {
        /// The shard.
        shard: usize,
        /// Its name.
        key: Vec<u8>,
        /// Byte offset in the pool of its entry.
        at: u64,
        /// The database that it was put into, if any.
        put: Option<usize>,
    },
    /// A key was found a second time.
    #[error(
        "in doubt: {}, key \"{}\" was found twice: that at {at:#x} was not copied",
        DatabaseName(*db),
        key.escape_ascii()
    )]
    Twice {
        /// The database, as clients number it.
        db: usize,
        /// Its name.
        key: Vec<u8>,
        /// Byte offset in the pool of the entry that was not copied.
        at: u64,
    },
    /// The expiry time of a key is in doubt.
    #[error(
        "in doubt: shard {shard}, database {db}, key \"{}\" (entry at {at:#x}): its expiry time: \
         copied without one",
        key.escape_ascii()
    )]
    Time {
        /// The shard.
        shard: usize,
        /// The database, as clients number it.
        db: usize,
        /// Its name.
        key: Vec<u8>,
        /// Byte offset in the pool of its entry.
        at: u64,
    },
    /// A part of an index is damaged. The keys to which it led were searched for.
    #[error("shard {shard}, {}, index of keys: {source}", DatabaseName(*db))]
    Index {
        /// The shard.
        shard: usize,
        /// The database, as clients number it.
        db: usize,
        /// The first damage that was found.
        source: Damaged,
    },
    /// The recorded count of keys differs from an index that is whole.
    #[error("shard {shard}, {}: the pool says {counted} keys, its index has {found}", DatabaseName(*db))]
    Count {
        /// The shard.
        shard: usize,
        /// The database, as clients number it.
        db: usize,
        /// The number of keys that the pool records.
        counted: u64,
        /// The number of keys in the index.
        found: u64,
    },
    /// The free queue is damaged: not all of the blocks in it are known.
    #[error("shard {shard}, free queue: {source}")]
    Queue {
        /// The shard.
        shard: usize,
        /// The damage that was found.
        source: Damaged,
    },
    /// The root words of a shard are lost.
    #[error(
        "shard {shard}: its root words are lost{}",
        if *map { ", and with them what SWAPDB did" } else { "" }
    )]
    Roots {
        /// The shard.
        shard: usize,
        /// Whether the map of databases was lost with them.
        map: bool,
    },
    /// The map of databases, which records SWAPDBs, is wrong for some databases.
    #[error(
        "the map of databases is damaged: keys of those that it names twice, or not at all, are \
         in doubt"
    )]
    Map,
    /// The places of entries in indexes could not be verified.
    #[error(
        "the key of the hash is lost: that entries are where the hash places them was not verified"
    )]
    Unhashed,
}

impl SalvageFinding {
    /// Returns true if keys are lost or in doubt.
    pub fn costs(&self) -> bool {
        match self {
            SalvageFinding::Key(_)
            | SalvageFinding::Missing { .. }
            | SalvageFinding::Unplaced { .. }
            | SalvageFinding::Twice { .. }
            | SalvageFinding::Time { .. }
            | SalvageFinding::Roots { .. } => true,
            SalvageFinding::Index { .. }
            | SalvageFinding::Count { .. }
            | SalvageFinding::Queue { .. }
            | SalvageFinding::Map
            | SalvageFinding::Unhashed => false,
        }
    }
}
