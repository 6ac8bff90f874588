//! Locking a shard. Whoever takes the lock recovers it if its last holder panicked, and runs the
//! maintenance that is pending.

use super::commit;
use super::heap::Heap;
use super::shard_wait::StateGuard;
use super::state::ShardState;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How long a thread that takes a shard again and again lets others have it first, each time.
const WAITING_PATIENCE: Duration = Duration::from_micros(500);

impl Heap {
    /// Locks a shard.
    #[inline]
    pub(crate) fn lock_state(&self, shard: usize) -> StateGuard<'_> {
        let slot = &self.slots[shard];
        let locked = pmem::lock_counted(&slot.state, &slot.waiting);
        self.locked(shard, locked.unwrap_or_else(|poison| self.recover_lock(shard, poison)))
    }

    /// Lets threads that wait for a shard have it first, but does not wait for long. A mutex does
    /// not see to that: it goes to whoever comes first after it is unlocked, and a thread that
    /// waits must be woken before.
    pub(crate) fn let_waiting_first(&self, shard: usize) {
        if self.is_reserved_from(shard, 0) {
            self.let_reserved_first(shard);
        }
        let waiting = &self.slots[shard].waiting;
        if waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let began = Instant::now();
        while waiting.load(Ordering::Relaxed) > 0 && began.elapsed() < WAITING_PATIENCE {
            std::thread::yield_now();
        }
    }

    /// Locks a shard unless it is locked, or reserved for another one than who has this ticket (0
    /// for none).
    pub(crate) fn try_lock_state(&self, shard: usize, ticket: u64) -> Option<StateGuard<'_>> {
        if self.is_reserved_from(shard, ticket) {
            return None;
        }
        let guard = match self.slots[shard].state.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::WouldBlock) => return None,
            Err(TryLockError::Poisoned(poison)) => self.recover_lock(shard, poison),
        };
        Some(self.locked(shard, guard))
    }

    #[inline]
    fn locked<'h>(&'h self, shard: usize, state: MutexGuard<'h, ShardState>) -> StateGuard<'h> {
        let mut state = StateGuard::new(self, shard, state);
        if self.slots[shard].maintenance_pending.load(Ordering::Relaxed) {
            commit::run_pending_maintenance(self, shard, &mut state);
        }
        state
    }

    /// Recovers a poisoned lock: what its holder, which panicked, had staged is dropped. A panic in
    /// a commit has poisoned the heap.
    #[cold]
    fn recover_lock<'h>(
        &'h self,
        shard: usize,
        poison: PoisonError<MutexGuard<'h, ShardState>>,
    ) -> MutexGuard<'h, ShardState> {
        let mut guard = poison.into_inner();
        self.slots[shard].state.clear_poison();
        commit::abandon(self, shard, &mut guard);
        guard.cache = None;
        self.defer_to_next_holder(shard);
        guard
    }
}
