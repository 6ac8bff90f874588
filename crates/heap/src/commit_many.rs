//! The commit of a transaction on several shards: one fence for any number of them.
//!
//! Each shard gets a record of its own, and the records are *linked* in a circle: each names the next one's shard and
//! sequence number. All are written and flushed, one fence makes them durable together, then the words are stored,
//! and only then are the locks released.
//!
//! After a crash the transaction counts if all its records are whole. One that is followed by another record, or lies
//! behind its tail, was fenced, since the shard's lock is held until then; and the same fence made all of them durable.
//! So `judge` follows the links over whole newest records until it is back, or meets a shard that has gone on.

use crate::commit::{Draft, abandon, draft, finish, log, one, store_words, undo};
use crate::error::CommitError;
use crate::heap::Heap;
use crate::plan;
use crate::record::Link;
use crate::shard::Shard;
use crate::step::{self, Step};

impl Heap {
    /// Commits the open transactions of several shards as one: all are in effect after a crash, or none. Costs one fence.
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
        if !self.volatile {
            self.log_linked(shards)?;
            if !Step::StoreAllAfterFence.done() {
                shards.iter_mut().for_each(|shard| store_words(self, shard.id(), &mut shard.state));
            }
            step::fence(&self.region, Step::FenceCommitAll);
            if self.region.failed() {
                shards.iter_mut().for_each(|shard| abandon(self, shard.id(), &mut shard.state));
                return Err(self.poison());
            }
        }
        for shard in shards.iter_mut() {
            store_words(self, shard.id(), &mut shard.state);
            finish(self, shard.id(), &mut shard.state);
        }
        Ok(())
    }

    fn log_linked(&self, shards: &mut [&mut Shard<'_>]) -> Result<(), CommitError> {
        let drafts = self.draft_all(shards)?;
        let lsn = self.take_lsn();
        let mut links: Vec<Link> = shards
            .iter()
            .map(|shard| Link { shard: shard.id(), seq: shard.state.ring.seq })
            .collect();
        links.rotate_left(1);
        for ((shard, draft), link) in shards.iter_mut().zip(drafts).zip(links) {
            let link = Step::LinkRecords.done().then_some(link);
            log(self, &mut shard.state, draft, lsn, link);
        }
        Ok(())
    }

    /// Drafts all records before any is written, since one may find no room.
    fn draft_all(&self, shards: &mut [&mut Shard<'_>]) -> Result<Vec<Draft>, CommitError> {
        let mut drafts = Vec::with_capacity(shards.len());
        for at in 0..shards.len() {
            match draft(self, shards[at].id(), &mut shards[at].state, Step::LinkRecords.done()) {
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
}
