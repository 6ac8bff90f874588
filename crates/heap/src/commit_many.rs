//! The commit of a transaction on several shards: three fences for any number of them.
//!
//! 1. Each shard's part, with its new bytes, goes into its ring; one fence.
//! 2. One line, a *commit slot*, says that the transaction with this id is committed; one fence: the commit point.
//! 3. The words are stored; a *decided* marker goes into each ring; one fence. Only then are the locks released and
//!    the slot is free: a part is never followed by anything but its marker.
//!
//! ```text
//! slot:  0 crc32c of 8..24 u32 | epoch u32    8 id    16 shards u64    24 zero
//! ```
//!
//! Ids are log sequence numbers, so that none is used twice in a life, and slots carry the epoch. There are
//! many slots, so that disjoint transactions do not wait for each other.

#![allow(unsafe_code, reason = "the commit slot is stored in the pool")]

use crate::commit::{abandon, draft, finish, log, log_decided, one, store_words, undo};
use crate::error::CommitError;
use crate::heap::Heap;
use crate::layout::{COMMIT_SLOTS, LINE, SLOTS_AT};
use crate::plan;
use crate::record::Kind;
use crate::shard::Shard;
use crate::step::{self, Step};
use std::sync::{MutexGuard, PoisonError};

impl Heap {
    /// Commits the open transactions of several shards as one: all are in effect after a crash, or none. Costs three
    /// fences, or one when only one of them changes anything.
    pub fn commit_all(&self, shards: &mut [Shard<'_>]) -> Result<(), CommitError> {
        let mut dirty: Vec<&mut Shard<'_>> = Vec::new();
        for shard in shards {
            if shard.is_dirty() {
                dirty.push(shard);
            } else {
                shard.rollback();
            }
        }
        match dirty.as_mut_slice() {
            [] => Ok(()),
            [only] => one(self, only.id(), &mut only.state),
            many => self.commit_many(many),
        }
    }

    fn commit_many(&self, shards: &mut [&mut Shard<'_>]) -> Result<(), CommitError> {
        if let Err(refused) = self.check_open() {
            shards.iter_mut().for_each(|shard| abandon(self, shard.id(), &mut shard.state));
            return Err(refused);
        }
        for shard in shards.iter_mut() {
            shard.state.committing = true;
            plan::make(self, shard.id(), &mut shard.state);
        }
        if self.volatile {
            for shard in shards.iter_mut() {
                store_words(self, shard.id(), &mut shard.state);
                finish(self, shard.id(), &mut shard.state);
            }
            return Ok(());
        }
        let drafts = self.draft_parts(shards)?;
        let id = self.take_lsn();
        let (slot_at, _slot) = self.commit_slot(id);
        for (shard, draft) in shards.iter_mut().zip(drafts) {
            log(self, &mut shard.state, draft, id);
        }
        step::fence(&self.region, Step::FenceParts);
        self.write_slot(slot_at, id, shards.len() as u64);
        step::fence(&self.region, Step::FenceSlot);
        if self.region.failed() {
            shards.iter_mut().for_each(|shard| abandon(self, shard.id(), &mut shard.state));
            return Err(self.poison());
        }
        for shard in shards.iter_mut() {
            store_words(self, shard.id(), &mut shard.state);
            log_decided(self, &mut shard.state, id);
        }
        step::fence(&self.region, Step::FenceDecided);
        for shard in shards.iter_mut() {
            finish(self, shard.id(), &mut shard.state);
        }
        if self.region.failed() { Err(self.poison()) } else { Ok(()) }
    }

    /// Drafts each shard's part before any is logged, since one may find no room.
    fn draft_parts(
        &self,
        shards: &mut [&mut Shard<'_>],
    ) -> Result<Vec<crate::commit::Draft>, CommitError> {
        let mut drafts = Vec::with_capacity(shards.len());
        for at in 0..shards.len() {
            match draft(self, shards[at].id(), &mut shards[at].state, Kind::Part) {
                Ok(draft) => drafts.push(draft),
                Err(full) => {
                    let others = shards.iter_mut().enumerate().filter(|&(i, _)| i != at);
                    others.for_each(|(_, other)| undo(self, other.id(), &mut other.state));
                    return Err(full);
                }
            }
        }
        Ok(drafts)
    }

    fn write_slot(&self, at: u64, id: u64, shards: u64) {
        let words = slot_words(self.epoch, id, shards);
        for (i, word) in words.into_iter().enumerate() {
            // SAFETY: the slot's lock is held.
            unsafe { self.region.store(at + 8 * i as u64, word) };
        }
        step::flush(&self.region, at, 24, Step::FlushSlot);
    }

    /// A free commit slot: its place and its lock. Each transaction begins at another one, so that they do not meet, and
    /// no line is flushed again soon.
    fn commit_slot(&self, id: u64) -> (u64, MutexGuard<'_, ()>) {
        let first = (id % COMMIT_SLOTS as u64) as usize;
        let place = |n: usize| SLOTS_AT + (n % COMMIT_SLOTS) as u64 * LINE;
        for n in first..first + COMMIT_SLOTS {
            if let Ok(guard) = self.commit_slots[n % COMMIT_SLOTS].try_lock() {
                return (place(n), guard);
            }
        }
        (place(first), self.commit_slots[first].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The words of a commit slot.
pub(crate) fn slot_words(epoch: u32, id: u64, shards: u64) -> [u64; 3] {
    let crc = crate::record::checksum_words(epoch, &[id, shards]);
    [u64::from(crc) | u64::from(epoch) << 32, id, shards]
}
