//! Counters of the values that are freed in the background, for `INFO`.
//!
//! A value of more than one block is freed through the free queue of its shard. It counts as
//! pending once its transaction is committed, and as freed when the queue is empty: the queue does
//! not know which of its nodes belong to the same value.

use heap::{Ptr, View};

use crate::layout::QUEUE_ROOT;
use crate::{Error, Txn, entry};

/// The values that a transaction put into free queues: pairs of a shard and a number of values.
#[derive(Default)]
pub(super) struct QueuedValues(Vec<(usize, u64)>);

impl QueuedValues {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

impl Txn<'_> {
    /// Releases an entry and everything that it owns.
    pub(super) fn release_entry(&mut self, shard: usize, at: Ptr) -> Result<(), Error> {
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

    /// Notes that the blocks of this many values go into the free queue of a shard with the commit.
    pub(crate) fn defer(&mut self, shard: usize, values: u64) {
        self.deferred.0.push((self.shards[shard].id(), values));
    }

    /// Counts the deferred values as pending, after the commit.
    #[cold]
    pub(super) fn count_deferred(&mut self) {
        for (shard, values) in self.deferred.0.drain(..) {
            self.shared.volatile(shard).counters.lazy_free_pending.add(values);
        }
    }
}
