//! Memory: what is done before a command that takes some, and when the heap has none left.
//!
//! There are two limits. `maxmemory` is looked at before a command is executed. The heap's own (the
//! limit of the pool, or the space of its file system) shows only when a block is asked for: then
//! what snapshots held is returned, what deletes left is freed, a snapshot that holds blocks is
//! given up, spans that are sparsely used are emptied, then keys are evicted by the policy, and the
//! command is run again. At last a block may be larger than what is put into it.
//! Each limit has its own error text ([`super::full_store`]).

use std::sync::PoisonError;
use std::time::Instant;

use keyspace::{Compacted, Policy};

use crate::engine::Engine;
use crate::execute::Evicted;
use crate::execute::queue;
use crate::failure::{self, Done, Failure};
use crate::session::Session;
use crate::table::Command;

/// Bytes that are evicted for the first try of a command that found no block, in addition to those
/// that it needs; each further try evicts twice as many, up to the limit.
const EVICTED_FIRST: u64 = 1 << 20;
const EVICTED_AT_ONCE: u64 = 4 << 20;
/// How often a command that finds no block is run again.
const TRIES: usize = 8;
/// Steps in which garbage is freed before a command is run again.
const STEPS: usize = 1000;
/// Steps in which held blocks are returned before a command is run again for the first time; four
/// times as many before each further try.
const HELD_STEPS: usize = 64;
/// Steps of compaction before a command is run again.
const COMPACTION_STEPS: usize = 1000;
/// Steps of compaction between two looks at the time.
const AHEAD_STEPS: usize = 16;

/// The limits of an engine's memory.
#[derive(Clone, Copy)]
pub struct MemoryLimits<'e> {
    engine: &'e Engine,
}

impl Engine {
    /// Returns the limits of its memory.
    #[inline]
    pub fn memory_limits(&self) -> MemoryLimits<'_> {
        MemoryLimits { engine: self }
    }
}

