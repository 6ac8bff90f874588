//! Waiting for shards without a thread.
//!
//! A thread that serves many clients must not sleep until one of them gets a shard that another
//! thread has. It tries to lock, and where that fails it enters a [`ShardWait`] and serves others:
//! whoever unlocks one of the shards wakes those who wait for it, and they try again.
//!
//! **Why nobody waits forever.** A lock goes to whoever tries first, which keeps short holds short.
//! So one who waits could fail again and again. Once it has waited for [`PATIENCE`] its shards are
//! *reserved* for it: no other session can lock them by a try, and a snapshot's walk lets it go
//! first. A shard is reserved for one at a time, all shards of a wait at once and only where nobody
//! who came earlier waits for one of them; so two waits never hold what the other needs, and the
//! oldest of any that share a shard gets its turn as soon as those who have it now are done.
//!
//! **Why no wake-up is lost.** A wait is counted at its shards, and its waker is in place, before
//! the try that decides whether it sleeps; an unlock is followed by a look at that count. The
//! unlock of a standard mutex is a read-modify-write, which x86-64 orders before the look. Other
//! processors may reorder the two: whoever waits tries again by itself after some milliseconds.

use super::heap::Heap;
use super::shard_waits::Entry;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::task::Waker;
use std::time::{Duration, Instant};

/// How long one who waits is passed by those who come later.
const PATIENCE: Duration = Duration::from_millis(1);
/// From this share of all shards on, in halves, a wait reserves them at once: it would hardly find
/// them all free.
const MANY: usize = 2;

/// A place among those who wait for shards. Dropped, it waits no more and has nothing reserved.
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
    /// Enters those who wait for these shards.
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

    /// Returns the number by which [`Heap::try_lock_all`] knows it.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Waits for these shards instead, and keeps its place.
    pub fn wait_for(&self, shards: &[usize]) {
        let mut list = self.heap.waits.list();
        let Some(entry) = list.get_mut(&self.ticket) else { return };
        let shards = distinct(shards);
        if entry.shards == shards {
            return;
        }
        let before = std::mem::replace(&mut entry.shards, shards.clone());
        let had_reserved = std::mem::take(&mut entry.has_reserved);
        // An unlock of one of them may have come before it was counted there.
        entry.waker = None;
        drop(list);
        self.leave(&before, had_reserved);
        self.heap.count_awaited(&shards, true);
    }

    /// Lets others have what is reserved for it, while it does not try to lock.
    pub fn release(&self) {
        let mut list = self.heap.waits.list();
        let Some(entry) = list.get_mut(&self.ticket) else { return };
        let had_reserved = std::mem::take(&mut entry.has_reserved);
        let shards = entry.shards.clone();
        drop(list);
        self.give_up_reserved(&shards, had_reserved);
    }

    /// Returns true if it is worth trying to lock the shards: this is the first call, or one of
    /// them was unlocked since the last. Else `waker` is woken when one is.
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

    /// Undoes what was noted at these shards, and lets those try who were passed by.
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
