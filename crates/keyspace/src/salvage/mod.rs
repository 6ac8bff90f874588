//! Copies the sound keys of a pool that cannot be opened, or cannot be repaired, into a new pool.
//!
//! Each index is walked as far as possible, and each entry that it leads to is verified as a whole
//! before it is copied: a value is copied as it was, or it is not copied and the key is reported.
//! Allocated blocks that nothing led to are then searched for entries, whose checksums identify
//! them. An entry does not record its database. The entries that are found for a shard are assigned
//! to the database whose index misses keys if no other index does, if it misses at least as many
//! keys as were found, if the shard's free queue is whole, and if no key was found twice. Otherwise
//! each entry is reported, and left out or put into the database that the caller chose.
//!
//! The new pool is written by ordinary transactions, and nothing is written to the old one. Expired
//! keys are not copied.

mod finding;
mod lost;
mod walk;
mod write;

pub use finding::{SalvageFinding, Salvaged};

use heap::{CommitError, Salvage, View};

use crate::key::{DATABASES, Hashing};
use crate::layout::{MAP_ROOT, map_word, physical};
use crate::{Db, Keyspace, RestoreError};

/// The options of a salvage.
#[derive(Clone, Copy, Debug)]
pub struct SalvageOptions {
    /// The time, in unix ms.
    pub now: u64,
    /// The database for keys whose own database is not known. If `None`, they are reported and left
    /// out.
    pub unplaced: Option<Db>,
}

/// The reason why a salvage stopped. The new pool has what was copied before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageStopped {
    /// The new pool is full.
    #[error("the new pool is full, or its file system is")]
    Full,
    /// A key could not be written.
    #[error("a key could not be written: {0}")]
    Write(crate::Error),
    /// A transaction failed.
    #[error("a transaction failed: {0}")]
    Commit(#[from] CommitError),
}

impl From<RestoreError> for SalvageStopped {
    fn from(error: RestoreError) -> SalvageStopped {
        match error {
            RestoreError::Write(error) => error.into(),
            RestoreError::Commit(error) => error.into(),
        }
    }
}

impl From<crate::Error> for SalvageStopped {
    fn from(error: crate::Error) -> SalvageStopped {
        match error {
            crate::Error::Full => SalvageStopped::Full,
            other => SalvageStopped::Write(other),
        }
    }
}

impl Keyspace {
    /// Copies every sound key of a salvaged pool into this keyspace, which must be empty. Calls
    /// `read` with numbers of verified bytes as it goes on, and `find` with every finding.
    pub fn take_from(
        &self,
        pool: &Salvage,
        options: SalvageOptions,
        read: &dyn Fn(u64),
        find: &mut dyn FnMut(SalvageFinding),
    ) -> Result<Salvaged, SalvageStopped> {
        let hashing = pool.hash_seed().map(|seed| Hashing::new(&seed));
        let hashing = hashing.filter(|hashing| walk::leads_to_keys(pool, hashing));
        if hashing.is_none() {
            find(SalvageFinding::Unhashed);
        }
        let map = map_word(pool.word(pool.root(0, MAP_ROOT)));
        let map = Map(map);
        if !map.is_sound() {
            find(SalvageFinding::Map);
        }
        let mut salvage = walk::Salvager {
            pool,
            to: self,
            options,
            hashing,
            map,
            read,
            find,
            marks: heap::Marks::default(),
            done: Salvaged::default(),
            short: vec![Vec::new(); pool.shards()],
            lost_queues: vec![false; pool.shards()],
        };
        salvage.run()?;
        Ok(salvage.done)
    }
}

/// The map from logical to physical databases of a salvaged pool.
#[derive(Clone, Copy, Debug)]
struct Map(u64);

impl Map {
    /// Returns true if exactly one logical database maps to each physical one.
    fn is_sound(self) -> bool {
        (0..DATABASES as u8).all(|db| self.logical(db).is_some())
    }

    /// Returns the logical database that maps to a physical one, if there is exactly one.
    fn logical(self, db: u8) -> Option<Db> {
        let mut all = Db::all().filter(|logical| physical(self.0, logical.number()) == db);
        all.next().filter(|_| all.next().is_none())
    }

    /// Returns the number of a physical database for messages: that of its logical database, if it
    /// is known.
    fn number(self, db: u8) -> usize {
        self.logical(db).map_or(usize::from(db), Db::number)
    }
}
