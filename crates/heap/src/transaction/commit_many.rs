//! The commit of a transaction on several shards: one fence for any number of them.
//!
//! Each shard gets its own record, and the records are *linked* in a circle: each contains the
//! shard and the sequence number of the next. All are written and flushed, one fence makes them
//! durable together, then the words are stored, and only then are the locks released.
//!
//! After a crash the transaction counts if all its records are valid. A record that is followed by
//! another one, or is before its log's tail, was fenced, since the shard's lock is held until then;
//! and the same fence made all of them durable. So [`crate::recovery::validate`] follows the links
//! over valid newest records until it gets back to the first, or reaches a shard that has
//! continued.

use super::commit::{abandon, finish, one, or_poison, store_words, undo};
use super::heap::Heap;
use super::plan;
use super::shard::Shard;
use super::write_record;
use crate::error::CommitError;
use crate::fault_points::{self, FaultPoint};
use crate::log::record::{Link, RecordKind};

impl Heap {
    /// Commits the open transactions of several shards as one: after a crash, all are in effect or
    /// none. Costs one fence.
    pub fn commit_all(&self, shards: &mut [Shard<'_>]) -> Result<(), CommitError> {
        let mut dirty = 0;
        let mut last = 0;
        for (at, shard) in shards.iter_mut().enumerate() {
            if shard.is_dirty() {
                (dirty, last) = (dirty + 1, at);
            } else if !shard.state.tx.is_blank() {
                shard.rollback();
            }
        }
        match dirty {
            0 => Ok(()),
            1 => one(self, shards[last].id(), &mut shards[last].state),
            _ => or_poison(self, || self.commit_many(shards)),
        }
    }

    fn commit_many(&self, shards: &mut [Shard<'_>]) -> Result<(), CommitError> {
        if let Err(refused) = self.check_open() {
            abandon_all(self, shards);
            return Err(refused);
        }
        let kind = RecordKind { linked: FaultPoint::LinkRecords.is_enabled(), long: false };
        for shard in shards.iter_mut().filter(|shard| shard.is_dirty()) {
            shard.state.committing = true;
            plan::make(self, shard.id(), &mut shard.state, kind);
        }
        if !self.volatile {
            self.log_linked(shards)?;
            if !FaultPoint::StoreAllAfterFence.is_enabled() {
                committing(shards)
                    .for_each(|shard| store_words(self, shard.id(), &mut shard.state));
            }
            fault_points::fence(&self.region, FaultPoint::FenceCommitAll);
            if self.region.failed() {
                let poisoned = self.poison();
                abandon_all(self, shards);
                return Err(poisoned);
            }
        }
        for shard in committing(shards) {
            store_words(self, shard.id(), &mut shard.state);
            finish(self, shard.id(), &mut shard.state);
        }
        Ok(())
    }

    /// Writes all records, each with a link to the next.
    fn log_linked(&self, shards: &mut [Shard<'_>]) -> Result<(), CommitError> {
        // All are drafted before any is written: one may find no space.
        let drafted =
            committing(shards).try_for_each(|shard| write_record::draft(self, &mut shard.state));
        if let Err(full) = drafted {
            committing(shards).for_each(|shard| undo(self, shard.id(), &mut shard.state));
            return Err(full);
        }
        let lsn = self.take_lsn();
        let first = committing(shards).next().map(|first| link(first));
        let mut rest = committing(shards).peekable();
        while let Some(shard) = rest.next() {
            let next = rest.peek().map(|next| link(next)).or(first);
            write_record::write(self, &mut shard.state, lsn, next);
        }
        Ok(())
    }
}

/// Returns the shards that the commit in progress changes.
fn committing<'s, 'h>(shards: &'s mut [Shard<'h>]) -> impl Iterator<Item = &'s mut Shard<'h>> {
    shards.iter_mut().filter(|shard| shard.state.committing)
}

/// Returns a link to the record that a shard writes next.
fn link(shard: &Shard<'_>) -> Link {
    Link { shard: shard.id(), seq: shard.state.ring.seq }
}

fn abandon_all(heap: &Heap, shards: &mut [Shard<'_>]) {
    shards.iter_mut().for_each(|shard| abandon(heap, shard.id(), &mut shard.state));
}
