//! Locking a shard. Whoever takes the lock recovers it if its last holder panicked, and does what earlier holders left to
//! be done under it.

use super::commit;
use super::heap::Heap;
use super::state::State;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError, TryLockError};

impl Heap {
    /// Locks a shard.
    #[inline]
    pub(crate) fn lock_state(&self, shard: usize) -> MutexGuard<'_, State> {
        let locked = pmem::lock(&self.slots[shard].state);
        self.locked(shard, locked.unwrap_or_else(|poison| self.heal(shard, poison)))
    }

    /// Locks a shard unless it is locked.
    pub(crate) fn try_lock_state(&self, shard: usize) -> Option<MutexGuard<'_, State>> {
        let guard = match self.slots[shard].state.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::WouldBlock) => return None,
            Err(TryLockError::Poisoned(poison)) => self.heal(shard, poison),
        };
        Some(self.locked(shard, guard))
    }

    #[inline]
    fn locked<'h>(
        &'h self,
        shard: usize,
        mut state: MutexGuard<'h, State>,
    ) -> MutexGuard<'h, State> {
        if self.slots[shard].has_errand.load(Ordering::Relaxed) {
            commit::take_back(self, shard, &mut state);
        }
        state
    }

    /// Takes over a shard whose holder panicked: what it staged is dropped. A panic in a commit has poisoned the heap.
    #[cold]
    fn heal<'h>(
        &'h self,
        shard: usize,
        poison: PoisonError<MutexGuard<'h, State>>,
    ) -> MutexGuard<'h, State> {
        let mut guard = poison.into_inner();
        self.slots[shard].state.clear_poison();
        commit::abandon(self, shard, &mut guard);
        guard.cache = None;
        self.ask_next_holder(shard);
        guard
    }
}
