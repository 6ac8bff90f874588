//! Locking a shard. Taking the lock recovers it if its last holder panicked, and runs pending
//! maintenance.

use super::commit;
use super::heap::Heap;
use super::shard_waits::ANY_TURN;
use super::state::ShardState;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// How long a thread that repeatedly takes a shard yields to waiting threads, each time.
const WAITING_PATIENCE: Duration = Duration::from_micros(500);
/// How long a snapshot's walk yields to the waiter for whom a shard is reserved.
const COURTESY: Duration = Duration::from_millis(5);
/// Pause between two checks whether that waiter is done.
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);

impl Heap {
    /// Locks a shard.
    #[inline]
    pub(crate) fn lock_state(&self, shard: usize) -> StateGuard<'_> {
        let slot = &self.slots[shard];
        let locked = pmem::lock_counted(&slot.state, &slot.waiting);
        self.locked(shard, locked.unwrap_or_else(|poison| self.recover_lock(shard, poison)))
    }

    /// Yields to threads that wait for a shard, but only briefly. A mutex does not do that by
    /// itself: after an unlock it goes to the first thread that tries, and a waiting thread must
    /// first be woken.
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

    /// Locks a shard unless it is locked, or reserved for another ticket than this one (0 for
    /// none).
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

    /// Recovers a poisoned lock: drops what the holder that panicked had staged. A panic in a
    /// commit has poisoned the heap.
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

    /// Wakes the waiters of a shard, except `by`; if the shard is reserved, only the one that it is
    /// reserved for.
    #[cold]
    pub(super) fn wake_waiting(&self, shard: usize, by: u64) {
        let reserved = self.slots[shard].reserved.load(Relaxed);
        let whose = if reserved == 0 { 0..=u64::MAX } else { reserved..=reserved };
        let wakers: Vec<Waker> = self
            .waits
            .list()
            .range_mut(whose)
            .filter(|(ticket, entry)| **ticket != by && entry.shards.contains(&shard))
            .filter_map(|(_, entry)| entry.waker.take())
            .collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns true if a shard is reserved for another ticket than this one.
    #[inline]
    pub(super) fn is_reserved_from(&self, shard: usize, ticket: u64) -> bool {
        let reserved = self.slots[shard].reserved.load(Relaxed);
        reserved != 0 && reserved != ticket && ticket != ANY_TURN
    }

    /// Yields to the waiter for whom a shard is reserved, but only briefly.
    #[cold]
    fn let_reserved_first(&self, shard: usize) {
        let began = Instant::now();
        while self.is_reserved_from(shard, 0) && began.elapsed() < COURTESY {
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}

/// The state of a locked shard. Unlocking wakes the waiters of the shard.
#[derive(Debug)]
pub(crate) struct StateGuard<'h> {
    state: MutexGuard<'h, ShardState>,
    // Dropped after `state`, when the lock is released.
    unlocked: Unlocked<'h>,
}

impl<'h> StateGuard<'h> {
    #[inline]
    pub(super) fn new(
        heap: &'h Heap,
        shard: usize,
        state: MutexGuard<'h, ShardState>,
    ) -> StateGuard<'h> {
        heap.slots[shard].held.store(true, Relaxed);
        StateGuard { state, unlocked: Unlocked { heap, shard, by: 0 } }
    }

    /// Sets the ticket of the waiter that unlocks: the unlocking does not wake it.
    pub(super) fn unlocked_by(&mut self, ticket: u64) {
        self.unlocked.by = ticket;
    }
}

impl Drop for StateGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.unlocked.heap.slots[self.unlocked.shard].held.store(false, Relaxed);
    }
}

impl Deref for StateGuard<'_> {
    type Target = ShardState;

    #[inline]
    fn deref(&self) -> &ShardState {
        &self.state
    }
}

impl DerefMut for StateGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut ShardState {
        &mut self.state
    }
}

#[derive(Debug)]
struct Unlocked<'h> {
    heap: &'h Heap,
    shard: usize,
    by: u64,
}

impl Drop for Unlocked<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.heap.slots[self.shard].awaited.load(Relaxed) > 0 {
            self.heap.wake_waiting(self.shard, self.by);
        }
    }
}
