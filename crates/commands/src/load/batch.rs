//! Batches of keys that are stored together, with their values as encoded in the dump.
//!
//! A batch is stored shard by shard, with many keys in one commit. Another thread may be storing
//! its own batch in the same shards: a shard that is locked is left for later.

use std::collections::VecDeque;
use std::iter;
use std::ops::Range;

use keyspace::{Db, Key, Txn};
use rdb::{Frame, Framing};

use super::error::{LoadDumpError, refused};
use crate::keys::dump::store::Parts;

use super::{About, DumpLoad, Entry, LoadedDump, Show};

/// The number of keys in a full batch.
pub const KEYS: usize = 4096;
/// The number of bytes of keys and values in a full batch.
pub const BYTES: usize = 1 << 20;
/// The number of keys in one commit.
pub const KEYS_AT_ONCE: usize = 128;
/// The number of bytes of values in one commit.
pub const BYTES_AT_ONCE: usize = 256 << 10;
/// How many keys ahead the bucket of the index is prefetched.
const AHEAD: usize = 8;

struct BatchKey {
    db: Db,
    key: Range<usize>,
    frame: Frame,
    about: About,
}

pub(super) struct LoadBatch {
    number: u64,
    framing: Framing,
    /// Keys and frames.
    bytes: Vec<u8>,
    keys: Vec<BatchKey>,
}

impl LoadBatch {
    /// Makes an empty batch. Numbers are the order of batches in the dump.
    pub(super) fn new(number: u64, framing: Framing) -> LoadBatch {
        LoadBatch { number, framing, bytes: Vec::new(), keys: Vec::new() }
    }

    /// Empties the batch and gives it a new number.
    pub(super) fn reused(mut self, number: u64) -> LoadBatch {
        self.bytes.clear();
        self.keys.clear();
        LoadBatch { number, ..self }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of bytes in the batch.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + self.keys.len() * size_of::<BatchKey>()
    }

    pub(super) fn is_full(&self) -> bool {
        self.keys.len() >= KEYS || self.bytes.len() >= BYTES
    }

    /// Returns the buffer to which frames are appended.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Adds a key whose frame was appended.
    pub(super) fn push(&mut self, db: Db, key: &[u8], frame: Frame, about: About) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.keys.push(BatchKey { db, key: from..self.bytes.len(), frame, about });
    }

    /// Stores all keys.
    pub(super) fn store(&self, load: &DumpLoad<'_>) -> Result<(), LoadDumpError> {
        let keyspace = load.engine.keyspace();
        let hashed = |one| (keyspace.key(&self.bytes[BatchKey::range(one)]), one);
        let keys: Vec<HashedKey<'_>> = self.keys.iter().map(hashed).collect();
        let order = by_shard(&keys, keyspace.shards());
        let shard_of = |at: &u32| keys[*at as usize].0.shard();
        let mut groups: VecDeque<&[u32]> =
            order.chunk_by(|one, other| shard_of(one) == shard_of(other)).collect();
        groups.rotate_left(self.number as usize % groups.len().max(1));
        let (mut buffers, mut locked) = (Buffers::default(), 0);
        while let Some(group) = groups.pop_front() {
            let shard = shard_of(&group[0]);
            let mut txn = match keyspace.try_begin(iter::once(shard), load.now) {
                Some(txn) => txn,
                None if locked < groups.len() => {
                    locked += 1;
                    groups.push_back(group);
                    continue;
                }
                None => keyspace.begin_one(shard, load.now),
            };
            txn.set_used_at(load.used_at);
            locked = 0;
            let rest = self.store_some(load, txn, &mut buffers, &keys, group)?;
            if !rest.is_empty() {
                groups.push_back(rest);
            }
        }
        Ok(())
    }

    /// Stores the first keys of a locked shard in one commit. Returns the others, so that other
    /// threads need not wait for the shard until all are stored.
    fn store_some<'g>(
        &self,
        load: &DumpLoad<'_>,
        mut txn: Txn<'_>,
        buffers: &mut Buffers,
        keys: &[HashedKey<'_>],
        group: &'g [u32],
    ) -> Result<&'g [u32], LoadDumpError> {
        let keyspace = load.engine.keyspace();
        let (mut loaded, mut bytes, mut stored) = (LoadedDump::default(), 0, 0);
        let mut last = &[][..];
        for (at, number) in group.iter().enumerate() {
            if let Some(&ahead) = group.get(at + AHEAD) {
                let (ahead, one) = &keys[ahead as usize];
                let _ = keyspace.prefetch_key_bucket(one.db, ahead);
            }
            let (key, one) = keys[*number as usize];
            let read = |show: Show<'_>| {
                self.framing.read(&one.frame, &self.bytes, &mut buffers.spare, show)
            };
            let entry = Entry { db: one.db, key, about: &one.about };
            loaded.count(load.key(&mut txn, &mut buffers.parts, entry, true, read)?);
            (last, stored, bytes) = (key.bytes(), at + 1, bytes + one.frame.len());
            if stored >= KEYS_AT_ONCE || bytes >= BYTES_AT_ONCE {
                break;
            }
        }
        txn.commit().map_err(|error| refused(last, &error.into()))?;
        load.add(&loaded);
        Ok(&group[stored..])
    }
}

/// Buffers that are used again for each key.
#[derive(Default)]
struct Buffers {
    parts: Parts,
    spare: Vec<u8>,
}

/// A key of a batch.
type HashedKey<'k> = (Key<'k>, &'k BatchKey);

/// Returns the indexes of the keys, grouped by shard, in their order within a shard.
fn by_shard(keys: &[HashedKey<'_>], shards: usize) -> Vec<u32> {
    let mut next = vec![0; shards + 1];
    keys.iter().for_each(|(key, _)| next[key.shard() + 1] += 1);
    (0..shards).for_each(|shard| next[shard + 1] += next[shard]);
    let mut order = vec![0; keys.len()];
    for (number, (key, _)) in keys.iter().enumerate() {
        let place: &mut usize = &mut next[key.shard()];
        order[*place] = number as u32;
        *place += 1;
    }
    order
}

impl BatchKey {
    fn range(&self) -> Range<usize> {
        self.key.clone()
    }
}
