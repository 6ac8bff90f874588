//! Compaction: making spans free at once, for a writer that found no space, or before space runs
//! out.
//!
//! Deletes leave free blocks of the sizes that were deleted. Other sizes can use that space only
//! when whole spans are free. So a shard plans which of its spans to empty, such that their blocks
//! fit into the others ([`heap::Shard::plan_evacuation`]). After its plan the shard rests until
//! enough bytes are new: others freed them since it was planned, or they were found in spans that a
//! restart had left unknown. A writer that needs the space requires only a few new bytes. Work
//! ahead of need requires a share of the shard, which grows while such plans gain little.
//!
//! First, the blocks of those spans are treated as entries: a block is an entry if its key leads
//! back to it through the index, and is moved. So the first spans are free after a few steps,
//! however large the shard is. The rest (members, nodes, chunks, whose owners only a walk finds) is
//! moved by a walk through the whole shard. A block for which there is no space stays, and its span
//! is not emptied: a block in the way costs only its own span.
//!
//! Each step locks one shard, for about [`BLOCKS`] blocks, and never waits: if the shard is locked,
//! the next step tries again. It moves blocks in one transaction, so that a crash leaves each block
//! at its old or at its new place. The caller keeps the position ([`Compaction`]) and lets nobody
//! else take steps at the same time.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use heap::{EvacuationCursor, Ptr, Shard, View};
use structures::index::Index;

use super::Defragmentation;
use crate::layout::{expiry_root, keys_root, physical_databases};
use crate::{CommitError, Keyspace, verify};

/// How many blocks a step moves, or entries it looks at.
const BLOCKS: usize = 64;
/// The size of a span in bytes.
const SPAN: u64 = heap::MAX_BLOCK as u64;
/// The minimum number of bytes that must be new in a shard since its last plan before it is planned
/// again.
const WORTH: u64 = 128 << 10;
/// The minimum share of a shard's bytes that must be new for another plan ahead of need: a 64th. It
/// grows up to an eighth while such plans gain little.
const SHARE_AHEAD: u64 = 64;
const MOST_AHEAD: u64 = 8;
/// Once this many spans have been emptied, they are shared at once and not only at the end.
const SHARED: usize = 16;
/// How many times in a row a shard may be found locked; after that it is left for later.
const PATIENCE: u32 = 16;

/// The stage of the work in a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Plan,
    /// Moving entries out of the spans that are to be emptied.
    Entries(EvacuationCursor),
    /// Walking through the whole shard.
    Walk(Defragmentation),
    /// Making free spans available to all; then the moving of entries continues at the cursor.
    /// `None`: the work in the shard ends.
    Share(Option<EvacuationCursor>),
}

/// How long a shard rests.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// The count of new bytes when the shard's last plan began, plus the bytes freed by moves
    /// since.
    since: u64,
    /// How many bytes must be new for another plan ahead of need.
    ahead: u64,
}

/// The state of a compaction between two steps.
#[derive(Debug, Default)]
pub struct Compaction {
    shard: usize,
    stage: Stage,
    /// How many spans were still to be emptied when spans were last shared.
    to_empty: usize,
    /// [`Rest::since`] for the present plan: the count of new bytes when it began, plus the bytes
    /// freed by moves since.
    planned: Option<u64>,
    /// Spans that the present plan made free for all.
    gained: usize,
    /// For each shard, the rest that began when its last plan ended.
    rests: Vec<Option<Rest>>,
    /// How many shards in a row gained nothing. Shards that rest ahead of need count in the second
    /// only.
    fruitless: usize,
    fruitless_ahead: usize,
    /// How many times in a row the shard was found locked.
    found_locked: u32,
    /// Whether one of the shards that gained nothing was left because it was locked.
    left_any: bool,
    /// Shards that were left because they were locked; their plans are ended at the next visit.
    left: BTreeSet<usize>,
    /// Blocks moved.
    pub moved: u64,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compacted {
    /// There may be more to do.
    More,
    /// This many spans are now free for all; there may be more to do.
    Freed(usize),
    /// No shard can gain anything.
    Nothing,
}

impl Compaction {
    fn next_shard(&mut self, shards: usize) {
        (self.shard, self.stage) = ((self.shard + 1) % shards, Stage::Plan);
        (self.found_locked, self.planned, self.gained) = (0, None, 0);
    }

    /// Leaves a shard that gained nothing.
    fn leave(&mut self, shards: usize) -> Compacted {
        self.next_shard(shards);
        (self.fruitless, self.fruitless_ahead) = (self.fruitless + 1, self.fruitless_ahead + 1);
        if self.fruitless < shards {
            return Compacted::More;
        }
        self.after_all()
    }