impl MemoryLimits<'_> {
    /// Evicts where a limit is exceeded, and refuses what takes memory over `maxmemory`.
    pub(crate) fn check(&self, session: &Session, command: &Command) -> Done {
        if queue::needs_memory(session, command) && !self.evict_until_under_limit(session)? {
            return Err(failure::OOM.into());
        }
        self.evict_excess(session);
        Ok(())
    }

    /// Evicts where a limit is exceeded; false if `maxmemory` still is. An error where others have
    /// the shards of all that could be evicted, and the session gives way.
    pub fn evict_until_under_limit(&self, session: &Session) -> Result<bool, Failure> {
        loop {
            match self.evict() {
                Evicted::Some => return Ok(true),
                _ if !self.engine.keyspace().exceeds_maxmemory() => return Ok(true),
                Evicted::Nothing => return Ok(false),
                Evicted::Locked(shard) if session.gives_way => {
                    return Err(Failure::locked([shard]));
                }
                Evicted::Locked(shard) => self.engine.wait_by_thread(&[shard]),
            }
        }
    }

    /// Evicts where a limit is exceeded, before any command: those that read do too, as in Redis.
    #[inline]
    pub(crate) fn evict_excess(&self, session: &Session) {
        if self.engine.keyspace().excess() > 0 && self.may_evict_for(session) {
            self.evict();
        }
    }

    /// Returns true if what exceeds a limit may be evicted for any command of this client: not
    /// before it has authenticated, nor where the policy deletes nothing.
    #[cold]
    pub(crate) fn may_evict_for(&self, session: &Session) -> bool {
        self.engine.keyspace().eviction().policy != Policy::NoEviction
            && !self.engine.config().loading()
            && !self.engine.permissions().must_authenticate(session)
            && self.engine.may_delete_now()
    }

    /// Deletes keys by the eviction policy until no limit is exceeded ([`Evicted::Some`]), or for
    /// as long as that can be done.
    fn evict(&self) -> Evicted {
        // What is being loaded has no limit: it is to become what it was.
        if self.engine.keyspace().excess() == 0 || self.engine.config().loading() {
            return Evicted::Some;
        }
        let began = Instant::now();
        let mut evicted = Evicted::Some;
        while self.engine.keyspace().excess() > 0 && evicted == Evicted::Some {
            evicted = self.engine.evict_some();
        }
        self.engine.observe_latency("eviction-cycle", began.elapsed());
        if self.engine.keyspace().excess() == 0 { Evicted::Some } else { evicted }
    }

    /// Makes space for a command of this many bytes that found no block for the `tries`-th time:
    /// returns what a snapshot held, frees what deletes left, lets all shards have what each has to
    /// spare, else gives the snapshot up, else moves what is in sparsely used spans together, else
    /// evicts, else lets larger blocks serve; true if that may have helped. No shard may be locked
    /// by this thread.
    pub fn free_for(&self, bytes: usize, tries: usize) -> bool {
        if tries >= TRIES {
            return false;
        }
        let held_steps = HELD_STEPS << (2 * tries);
        let returned = self.engine.keyspace().return_held(held_steps);
        let freed = self.free_garbage();
        let shared = self.engine.keyspace().heap().share_free_spans();
        // What was reserved without effect is among what is shared: after the first try that alone
        // helps nobody.
        let helped = returned || freed || shared;
        if helped && tries == 0 {
            return true;
        }
        // No write is refused, and no key evicted, for what a snapshot holds.
        if self.engine.keyspace().heap().give_snapshot_up() {
            self.engine.keyspace().return_held(held_steps);
            return true;
        }
        if returned && tries < TRIES / 2 {
            return true;
        }
        match self.engine.keyspace().compact_for(&self.engine.compaction, bytes, COMPACTION_STEPS) {
            Compacted::Freed(_) => return true,
            // The next try goes on with it, but no key need wait for it that may be evicted.
            Compacted::More if self.engine.keyspace().eviction().policy == Policy::NoEviction => {
                return true;
            }
            Compacted::More | Compacted::Nothing => {}
        }
        // Not only where nothing else helped: what the command reserved without effect is shared.
        self.evict_from_full(2 * bytes as u64, tries)
            || self.engine.keyspace().heap().allow_larger_blocks()
            || helped
    }

    fn free_garbage(&self) -> bool {
        let mut steps = 0;
        self.engine.keyspace().reclaim_until(|| {
            steps += 1;
            steps > STEPS
        })
    }

    /// Evicts as much as the command needs, and some more: blocks of one size serve another only
    /// where a whole span of them is free.
    fn evict_from_full(&self, needed: u64, tries: usize) -> bool {
        let keyspace = self.engine.keyspace();
        let more = (EVICTED_FIRST << tries.min(16)).min(EVICTED_AT_ONCE);
        let enough = keyspace.heap().used().saturating_sub(needed + more);
        let mut evicted = false;
        while keyspace.heap().used() > enough {
            if self.engine.evict_now() != Evicted::Some {
                break;
            }
            evicted = true;
            self.free_garbage();
        }
        keyspace.heap().share_free_spans();
        evicted
    }

    /// Takes some steps of making space of sparsely used spans, in time for those who are going to
    /// need it: in a store that is short of space and evicts nothing, or always. Returns true if
    /// there is more to do. Not while a snapshot is read, for which each move is a copy.
    pub fn compact_ahead(&self, always: bool) -> bool {
        let (keyspace, heap) = (self.engine.keyspace(), self.engine.keyspace().heap());
        let evicts = self.engine.keyspace().eviction().policy != Policy::NoEviction;
        let is_due = always || (!evicts && heap.is_short_of_spans());
        if !is_due || heap.snapshot_stats().is_taken || !self.engine.durability().takes_writes() {
            return false;
        }
        keyspace.compact_ahead(&self.engine.compaction, AHEAD_STEPS) != Compacted::Nothing
    }

    /// Returns how many entries were moved to make space.
    pub fn compacted(&self) -> u64 {
        heap::lock(&self.engine.compaction).unwrap_or_else(PoisonError::into_inner).moved
    }
}
