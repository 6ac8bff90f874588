//! The mark that the data is incomplete: a replica sets it before it drops its data for that of its
//! primary, and takes it away when it has all of that. A start that finds it drops what is there.

use std::sync::atomic::Ordering::Relaxed;

use heap::CommitError;

use crate::Db;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::layout::SYNCING_ROOT;

/// Why incomplete data was not dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DropError {
    /// Deleting it failed.
    #[error(transparent)]
    Delete(#[from] Error),
    /// The deletion was not committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl Keyspace {
    /// Returns true if the data is incomplete.
    pub fn is_syncing(&self) -> bool {
        self.shared.root_word(0, SYNCING_ROOT) != 0
    }

    /// Notes whether the data is incomplete, at `now` (unix ms). Incomplete data has no place in a
    /// stream.
    pub fn set_syncing(&self, yes: bool, now: u64) -> Result<(), CommitError> {
        let mut txn = self.begin_one(0, now);
        txn.set_root(SYNCING_ROOT, yes.into());
        if yes {
            txn.forget_position();
        }
        txn.commit()?;
        if yes {
            self.shared.keeps_position.store(false, Relaxed);
        }
        Ok(())
    }

    /// Deletes everything, at `now` (unix ms), if the data is incomplete, together with the mark.
    /// Returns true if it was.
    pub fn drop_incomplete(&self, now: u64) -> Result<bool, DropError> {
        if !self.is_syncing() {
            return Ok(false);
        }
        let mut txn = self.begin_all(now);
        for db in Db::all() {
            txn.databases().flush(db)?;
        }
        txn.libraries().flush()?;
        txn.set_root(SYNCING_ROOT, 0);
        txn.commit()?;
        Ok(true)
    }
}