    /// Leaves a shard that rests ahead of need.
    fn leave_ahead(&mut self, shards: usize) -> Compacted {
        self.next_shard(shards);
        self.fruitless_ahead += 1;
        if self.fruitless_ahead < shards {
            return Compacted::More;
        }
        self.after_all()
    }

    /// Returns the result after all shards were left: [`Compacted::More`] if one of them was
    /// locked.
    fn after_all(&mut self) -> Compacted {
        (self.fruitless, self.fruitless_ahead) = (0, 0);
        if std::mem::take(&mut self.left_any) { Compacted::More } else { Compacted::Nothing }
    }

    /// Leaves a shard that others have held for long.
    fn leave_locked(&mut self, shards: usize) -> Compacted {
        self.left.insert(self.shard);
        self.left_any = true;
        self.leave(shards)
    }

    fn is_done(&self, news: u64, is_ahead: bool) -> bool {
        let rest = self.rests.get(self.shard).copied().flatten();
        rest.is_some_and(|rest| {
            let least = if is_ahead { rest.ahead } else { WORTH };
            news.saturating_sub(rest.since) < least
        })
    }

    /// Lets the shard rest until enough bytes are new. Bytes that others freed during the plan are
    /// new: the plan does not cover them.
    fn rest(&mut self, locked: &Shard<'_>, shards: usize) {
        self.rests.resize(shards, None);
        let rest = &mut self.rests[self.shard];
        let share = |part: u64| (locked.used() / part).max(WORTH);
        let (least, most) = (share(SHARE_AHEAD), share(MOST_AHEAD));
        let waited = rest.map_or(least, |rest| rest.ahead);
        let is_little = self.gained as u64 * SPAN < waited / 4;
        let ahead = if is_little { (2 * waited).clamp(least, most) } else { least };
        *rest = self.planned.map(|since| Rest { since, ahead });
    }
}

impl Keyspace {
    /// Makes spans free, in at most `steps` steps, until there are enough for a writer that found
    /// no space for `bytes` bytes. The caller holds no shard. Threads that do so at the same time
    /// take steps in turn.
    pub fn compact_for(&self, at: &Mutex<Compaction>, bytes: usize, steps: usize) -> Compacted {
        let enough = self.heap().spans_for(bytes);
        self.compact_steps(at, steps, enough, false)
    }

    /// Takes up to `steps` steps before space is needed. Shards in which compaction gains little
    /// rest.
    pub fn compact_ahead(&self, at: &Mutex<Compaction>, steps: usize) -> Compacted {
        self.compact_steps(at, steps, usize::MAX, true)
    }

    fn compact_steps(
        &self,
        at: &Mutex<Compaction>,
        steps: usize,
        enough: usize,
        is_ahead: bool,
    ) -> Compacted {
        let (mut freed, mut is_done) = (0, false);
        for _ in 0..steps {
            let mut at = heap::lock(at).unwrap_or_else(PoisonError::into_inner);
            match self.step(&mut at, is_ahead) {
                Ok(Compacted::Freed(spans)) => freed += spans,
                Ok(Compacted::More) => {}
                Ok(Compacted::Nothing) | Err(_) => is_done = true,
            }
            if is_done || freed > enough {
                break;
            }
        }
        match freed {
            0 if is_done => Compacted::Nothing,
            0 => Compacted::More,
            _ => Compacted::Freed(freed),
        }
    }

    /// Takes a step of emptying sparsely used spans, for a caller that needs space now.
    pub fn compact_step(&self, at: &mut Compaction) -> Result<Compacted, CommitError> {
        self.step(at, false)
    }

    fn step(&self, at: &mut Compaction, is_ahead: bool) -> Result<Compacted, CommitError> {
        let shards = self.shards();
        at.shard %= shards;
        if let Stage::Share(next) = at.stage {
            return Ok(self.share(at, next));
        }
        let held = self.time_lock_hold();
        let Some(mut locked) = self.heap().try_lock(at.shard) else {
            return Ok(found_locked(at, shards));
        };
        at.found_locked = 0;
        if at.left.remove(&at.shard) {
            locked.end_evacuation();
        }
        let (news, freed) = (locked.news(), locked.freed());
        let begins = at.planned.is_none();
        let begun = *at.planned.get_or_insert(news);
        let done = match at.stage {
            Stage::Plan if begins && at.is_done(news, false) => Ok(at.leave(shards)),
            Stage::Plan if begins && is_ahead && at.is_done(news, true) => {
                Ok(at.leave_ahead(shards))
            }
            Stage::Plan => self.plan(&mut locked, at),
            Stage::Entries(from) => self.move_entries(&mut locked, at, from),
            Stage::Walk(from) => self.walk(&mut locked, at, from),
            Stage::Share(_) => Ok(Compacted::More),
        };
        if at.planned.is_some() {
            at.planned = Some(begun + locked.freed().saturating_sub(freed));
        }
        if done.is_err() {
            locked.end_evacuation();
            at.next_shard(shards);
        }
        drop(locked);
        held.done();
        done
    }

