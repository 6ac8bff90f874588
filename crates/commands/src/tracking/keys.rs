//! Which clients have a copy of which key: a table for each shard.
//!
//! Clients stand there by number. Those that went away are met, and found to be gone, when the key changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

/// Numbers of clients, in ascending order.
type Ids = SmallVec<[u64; 2]>;
type Readers = HashMap<Box<[u8]>, Ids>;

pub(super) struct CachedKeys {
    shards: Box<[Mutex<Readers>]>,
    len: AtomicUsize,
    copies: AtomicUsize,
}

impl CachedKeys {
    pub(super) fn new(shards: usize) -> CachedKeys {
        let shards = (0..shards).map(|_| Mutex::default()).collect();
        CachedKeys { shards, len: AtomicUsize::new(0), copies: AtomicUsize::new(0) }
    }

    fn readers(&self, shard: usize) -> MutexGuard<'_, Readers> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many keys some client has.
    pub(super) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// How many copies clients have, each of one key.
    pub(super) fn copies(&self) -> usize {
        self.copies.load(Relaxed)
    }

    /// Client `id` has the key.
    pub(super) fn add(&self, shard: usize, key: &[u8], id: u64) {
        let mut readers = self.readers(shard);
        let Some(ids) = readers.get_mut(key) else {
            readers.insert(key.into(), Ids::from_elem(id, 1));
            self.len.fetch_add(1, Relaxed);
            self.copies.fetch_add(1, Relaxed);
            return;
        };
        if let Err(at) = ids.binary_search(&id) {
            ids.insert(at, id);
            self.copies.fetch_add(1, Relaxed);
        }
    }

    /// Takes the key out: the clients that have it.
    pub(super) fn take(&self, shard: usize, key: &[u8]) -> Option<Ids> {
        let ids = self.readers(shard).remove(key)?;
        self.forgot(1, ids.len());
        Some(ids)
    }

    /// Takes any key out.
    pub(super) fn take_any(&self) -> Option<(Box<[u8]>, Ids)> {
        for shard in 0..self.shards.len() {
            let mut readers = self.readers(shard);
            let Some(key) = readers.keys().next().cloned() else { continue };
            let ids = readers.remove(&key)?;
            self.forgot(1, ids.len());
            return Some((key, ids));
        }
        None
    }

    /// Takes all keys out.
    pub(super) fn clear(&self) {
        for shard in 0..self.shards.len() {
            let readers = std::mem::take(&mut *self.readers(shard));
            self.forgot(readers.len(), readers.values().map(|ids| ids.len()).sum());
        }
    }

    fn forgot(&self, keys: usize, copies: usize) {
        self.len.fetch_sub(keys, Relaxed);
        self.copies.fetch_sub(copies, Relaxed);
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
    fn any_key_is_found_and_all_are_forgotten() {
        let keys = CachedKeys::new(3);
        keys.add(2, b"last", 1);
        let any = keys.take_any().map(|(key, ids)| (key.to_vec(), ids.to_vec()));
        assert_eq!(any, Some((b"last".to_vec(), vec![1])));
        assert_eq!(keys.take_any(), None);
        keys.add(0, b"a", 1);
        keys.add(1, b"b", 1);
        keys.clear();
        assert_eq!((keys.len(), keys.copies(), keys.take_any()), (0, 0, None));
    }
}
