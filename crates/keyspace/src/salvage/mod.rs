//! Copying the sound keys of a pool that cannot be opened, or cannot be repaired, into a new one.
//!
//! Each index is walked as far as it can be, and each entry that it leads to is verified as a whole
//! before it is copied: a value arrives as it was, or not at all, and then it is named. Where an
//! index lost something, the blocks that are in use and that nothing led to are searched for
//! entries: those verify themselves. An entry does not say which database it is of. It is taken for
//! one of the database whose index misses keys, if that is the only one and does not miss fewer
//! than were found; else it is named and left out, or put where the caller says.
//!
//! The new pool is written by ordinary transactions, and nothing is written to the old one. Keys
//! whose time has come are not copied: they are no more.

mod finding;
mod lost;
mod walk;
mod write;

pub use finding::{SalvageFinding, Salvaged};

use heap::{CommitError, Salvage, View};

use crate::key::{DATABASES, Hashing};
use crate::layout::{MAP_ROOT, map_word, physical};
use crate::{Db, Keyspace, RestoreError};

/// What a salvage goes by.
#[derive(Clone, Copy, Debug)]
pub struct SalvageOptions {
    /// The time, in unix ms.
    pub now: u64,
    /// Where keys go whose database is not known; without it they are named and left out.
    pub unplaced: Option<Db>,
}

/// Why a salvage could not go on. What was copied before is in the new pool.
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
    /// Copies every sound key of a salvaged pool into this keyspace, which is empty. `read` hears
    /// of bytes as they were verified, `find` of everything that is not as it was left.
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

/// Which physical database is after each logical one.
#[derive(Clone, Copy, Debug)]
struct Map(u64);

impl Map {
    /// Returns true if each physical database is after one logical one.
    fn is_sound(self) -> bool {
        (0..DATABASES as u8).all(|db| self.logical(db).is_some())
    }

    /// Returns the logical database before a physical one, if there is one and no more.
    fn logical(self, db: u8) -> Option<Db> {
        let mut all = Db::all().filter(|logical| physical(self.0, logical.number()) == db);
        all.next().filter(|_| all.next().is_none())
    }

    /// Returns a number for messages.
    fn number(self, db: u8) -> usize {
        self.logical(db).map_or(usize::from(db), Db::number)
    }
}
