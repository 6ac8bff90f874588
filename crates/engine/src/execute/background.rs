//! Deletions that no client asked for: expiry, and eviction when memory is short. Each step is a
//! unit of work. None waits for a shard.

use keyspace::{Error, Losses, Txn};

use crate::engine::Engine;

/// The result of an eviction step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// It deleted some keys.
    Keys,
    /// There are no keys to evict.
    NoCandidate,
    /// Others have locked all shards with keys to evict; this is one of them.
    Locked(usize),
}

/// Keys that are evicted in one transaction.
const KEYS_AT_ONCE: usize = 16;

impl Engine {
    /// Deletes some expired keys of a shard, and some expired fields of hashes; at most `budget`
    /// keys are looked at. Returns true if enough of them had expired to make another step
    /// worthwhile at once.
    pub fn expire_step(&self, shard: usize, budget: usize) -> bool {
        let (now, losses) = (self.clock.unix_ms(), self.keyspace().losses());
        match self.keyspace().try_stage_expiry(shard, budget, now) {
            Some((mut txn, progress)) => self.commit_step(&mut txn, losses) && progress.more,
            None => false,
        }
    }

    /// Deletes some keys by the eviction policy if more memory is in use than a limit allows.
    pub fn evict_if_over_limit(&self) -> Evicted {
        let (now, losses) = (self.clock.unix_ns(), self.keyspace().losses());
        let step = self.keyspace().stage_eviction_if_over_limit(KEYS_AT_ONCE, now / 1_000_000, now);
        self.commit_eviction(step, losses)
    }

    /// Evicts some keys however much memory is in use.
    pub(crate) fn evict_regardless(&self) -> Evicted {
        let (now, losses) = (self.clock.unix_ns(), self.keyspace().losses());
        self.commit_eviction(
            self.keyspace().stage_eviction(KEYS_AT_ONCE, now / 1_000_000, now),
            losses,
        )
    }

    fn commit_eviction(&self, step: Result<Option<Txn<'_>>, Error>, losses: Losses) -> Evicted {
        match step {
            Ok(Some(mut txn)) => match self.commit_step(&mut txn, losses) {
                true => Evicted::Keys,
                false => Evicted::NoCandidate,
            },
            Err(Error::Locked(shard)) => Evicted::Locked(shard),
            Ok(None) | Err(_) => Evicted::NoCandidate,
        }
    }
}
