//! Memory: the checks before a command that takes some, and the steps when the heap has none left.
//!
//! There are three limits. Two are checked before a command is executed: `maxmemory`, from which on
//! keys are evicted, or the command is refused; and, if there is an eviction policy, 15/16 of the
//! heap's own limit, from which on keys are evicted too. The third, the heap's own (the limit of
//! the pool, or the space of its file system), shows only when a block is requested. Then, step by
//! step, blocks that snapshots held are returned, garbage of deletes is freed, a snapshot
//! that holds blocks is given up, sparsely used spans are emptied, and keys are evicted by the
//! policy; the command is run again after a step that helped. At last a block may be larger than
//! its content.

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
/// that it needs; each further try evicts twice as many, up to the second number.
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
/// Steps of compaction between two looks at the clock.
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
    /// Evicts if a limit is exceeded, and refuses commands that take memory while `maxmemory` is
    /// exceeded.
    pub(crate) fn check(&self, session: &Session, command: &Command) -> Done {
        if queue::needs_memory(session, command) && !self.evict_until_under_limit(session)? {
            return Err(failure::OOM.into());
        }
        self.evict_excess(session);
        Ok(())
    }

    /// Evicts if a limit is exceeded. Returns false if `maxmemory` still is; an error if others
    /// have locked the shards of all that could be evicted, and the session gives way.
    pub fn evict_until_under_limit(&self, session: &Session) -> Result<bool, Failure> {
        loop {
            match self.evict() {
                None => return Ok(true),
                Some(_) if !self.engine.keyspace().exceeds_maxmemory() => return Ok(true),
                Some(Evicted::Locked(shard)) if session.gives_way => {
                    return Err(Failure::locked([shard]));
                }
                Some(Evicted::Locked(shard)) => self.engine.wait_by_thread(&[shard]),
                Some(Evicted::Keys | Evicted::NoCandidate) => return Ok(false),
            }
        }
    }

    /// Evicts if a limit is exceeded, before any command: even a read does so, as in Redis.
    #[inline]
    pub(crate) fn evict_excess(&self, session: &Session) {
        if self.engine.keyspace().excess() > 0 && self.may_evict_for(session) {
            self.evict();
        }
    }

    /// Returns true if any command of this client may evict keys when a limit is exceeded: not
    /// before it has authenticated, nor if the policy deletes nothing.
    #[cold]
    pub(crate) fn may_evict_for(&self, session: &Session) -> bool {
        self.engine.keyspace().eviction().policy != Policy::NoEviction
            && !self.engine.config().loading()
            && !self.engine.permissions().must_authenticate(session)
            && self.engine.may_delete_unasked()
    }

    /// Deletes keys by the eviction policy until no limit is exceeded. If one stays exceeded,
    /// returns the result of the last step, which evicted nothing.
    fn evict(&self) -> Option<Evicted> {
        // The limits do not apply while data is loaded, nor while nothing may be deleted: as in
        // Redis, the data may exceed them for as long as clients are paused. A replica evicts
        // nothing: its primary sends a DEL.
        if self.engine.keyspace().excess() == 0
            || self.engine.config().loading()
            || !self.engine.may_delete_unasked()
        {
            return None;
        }
        let began = Instant::now();
        let mut last = Evicted::Keys;
        // A log that has little space by then delays the next write, and not this thread.
        while self.engine.keyspace().excess() > 0
            && last == Evicted::Keys
            && !self.engine.durability().is_nearly_full()
        {
            last = self.engine.evict_if_over_limit();
        }
        self.engine.observe_latency("eviction-cycle", began.elapsed());
        Some(last).filter(|last| *last != Evicted::Keys && self.engine.keyspace().excess() > 0)
    }

    /// Makes space for a command of this many bytes that found no block in try number `tries`.
    /// Returns blocks that a snapshot held, frees garbage of deletes, and lets shards share their
    /// spare spans; else gives the snapshot up, else compacts sparsely used spans, else evicts,
    /// else allows larger blocks. Returns true if that may have helped. No shard may be locked by
    /// this thread.
    pub fn free_for(&self, bytes: usize, tries: usize) -> bool {
        if tries >= TRIES {
            return false;
        }
        let held_steps = HELD_STEPS << (2 * tries);
        let returned = self.engine.keyspace().return_held(held_steps);
        let freed = self.free_garbage();
        let shared = self.engine.keyspace().heap().share_free_spans();
        // Blocks reserved without effect are among those shared, so that after the first try this
        // alone helps nobody.
        let helped = returned || freed || shared;
        if helped && tries == 0 {
            return true;
        }
        // No write is refused, and no key evicted, for blocks that a snapshot holds.
        if self.engine.keyspace().heap().give_snapshot_up() {
            self.engine.keyspace().return_held(held_steps);
            return true;
        }
        if returned && tries < TRIES / 2 {
            return true;
        }
        match self.engine.keyspace().compact_for(&self.engine.compaction, bytes, COMPACTION_STEPS) {
            Compacted::Freed(_) => return true,
            // The next try goes on with it, but need not wait for it if keys may be evicted.
            Compacted::More if self.engine.keyspace().eviction().policy == Policy::NoEviction => {
                return true;
            }
            Compacted::More | Compacted::Nothing => {}
        }
        // Not only if nothing else helped: blocks that the command reserved without effect are
        // shared.
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

    /// Evicts as much as the command needs, and some more: blocks of one size serve another only if
    /// a whole span of them is free.
    fn evict_from_full(&self, needed: u64, tries: usize) -> bool {
        if self.engine.replication().is_replica() {
            return false;
        }
        let keyspace = self.engine.keyspace();
        let more = (EVICTED_FIRST << tries.min(16)).min(EVICTED_AT_ONCE);
        let enough = keyspace.heap().used().saturating_sub(needed + more);
        let mut evicted = false;
        while keyspace.heap().used() > enough {
            if self.engine.evict_regardless() != Evicted::Keys {
                break;
            }
            evicted = true;
            self.free_garbage();
        }
        keyspace.heap().share_free_spans();
        evicted
    }

    /// Takes some steps of compaction before the space is needed: if the store is short of space
    /// and evicts nothing, or `always`. Returns true if there is more to do. Does nothing while a
    /// snapshot is read, for which each move is a copy.
    pub fn compact_ahead(&self, always: bool) -> bool {
        let (keyspace, heap) = (self.engine.keyspace(), self.engine.keyspace().heap());
        let evicts = self.engine.keyspace().eviction().policy != Policy::NoEviction;
        let is_due = always || (!evicts && heap.is_short_of_spans());
        if !is_due || heap.snapshot_stats().is_taken || !self.engine.durability().takes_writes() {
            return false;
        }
        keyspace.compact_ahead(&self.engine.compaction, AHEAD_STEPS) != Compacted::Nothing
    }

    /// Returns how many entries compaction has moved.
    pub fn compacted(&self) -> u64 {
        heap::lock(&self.engine.compaction).unwrap_or_else(PoisonError::into_inner).moved
    }
}
