//! Values that are freed in the background, as `INFO` counts them.
//!
//! A value of more than one block goes through the free queue of its shard. It counts as pending
//! once its transaction is committed, and as freed when the queue of its shard is empty: the queue
//! does not know which of its nodes belong to one value.

use heap::{Ptr, View};

use crate::layout::QUEUE_ROOT;
use crate::{Error, Keyspace, Txn, entry};

/// What a transaction gave to the free queues: shard, and how many values.
#[derive(Default)]
pub(crate) struct Deferred(Vec<(usize, u64)>);

impl Deferred {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

impl Txn<'_> {
    /// Releases an entry with all that it owns.
    pub(crate) fn release_entry(&mut self, shard: usize, at: Ptr) -> Result<(), Error> {
        let queue = self.queue(shard);
        let store = &mut self.shards[shard];
        let root = store.root(QUEUE_ROOT);
        let before = store.word(root);
        entry::release(store, queue, at)?;
        if store.word(root) != before {
            self.defer(shard, 1);
        }
        Ok(())
    }

    /// Counts values whose blocks are in the free queue of a shard from the commit on.
    pub(crate) fn defer(&mut self, shard: usize, values: u64) {
        self.deferred.0.push((self.shards[shard].id(), values));
    }

    /// Counts what was deferred, after the commit.
    #[cold]
    pub(crate) fn count_deferred(&mut self) {
        for (shard, values) in self.deferred.0.drain(..) {
            self.keyspace.volatile(shard).counters.lazy_free_pending.add(values);
        }
    }
}

impl Keyspace {
    /// Counts what was pending in a shard as freed: its queue is empty, and it is locked.
    pub(crate) fn count_freed(&self, shard: usize) {
        let counters = &self.volatile(shard).counters;
        counters.lazily_freed.add(counters.lazy_free_pending.take());
    }
}
