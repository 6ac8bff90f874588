//! Memory: what is done before a command that takes some, and when the heap has none left.
//!
//! There are two limits. `maxmemory` is looked at before a command is executed. The heap's own (the
//! limit of the pool, or the space of its file system) shows only when a block is asked for: then
//! what snapshots held is returned, what deletes left is freed, a snapshot that holds blocks is
//! given up, spans that are sparsely used are emptied, then keys are evicted by the policy, and the
//! command is run again. At last a block may be larger than what is put into it.
//! Each limit has its own error text, and a store that is full says so in the server's log and in
//! INFO.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use keyspace::{Compacted, Policy};

use crate::engine::Engine;
use crate::execute::Evicted;
use crate::execute::queue;
use crate::failure::{self, Done, Failure};
use crate::session::Session;
use crate::session::client::Client;
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
/// How long a store is reported full after a command was refused, unless space was made.
const FULL_SECONDS: u64 = 60;
/// Steps of compaction between two looks at the time.
const AHEAD_STEPS: usize = 16;
/// Percent of the limit that are in use at least in a full store that is not fragmented.
const USED_WHEN_FULL: u64 = 85;

impl Engine {
    /// Evicts where a limit is exceeded, and refuses what takes memory over `maxmemory`.
    pub(crate) fn check_memory(&self, session: &Session, command: &Command) -> Done {
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
                _ if !self.keyspace().exceeds_maxmemory() => return Ok(true),
                Evicted::Nothing => return Ok(false),
                Evicted::Locked(shard) if session.gives_way => {
                    return Err(Failure::locked([shard]));
                }
                Evicted::Locked(shard) => self.wait_by_thread(&[shard]),
            }
        }
    }

    /// Evicts where a limit is exceeded, before any command: those that read do too, as in Redis.
    #[inline]
    pub(crate) fn evict_excess(&self, session: &Session) {
        if self.keyspace().excess() > 0 && self.may_evict_for(session) {
            self.evict();
        }
    }

    /// Returns true if what exceeds a limit may be evicted for any command of this client: not
    /// before it has authenticated, nor where the policy deletes nothing.
    #[cold]
    pub(crate) fn may_evict_for(&self, session: &Session) -> bool {
        self.keyspace().eviction().policy != Policy::NoEviction
            && !self.config().loading()
            && !self.must_authenticate(session)
            && self.may_delete_now()
    }

    /// Deletes keys by the eviction policy until no limit is exceeded ([`Evicted::Some`]), or for
    /// as long as that can be done.
    fn evict(&self) -> Evicted {
        // What is being loaded has no limit: it is to become what it was.
        if self.keyspace().excess() == 0 || self.config().loading() {
            return Evicted::Some;
        }
        let began = Instant::now();
        let mut evicted = Evicted::Some;
        while self.keyspace().excess() > 0 && evicted == Evicted::Some {
            evicted = self.evict_some();
        }
        self.observe_latency("eviction-cycle", began.elapsed());
        if self.keyspace().excess() == 0 { Evicted::Some } else { evicted }
    }

    /// Makes space for a command of this many bytes that found no block for the `tries`-th time:
    /// returns what a snapshot held, frees what deletes left, lets all shards have what each has to
    /// spare, else gives the snapshot up, else moves what is in sparsely used spans together, else
    /// evicts, else lets larger blocks serve; true if that may have helped. No shard may be locked
    /// by this thread.
    pub fn free_memory_for(&self, bytes: usize, tries: usize) -> bool {
        if tries >= TRIES {
            return false;
        }
        let held_steps = HELD_STEPS << (2 * tries);
        let returned = self.keyspace().return_held(held_steps);
        let freed = self.free_garbage();
        let shared = self.keyspace().heap().share_free_spans();
        // What was reserved without effect is among what is shared: after the first try that alone
        // helps nobody.
        let helped = returned || freed || shared;
        if helped && tries == 0 {
            return true;
        }
        // No write is refused, and no key evicted, for what a snapshot holds.
        if self.keyspace().heap().give_snapshot_up() {
            self.keyspace().return_held(held_steps);
            return true;
        }
        if returned && tries < TRIES / 2 {
            return true;
        }
        match self.keyspace().compact_for(&self.compaction, bytes, COMPACTION_STEPS) {
            Compacted::Freed(_) => return true,
            // The next try goes on with it, but no key need wait for it that may be evicted.
            Compacted::More if self.keyspace().eviction().policy == Policy::NoEviction => {
                return true;
            }
            Compacted::More | Compacted::Nothing => {}
        }
        // Not only where nothing else helped: what the command reserved without effect is shared.
        self.evict_from_full(2 * bytes as u64, tries)
            || self.keyspace().heap().allow_larger_blocks()
            || helped
    }

    fn free_garbage(&self) -> bool {
        let mut steps = 0;
        self.keyspace().reclaim_until(|| {
            steps += 1;
            steps > STEPS
        })
    }

    /// Evicts as much as the command needs, and some more: blocks of one size serve another only
    /// where a whole span of them is free.
    fn evict_from_full(&self, needed: u64, tries: usize) -> bool {
        let keyspace = self.keyspace();
        let more = (EVICTED_FIRST << tries.min(16)).min(EVICTED_AT_ONCE);
        let enough = keyspace.heap().used().saturating_sub(needed + more);
        let mut evicted = false;
        while keyspace.heap().used() > enough {
            if self.evict_now() != Evicted::Some {
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
        let (keyspace, heap) = (self.keyspace(), self.keyspace().heap());
        let evicts = self.keyspace().eviction().policy != Policy::NoEviction;
        let is_due = always || (!evicts && heap.is_short_of_spans());
        if !is_due || heap.snapshot_stats().is_taken || !self.takes_writes() {
            return false;
        }
        keyspace.compact_ahead(&self.compaction, AHEAD_STEPS) != Compacted::Nothing
    }

    /// Returns how many entries were moved to make space.
    pub fn compacted(&self) -> u64 {
        heap::lock(&self.compaction).unwrap_or_else(PoisonError::into_inner).moved
    }

    /// Returns the text of a failure that is final. That the store is full has two causes.
    pub(crate) fn refusal<'a>(&self, failure: &'a Failure) -> &'a [u8] {
        let is_fragmented = failure.is_out_of_memory() && self.is_fragmented();
        if is_fragmented { failure::FRAGMENTED.as_bytes() } else { failure.as_bytes() }
    }

    /// Returns true if a store that is full has much space in blocks that nobody uses.
    fn is_fragmented(&self) -> bool {
        let heap = self.keyspace().heap();
        heap.is_at_limit() && heap.used() < heap.limit() / 100 * USED_WHEN_FULL
    }

    /// Returns why writes are refused now, if they are: for a reason that was set, or since the
    /// store is full and a command was refused for that a moment ago.
    pub fn why_no_writes(&self) -> Option<String> {
        self.config().refusal().or_else(|| {
            let heap = self.keyspace().heap();
            let ago = self.full().last_refused_s(self.clock.unix_ms());
            let is_full = ago.is_some_and(|ago| ago < FULL_SECONDS) && heap.has_no_space();
            is_full.then(|| {
                format!(
                    "the store is full: {} bytes of {} are in use (pool-size)",
                    heap.used(),
                    heap.largest_size()
                )
            })
        })
    }

    /// Counts a command that was refused since the store is full, and tells the log once a minute.
    #[cold]
    pub fn record_out_of_memory(&self) {
        if !self.full().record(self.clock.unix_ms()) {
            return;
        }
        let heap = self.keyspace().heap();
        let why = if self.is_fragmented() {
            "its free space is in blocks of other sizes, and is being made whole"
        } else if heap.is_at_limit() {
            "the heap has reached its limit"
        } else {
            "its file cannot grow: is the file system full?"
        };
        let (used, size, limit) = (heap.used(), heap.size(), heap.largest_size());
        if let Some(host) = self.host() {
            host.log(&format!(
                "The store is full and refuses writes with OOM: {why} ({used} bytes are in use, {size} are taken, {limit} are the limit)"
            ));
        }
    }
}

