//! The mark that the data is incomplete: a replica sets it before it drops its data for that of its
//! primary, and takes it away when it has all of that. A start that finds it drops what is there.

use heap::CommitError;

use crate::keyspace::Keyspace;
use crate::layout::SYNCING_ROOT;

impl Keyspace {
    /// Returns true if the data is incomplete.
    pub fn is_syncing(&self) -> bool {
        self.shared.root_word(0, SYNCING_ROOT) != 0
    }

    /// Notes whether the data is incomplete, at `now` (unix ms).
    pub fn set_syncing(&self, yes: bool, now: u64) -> Result<(), CommitError> {
        let mut txn = self.begin_one(0, now);
        txn.set_root(SYNCING_ROOT, yes.into());
        txn.commit()
    }
}
