//! Deletions that no client asked for: what expired, and what must go because memory is short. Each
//! step is a unit of work.

use crate::engine::Engine;

/// Keys that are evicted in one transaction.
const KEYS_AT_ONCE: usize = 16;

impl Engine {
    /// Deletes some expired keys of a shard, and some expired fields of hashes; at most `budget`
    /// keys are looked at. Returns true if many of them had expired, and nothing speaks against
    /// another step at once.
    pub fn expire_step(&self, shard: usize, budget: usize) -> bool {
        match self.keyspace().expire_step(shard, budget, self.clock.unix_ms()) {
            Ok((mut txn, progress)) => {
                self.finish_step(&mut txn);
                progress.more
            }
            Err(_) => false,
        }
    }

    /// Deletes some keys by the eviction policy if more memory is in use than a limit allows.
    /// Returns true if there were any.
    pub fn evict_over_limit(&self) -> bool {
        let now = self.clock.unix_ns();
        match self.keyspace().evict_step(KEYS_AT_ONCE, now / 1_000_000, now) {
            Ok(Some(mut txn)) => {
                self.finish_step(&mut txn);
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    /// Does the same however much is in use.
    pub(crate) fn evict_now(&self) -> bool {
        let now = self.clock.unix_ns();
        match self.keyspace().evict_keys(KEYS_AT_ONCE, now / 1_000_000, now) {
            Ok(Some(mut txn)) => {
                self.finish_step(&mut txn);
                true
            }
            Ok(None) | Err(_) => false,
        }
    }
}
