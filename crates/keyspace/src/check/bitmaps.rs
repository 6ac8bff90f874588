//! Rebuilding bitmaps from the blocks that are reachable: a block is in use if an entry, an index
//! or the free queue leads to it.
//!
//! While a shard is walked, all blocks of its spans count as allocated, so that the walk continues
//! through those whose bits were lost. Ordinary transactions set the bits of the blocks that it
//! reached. Blocks whose bits are set and that it did not reach are freed by the repair that
//! follows. Nothing is reserved in the shard before its bits have been restored.
//!
//! This relies on the indexes: if an index of the same shard is damaged too, entries in use would
//! look free. In that case the repair changes nothing more.

use std::collections::{BTreeMap, BTreeSet};

use heap::{Ledger, LostPart};

use crate::known_damage::Hits;
use crate::problem::Refusal;
use crate::walk::Walk;
use crate::{CheckError, Keyspace};

impl Keyspace {
    /// Prepares a pool that lists losses, or was stopped because of one, for [`Keyspace::repair`]:
    /// rebuilds the bitmaps that were lost, and marks the keys that were. Returns the number of
    /// blocks whose bits were restored. At rest: nobody else uses the keyspace.
    pub fn begin_repair(&self) -> Result<u64, Refusal> {
        let region = self.heap().region();
        region.repair();
        self.heap().begin_repair();
        let (_, lost) = region.lost();
        let shards = self.heap().lost_bitmaps(&lost);
        let mut blocks = 0;
        for &shard in &shards {
            blocks += self.rebuild_bitmaps(shard)?;
        }
        let parts = self.heap().resolving(|| self.heap().restore(&lost)).parts;
        self.refuse_lost_indexes(&shards, &parts)?;
        self.resolve_losses();
        match self.stopped().filter(|_| self.heap().is_poisoned()) {
            Some(why) => Err(Refusal::Metadata(why.to_owned())),
            None => Ok(blocks),
        }
    }

    /// Sets the bit of each reachable block of a shard; returns the number of bits that were not
    /// set.
    pub(super) fn rebuild_bitmaps(&self, shard: usize) -> Result<u64, Refusal> {
        let mut locked = self.heap().lock(shard);
        let mut index = None;
        let mut problem = |problem: CheckError| {
            if matches!(problem, CheckError::Index { .. }) {
                index.get_or_insert(problem);
            }
        };
        let walk = Walk::over(&self.shared, &locked, Ledger::of_all(&locked), &mut problem);
        let reached = walk.reached();
        match index {
            Some(index) => Err(unknown(shard, &index.to_string())),
            None => Ok(self.heap().resolving(|| locked.allocate_reached(&reached))?),
        }
    }

    /// Refuses a repair if a part of an index was lost: a lost line reads as free slots, so the
    /// entries of those slots were not reached.
    fn refuse_lost_indexes(
        &self,
        shards: &BTreeSet<usize>,
        parts: &[LostPart],
    ) -> Result<(), Refusal> {
        let mut blocks: BTreeMap<usize, Hits> = BTreeMap::new();
        for part in parts {
            match *part {
                LostPart::Block { shard, at, from, to } if shards.contains(&shard) => {
                    let hits = blocks.entry(shard).or_default();
                    hits.entry(at.raw()).or_default().push((from, to));
                }
                _ => {}
            }
        }
        for (shard, hits) in blocks {
            let locked = self.heap().lock(shard);
            if !self.resolver().hit_indexes(&locked, &hits).1.is_empty() {
                return Err(unknown(shard, "a part of an index was lost with a bitmap"));
            }
        }
        Ok(())
    }
}

fn unknown(shard: usize, why: &str) -> Refusal {
    Refusal::Metadata(format!("shard {shard}: which blocks are in use is not known: {why}"))
}
