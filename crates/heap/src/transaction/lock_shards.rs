//! Locking shards: each lock opens a transaction. The functions wait for a lock that is not free,
//! or give up.

use super::heap::Heap;
use super::shard::Shard;
use super::shard_waits::ANY_TURN;
use std::sync::atomic::Ordering;

impl Heap {
    /// Locks a shard and opens a transaction on it.
    #[inline]
    pub fn lock(&self, shard: usize) -> Shard<'_> {
        Shard::new(self, shard, self.lock_state(shard))
    }

    /// Locks a shard unless it is locked.
    pub fn try_lock(&self, shard: usize) -> Option<Shard<'_>> {
        self.try_lock_as(shard, ANY_TURN)
    }

    /// Like [`Heap::try_lock`], for the waiter that has this ticket.
    #[inline]
    pub(super) fn try_lock_as(&self, shard: usize, ticket: u64) -> Option<Shard<'_>> {
        self.try_lock_state(shard, ticket).map(|state| Shard::new(self, shard, state))
    }

    /// Locks shards, in ascending order, for the waiter that has this ticket (0 for none;
    /// [`ANY_TURN`] for a short hold by the store itself, which ignores reservations). Returns
    /// `None`, with nothing locked, if one of the shards is locked or reserved for another.
    #[inline]
    pub fn try_lock_all<'h, C>(&'h self, shards: &[usize], ticket: u64) -> Option<C>
    where
        C: Default + Extend<Shard<'h>> + IntoIterator<Item = Shard<'h>>,
    {
        // Check all of them first: taking some and returning them would wake others for nothing.
        let is_taken = |&shard: &usize| {
            self.slots[shard].held.load(Ordering::Relaxed) || self.is_reserved_from(shard, ticket)
        };
        if shards.iter().any(is_taken) {
            return None;
        }
        let mut locked = C::default();
        for &shard in shards {
            match self.try_lock_as(shard, ticket) {
                Some(shard) => locked.extend([shard]),
                None => {
                    locked.into_iter().for_each(|shard| shard.unlock_quietly(ticket));
                    return None;
                }
            }
        }
        Some(locked)
    }

    /// Refuses writes while paused, so that the file can be copied as it is. Returns after all
    /// commits that have begun have ended.
    pub fn pause(&self, yes: bool) {
        if self.paused.swap(yes, Ordering::AcqRel) != yes && yes {
            // A commit that passed the check earlier holds a shard.
            (0..self.shards()).for_each(|shard| drop(self.lock(shard)));
        }
    }

    /// Refuses writes from now on, until the pool is closed. For whoever holds all shards: so no
    /// commit is under way.
    pub fn pause_held(&self) {
        self.paused.store(true, Ordering::Release);
    }
}
