//! The commit of a transaction: its changes become durable, and the clients that watch changed keys
//! are notified.

use std::sync::atomic::Ordering;

use heap::Shard;

use super::{KeyLocation, Txn};
use crate::changes::Changes;
use crate::layout::{MAP_ROOT, map_word};
use crate::{CommitError, Event};

impl Txn<'_> {
    /// Returns true if there is anything to commit.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.shards.iter().any(Shard::is_dirty)
    }

    /// Returns the locked shards that have anything to commit.
    pub fn dirty(&self) -> impl Iterator<Item = usize> {
        self.shards.iter().filter(|shard| shard.is_dirty()).map(Shard::id)
    }

    /// Makes the changes durable and notifies watches. The locks are kept until the transaction is
    /// dropped; changes after the commit form a new transaction under the same locks.
    #[inline]
    pub fn commit(&mut self) -> Result<(), CommitError> {
        if self.shared.keeps_position.load(Ordering::Relaxed) {
            self.move_position();
        }
        match self.shards.as_mut_slice() {
            [one] => one.commit()?,
            all => self.shared.heap().commit_all(all)?,
        }
        debug_assert!(!self.is_dirty(), "a commit leaves nothing staged");
        if self.map != self.shared.map.load(Ordering::Relaxed) {
            self.shared.map.store(self.map, Ordering::Release);
        }
        if let Some(mut changes) = self.changes.take() {
            if !self.committed {
                self.notify_watches(&mut changes);
            }
            self.changes = Some(changes);
        }
        if self.deferred.len() > 0 {
            self.count_deferred();
        }
        self.committed = true;
        Ok(())
    }

    #[cold]
    fn notify_watches(&self, changes: &mut Changes) {
        for flushed in changes.flushed.drain(..) {
            let watches = &self.volatile(flushed.shard).watches;
            watches.touch_flushed(flushed.db, &flushed.key, flushed.was_there, flushed.after);
        }
        for (shard, change) in changes.iter() {
            let volatile = self.volatile(shard);
            match change.event {
                Event::Expired => volatile.counters.expired.add(1),
                Event::FieldExpired => volatile.counters.expired_fields.add(1),
                Event::Evicted => volatile.counters.evicted.add(1),
                Event::Created
                | Event::Deleted
                | Event::Flushed
                | Event::MetadataOnly
                | Event::Missed
                | Event::Written => {}
            }
            if !matches!(change.event, Event::Flushed | Event::MetadataOnly | Event::Missed)
                && !volatile.watches.is_empty()
            {
                let key = self.key(change.key);
                let place = KeyLocation { shard, db: self.physical(change.db) };
                volatile.watches.touch(change.db, change.key, self.after(place, &key));
            }
        }
    }

    /// Stages a root word of shard 0, which must be locked: the words that concern all shards are
    /// there.
    pub(crate) fn set_root(&mut self, root: usize, word: u64) {
        let first = &mut self.shards[0];
        assert!(first.id() == 0, "a root word of another shard is never read");
        let root = first.root(root);
        first.set(root, word);
    }

    /// Stages the word that holds the map of databases. All shards must be locked.
    pub(crate) fn set_map(&mut self, map: u64) {
        self.set_root(MAP_ROOT, map_word(map));
        self.map = map;
        self.forget();
    }
}
