//! Waiting for shards without a thread.
//!
//! A thread that serves many clients must not sleep until one of them gets a shard that another
//! thread holds. It tries to lock, and if that fails it enters a [`ShardWait`] and serves other
//! clients: unlocking one of the shards wakes its waiters, and they try again.
//!
//! **Why nobody waits forever.** A lock goes to the first thread that tries, which keeps short
//! holds short. So a waiter could fail again and again. Once it has waited for [`PATIENCE`], its
//! shards are *reserved* for it: no other session can lock them with a try, and a snapshot's walk
//! yields to it. All shards of a wait are reserved at once, and only if no earlier waiter waits for
//! one of them; so two waits never hold what the other needs, and the oldest of any that share a
//! shard gets its turn as soon as the present holders are done.
//!
//! **Why no wake-up is lost.** A wait is counted at its shards, and its waker is in place, before
//! the try that decides whether it sleeps; every unlock then checks that count. The unlock of a
//! standard mutex is a read-modify-write, which x86-64 orders before the check. Other processors
//! may reorder the two: waiters also try again by themselves after some milliseconds.

use super::heap::Heap;
use super::shard_waits::Entry;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::task::Waker;
use std::time::{Duration, Instant};

/// How long a waiter lets later ones pass.
const PATIENCE: Duration = Duration::from_millis(1);
/// A wait for at least this share of all shards (2: a half) reserves them at once: it would hardly
/// find them all free.
const MANY: usize = 2;

/// A place among the waiters for shards. Dropping it ends the wait and its reservations.
#[derive(Debug)]
pub struct ShardWait {
    heap: Arc<Heap>,
    ticket: u64,
}

/// Returns each shard once, in ascending order.
fn distinct(shards: &[usize]) -> Box<[usize]> {
    let mut shards = shards.to_vec();
    shards.sort_unstable();
    shards.dedup();
    shards.into()
}

impl ShardWait {
    /// Enters a wait for these shards.
    pub fn enter(heap: &Arc<Heap>, shards: &[usize]) -> ShardWait {
        let ticket = heap.waits.tickets.fetch_add(1, Relaxed) + 1;
        let shards = distinct(shards);
        let entry = Entry {
            since: Instant::now(),
            shards: shards.clone(),
            waker: None,
            has_reserved: false,
        };
        heap.waits.list().insert(ticket, entry);
        heap.count_awaited(&shards, true);
        ShardWait { heap: Arc::clone(heap), ticket }
    }

    /// Returns the ticket, by which [`Heap::try_lock_all`] knows the waiter.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Changes the shards that it waits for, and keeps its place.
    pub fn wait_for(&self, shards: &[usize]) {
        let mut list = self.heap.waits.list();
        let Some(entry) = list.get_mut(&self.ticket) else { return };
        let shards = distinct(shards);
        if entry.shards == shards {
            return;
        }
        let before = std::mem::replace(&mut entry.shards, shards.clone());
        let had_reserved = std::mem::take(&mut entry.has_reserved);
        // An unlock of one of them may have come before the wait was counted there.
        entry.waker = None;
        drop(list);
        self.leave(&before, had_reserved);
        self.heap.count_awaited(&shards, true);
    }

    /// Gives up its reservations while it does not try to lock.
    pub fn release(&self) {
        let mut list = self.heap.waits.list();
        let Some(entry) = list.get_mut(&self.ticket) else { return };
        let had_reserved = std::mem::take(&mut entry.has_reserved);
        let shards = entry.shards.clone();
        drop(list);
        self.give_up_reserved(&shards, had_reserved);
    }

    /// Returns true if it is worth trying to lock the shards: on the first call, or if one of them
    /// was unlocked since the previous call. Otherwise `waker` is woken at the next unlock.
    pub fn poll(&self, waker: &Waker) -> bool {
        let heap = &*self.heap;
        let mut list = heap.waits.list();
        let Some(entry) = list.get(&self.ticket) else { return true };
        let is_patient = entry.since.elapsed() < PATIENCE
            && entry.shards.len() * MANY < heap.slots.len().max(MANY);
        let waits_for_others = || {
            list.range(..self.ticket)
                .any(|(_, other)| other.shards.iter().any(|shard| entry.shards.contains(shard)))
        };
        let reserves = !is_patient && !waits_for_others();
        let Some(entry) = list.get_mut(&self.ticket) else { return true };
        if reserves {
            entry.has_reserved = true;
            let reserve = |shard: &usize| heap.slots[*shard].reserved.store(self.ticket, Relaxed);
            entry.shards.iter().for_each(reserve);
        }
        let is_armed = entry.waker.as_ref().is_some_and(|known| known.will_wake(waker));
        entry.waker = Some(waker.clone());
        !is_armed
    }

    /// Removes the wait from these shards, and wakes waiters that its reservation kept out.
    fn leave(&self, shards: &[usize], had_reserved: bool) {
        self.heap.count_awaited(shards, false);
        self.give_up_reserved(shards, had_reserved);
    }

    fn give_up_reserved(&self, shards: &[usize], had_reserved: bool) {
        if !had_reserved {
            return;
        }
        for &shard in shards {
            let reserved = &self.heap.slots[shard].reserved;
            let _ = reserved.compare_exchange(self.ticket, 0, Relaxed, Relaxed);
            self.heap.wake_waiting(shard, self.ticket);
        }
    }
}

impl Drop for ShardWait {
    fn drop(&mut self) {
        let entry = self.heap.waits.list().remove(&self.ticket);
        if let Some(entry) = entry {
            self.leave(&entry.shards, entry.has_reserved);
        }
    }
}

impl Heap {
    fn count_awaited(&self, shards: &[usize], enters: bool) {
        for &shard in shards {
            match enters {
                true => self.slots[shard].awaited.fetch_add(1, SeqCst),
                false => self.slots[shard].awaited.fetch_sub(1, SeqCst),
            };
        }
    }
}