/// Memory of clients (`maxmemory-clients`) and of the process, and their part of `maxmemory`.
impl Engine {
    /// Counts what a client takes. If all clients together take more than `limit` bytes then,
    /// unless that is 0, those that take most are evicted. Returns these.
    pub fn count_memory(&self, client: &Client, limit: u64) -> Vec<Arc<Client>> {
        let by = client.count();
        if by == 0 {
            return Vec::new();
        }
        self.clients().change_large(by);
        let exceeds = limit > 0 && self.clients().large_memory() > limit;
        let evicted = if exceeds { self.evict_clients(limit) } else { Vec::new() };
        // Only now, so that no key is evicted for what clients give up.
        self.change_data_memory(by);
        evicted
    }

    /// Closes the clients that take most until the others take `limit` bytes at most. Returns those
    /// that were closed.
    pub fn evict_clients(&self, limit: u64) -> Vec<Arc<Client>> {
        let evicted = self.clients().evict(usize::try_from(limit).unwrap_or(usize::MAX));
        evicted.iter().for_each(|client| self.forget_memory(client));
        evicted
    }

    /// Counts nothing for a client that leaves.
    pub fn forget_memory(&self, client: &Client) {
        let by = client.stop_counting();
        self.clients().change_large(by);
        self.change_data_memory(by);
    }

    /// Counts what the process took before it served anybody, in bytes, where the data is in the
    /// same memory.
    pub fn count_startup_memory(&self, bytes: u64) {
        if self.clients().are_counted_as_data() {
            self.admin().startup_memory.store(bytes, Relaxed);
            self.change_data_memory(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    fn change_data_memory(&self, by: i64) {
        if self.clients().are_counted_as_data() {
            self.keyspace().change_other_memory(by);
        }
    }
}