    fn plan(&self, locked: &mut Shard<'_>, at: &mut Compaction) -> Result<Compacted, CommitError> {
        match locked.plan_evacuation()? {
            None => Ok(Compacted::More),
            Some(0) => {
                at.rest(locked, self.shards());
                Ok(at.leave(self.shards()))
            }
            Some(spans) => {
                at.to_empty = spans;
                at.stage = Stage::Entries(EvacuationCursor::default());
                Ok(Compacted::More)
            }
        }
    }

    fn move_entries(
        &self,
        locked: &mut Shard<'_>,
        at: &mut Compaction,
        from: EvacuationCursor,
    ) -> Result<Compacted, CommitError> {
        let (blocks, next) = locked.evacuated_blocks(from, BLOCKS);
        locked.allow_reserve(true);
        let moved = blocks.into_iter().filter(|block| self.move_entry(locked, *block)).count();
        locked.commit()?;
        at.moved += moved as u64;
        let left = locked.evacuated_spans();
        at.stage = match next {
            _ if left == 0 => Stage::Share(None),
            Some(next) if left + SHARED <= at.to_empty => {
                at.to_empty = left;
                Stage::Share(Some(next))
            }
            Some(next) => Stage::Entries(next),
            None => Stage::Walk(Defragmentation::default()),
        };
        Ok(Compacted::More)
    }

    fn walk(
        &self,
        locked: &mut Shard<'_>,
        at: &mut Compaction,
        from: Defragmentation,
    ) -> Result<Compacted, CommitError> {
        locked.allow_reserve(true);
        let next = self.defragment_locked(locked, from, BLOCKS)?;
        let is_done = locked.evacuated_spans() == 0;
        at.moved += next.map_or(0, |next| next.moved.saturating_sub(from.moved));
        at.stage = match next {
            Some(next) if !is_done => Stage::Walk(next),
            _ => Stage::Share(None),
        };
        Ok(Compacted::More)
    }

    /// Makes the shard's free spans available to all, and continues in the shard at `next`, or ends
    /// there.
    fn share(&self, at: &mut Compaction, next: Option<EvacuationCursor>) -> Compacted {
        let shards = self.shards();
        let Some(freed) = self.heap().share_free_spans_of(at.shard) else {
            return found_locked(at, shards);
        };
        at.found_locked = 0;
        at.gained += freed;
        if freed > 0 {
            (at.fruitless, at.fruitless_ahead) = (0, 0);
        }
        match next {
            Some(next) => at.stage = Stage::Entries(next),
            None => {
                let Some(mut locked) = self.heap().try_lock(at.shard) else {
                    return Compacted::Freed(freed);
                };
                locked.end_evacuation();
                at.rest(&locked, shards);
                drop(locked);
                if freed == 0 {
                    return at.leave(shards);
                }
                at.next_shard(shards);
            }
        }
        Compacted::Freed(freed)
    }

    /// Moves a block if it is an entry; returns whether it was moved. The block may contain
    /// anything.
    fn move_entry(&self, locked: &mut Shard<'_>, block: Ptr) -> bool {
        let Some(hash) = self.hash_if_entry(locked, block) else { return false };
        for db in physical_databases() {
            let index = Index::at(locked.root(keys_root(db)));
            if locked.word(locked.root(keys_root(db))) == 0 {
                continue;
            }
            let Some(slot) = index.find(locked, hash, |at| at == block) else { continue };
            let expiring = Index::at(locked.root(expiry_root(db)));
            let new = self.try_relocate(locked, expiring, block);
            if let Some(new) = new {
                index.replace(locked, slot, new);
            }
            return new.is_some();
        }
        false
    }

    /// Returns the hash of the block's key if its bytes look like those of an entry.
    fn hash_if_entry(&self, locked: &Shard<'_>, block: Ptr) -> Option<u64> {
        let key = verify::intact_key(locked, block, locked.capacity(block))?;
        Some(self.shared.hashing.hash(&key))
    }
}

/// Handles a locked shard without waiting: its holder is done soon, and a later step succeeds, or
/// takes long, and the shard is left.
fn found_locked(at: &mut Compaction, shards: usize) -> Compacted {
    std::thread::yield_now();
    at.found_locked += 1;
    if at.found_locked > PATIENCE {
        return at.leave_locked(shards);
    }
    Compacted::More
}
