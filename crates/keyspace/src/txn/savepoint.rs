//! Savepoints: points to which a transaction can be rolled back.

use smallvec::SmallVec;

use super::Txn;
use crate::Key;

/// A point to which a transaction can be rolled back.
pub struct Savepoint {
    /// The savepoints of the shards, with the position of each shard in the transaction.
    shards: SmallVec<[(usize, heap::Savepoint); 1]>,
    changes: usize,
    flushed: usize,
    deferred: usize,
    map: u64,
}

impl Txn<'_> {
    /// Returns a point to which the transaction can be rolled back.
    pub fn savepoint(&mut self) -> Savepoint {
        self.savepoint_at(0..self.shards.len())
    }

    /// Like [`Txn::savepoint`], for a command that changes only these keys.
    pub fn savepoint_of(&mut self, keys: &[Key<'_>]) -> Savepoint {
        if let [key] = keys
            && let Some(at) = self.position(key.shard())
        {
            let shards = SmallVec::from_buf([(at, self.shards[at].savepoint())]);
            return self.savepoint_with(shards);
        }
        let shards = keys.iter().filter_map(|key| self.position(key.shard()));
        let mut shards: SmallVec<[usize; 4]> = shards.collect();
        shards.sort_unstable();
        shards.dedup();
        self.savepoint_at(shards.into_iter())
    }

    fn savepoint_at(&mut self, shards: impl Iterator<Item = usize>) -> Savepoint {
        let shards = shards.map(|at| (at, self.shards[at].savepoint())).collect();
        self.savepoint_with(shards)
    }

    #[inline]
    fn savepoint_with(&self, shards: SmallVec<[(usize, heap::Savepoint); 1]>) -> Savepoint {
        let changes = self.changes.as_ref().filter(|_| !self.committed);
        let (changes, flushed) = changes.map_or((0, 0), |c| (c.len(), c.flushed.len()));
        Savepoint { shards, changes, flushed, deferred: self.deferred.len(), map: self.map }
    }

    /// Undoes everything since `savepoint`, such as a failed command.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        for (at, to) in savepoint.shards {
            self.shards[at].rollback_to(to);
        }
        if let Some(changes) = self.changes.as_mut().filter(|_| !self.committed) {
            changes.truncate(savepoint.changes);
            changes.flushed.truncate(savepoint.flushed);
        }
        self.deferred.truncate(savepoint.deferred);
        self.map = savepoint.map;
        (self.is_new, self.is_overwritten) = (false, false);
        self.forget();
    }
}
