//! Locking shards: each opens a transaction. A lock that is not free is waited for, or left.

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

    /// Does the same for one who waits and has this ticket.
    #[inline]
    pub(super) fn try_lock_as(&self, shard: usize, ticket: u64) -> Option<Shard<'_>> {
        self.try_lock_state(shard, ticket).map(|state| Shard::new(self, shard, state))
    }

    /// Locks shards, in ascending order, for the one who has this ticket (0 for none, [`ANY_TURN`]
    /// for a short hold of the store's own, which is not kept from a shard by who waits); `None`,
    /// and nothing locked, where one of them is locked or reserved for another.
    #[inline]
    pub fn try_lock_all<'h, C>(&'h self, shards: &[usize], ticket: u64) -> Option<C>
    where
        C: Default + Extend<Shard<'h>> + IntoIterator<Item = Shard<'h>>,
    {
        // First a look at all: one who took some and gave them back would wake others without
        // effect.
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

    /// Takes no write while paused, so that the file can be copied as it is. Commits that have
    /// begun come to their end.
    pub fn pause(&self, yes: bool) {
        if self.paused.swap(yes, Ordering::AcqRel) != yes && yes {
            // Whoever checked before holds a shard.
            (0..self.shards()).for_each(|shard| drop(self.lock(shard)));
        }
    }
}
