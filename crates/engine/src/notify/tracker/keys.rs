//! The clients that have a copy of each key: a table for each shard.
//!
//! Clients are listed by number. A client that has gone away is noticed when the key changes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use smallvec::SmallVec;

/// Numbers of clients, in ascending order.
type Ids = SmallVec<[u64; 2]>;

/// The keys of a shard, with the clients that have them.
#[derive(Default)]
pub(crate) struct Readers {
    ids: IndexMap<Box<[u8]>, Ids>,
    copies: usize,
}

pub(crate) struct CachedKeys {
    shards: Box<[Mutex<Readers>]>,
    len: AtomicUsize,
    /// How often any key was taken.
    turn: AtomicUsize,
}

impl CachedKeys {
    pub(crate) fn new(shards: usize) -> CachedKeys {
        let shards = (0..shards).map(|_| Mutex::default()).collect();
        CachedKeys { shards, len: AtomicUsize::new(0), turn: AtomicUsize::new(0) }
    }

    fn readers(&self, shard: usize) -> MutexGuard<'_, Readers> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many keys clients have.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Returns how many copies clients have, each of one key.
    pub(crate) fn copies(&self) -> usize {
        (0..self.shards.len()).map(|shard| self.readers(shard).copies).sum()
    }

    /// Records that client `id` has the key.
    pub(crate) fn add(&self, shard: usize, key: &[u8], id: u64) {
        let mut readers = self.readers(shard);
        let Readers { ids: all, copies } = &mut *readers;
        if let Some(ids) = all.get_mut(key) {
            if let Err(at) = ids.binary_search(&id) {
                ids.insert(at, id);
                *copies += 1;
            }
            return;
        }
        all.insert(key.into(), Ids::from_elem(id, 1));
        *copies += 1;
        self.len.fetch_add(1, Relaxed);
    }

    /// Removes the key, and returns the clients that have it.
    pub(crate) fn take(&self, shard: usize, key: &[u8]) -> Option<Ids> {
        let mut readers = self.readers(shard);
        let ids = readers.ids.swap_remove(key)?;
        readers.copies -= ids.len();
        self.len.fetch_sub(1, Relaxed);
        Some(ids)
    }

    /// Removes an unpredictable key.
    pub(crate) fn take_any(&self) -> Option<(Box<[u8]>, Ids)> {
        let turn = self.turn.fetch_add(1, Relaxed);
        for step in 0..self.shards.len() {
            let mut readers = self.readers((turn + step) % self.shards.len());
            if readers.ids.is_empty() {
                continue;
            }
            let at = fastrand::Rng::with_seed(turn as u64).usize(..readers.ids.len());
            let (key, ids) = readers.ids.swap_remove_index(at)?;
            readers.copies -= ids.len();
            self.len.fetch_sub(1, Relaxed);
            return Some((key, ids));
        }
        None
    }

    /// Removes all keys. Dropping them takes long, so do that without locks.
    pub(crate) fn clear(&self) -> Vec<Readers> {
        let take = |shard| {
            let readers = std::mem::take(&mut *self.readers(shard));
            self.len.fetch_sub(readers.ids.len(), Relaxed);
            readers
        };
        (0..self.shards.len()).map(take).collect()
    }

    /// Removes the clients that are no longer notified, with the keys that no other client has.
    pub(crate) fn retain(&self, has: impl Fn(u64) -> bool) {
        for shard in 0..self.shards.len() {
            let mut readers = self.readers(shard);
            let (before, mut copies) = (readers.ids.len(), 0);
            readers.ids.retain(|_, ids| {
                ids.retain(|id| has(*id));
                copies += ids.len();
                !ids.is_empty()
            });
            readers.copies = copies;
            self.len.fetch_sub(before - readers.ids.len(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_had_by_each_client_once_until_it_is_taken() {
        let keys = CachedKeys::new(2);
        for id in [7, 3, 7, 9, 3] {
            keys.add(1, b"key", id);
        }
        keys.add(0, b"other", 3);
        assert_eq!((keys.len(), keys.copies()), (2, 4));
        assert_eq!(keys.take(1, b"key").as_deref(), Some(&[3, 7, 9][..]));
        assert_eq!(keys.take(1, b"key"), None);
        assert_eq!((keys.len(), keys.copies()), (1, 1));
    }

    #[test]
    fn all_are_forgotten_or_those_of_clients_that_are_gone() {
        let keys = CachedKeys::new(3);
        keys.add(0, b"a", 1);
        keys.add(0, b"a", 2);
        keys.add(2, b"b", 1);
        keys.retain(|id| id == 2);
        assert_eq!((keys.len(), keys.copies()), (1, 1));
        keys.clear();
        assert_eq!((keys.len(), keys.copies(), keys.take_any()), (0, 0, None));
    }

    /// Even if each new key takes the place of another one, the keys of all shards are kept equally
    /// long.
    #[test]
    fn any_key_may_be_the_next_to_go() {
        let keys = CachedKeys::new(4);
        let name = |n: usize| format!("key:{n}").into_bytes();
        (0..400).for_each(|n| keys.add(n % 4, &name(n), 1));
        for n in 400..800 {
            keys.add(n % 4, &name(n), 1);
            keys.take_any().expect("a key");
        }
        assert_eq!((keys.len(), keys.copies()), (400, 400));
        let left = |range: std::ops::Range<usize>| {
            range.filter(|n| keys.take(n % 4, &name(*n)).is_some()).count()
        };
        let of_first = left(0..400);
        let of_last = left(700..800);
        assert!((90..210).contains(&of_first), "{of_first} of the first 400");
        assert!(of_last > 70, "{of_last} of the last 100");
    }
}
