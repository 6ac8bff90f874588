//! A pool in use: its region, its shards and their shared state.

use super::pins::Pins;
use super::read_cache;
use super::shard_waits::ShardWaits;
use super::snapshot_memory::SnapshotMemory;
use super::state::ShardState;
use crate::alloc::place::BlockPlace;
use crate::alloc::spans::SpanAllocator;
use crate::error::CommitError;
use crate::layout::header::Header;
use crate::layout::{Geometry, ShardArea};
use crate::media_errors::is_resolving;
use pmem::{Domain, Region};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A shard with its lock, and the fields that may be read without it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) state: Mutex<ShardState>,
    /// Threads that wait for `state`.
    pub(crate) waiting: AtomicU32,
    /// A hint that `state` is locked.
    pub(crate) held: AtomicBool,
    /// Number of waiters for it that have no thread ([`super::shard_wait`]),
    pub(crate) awaited: AtomicU32,
    /// ... and the ticket of the waiter for whom it is reserved; 0 for none.
    pub(crate) reserved: AtomicU64,
    pub(crate) pins: Arc<Pins>,
    /// Bytes in allocated blocks.
    pub(crate) used: AtomicU64,
    /// Reservations outside a transaction that were dropped without being adopted.
    pub(crate) returned: Mutex<Vec<BlockPlace>>,
    /// Set while maintenance is pending for the next lock holder: `returned`, or the size of the
    /// read cache.
    pub(crate) maintenance_pending: AtomicBool,
    pub(crate) cached: Arc<read_cache::Counts>,
}

/// A crash-consistent heap on a region.
#[derive(Debug)]
pub struct Heap {
    pub(crate) region: Region,
    pub(crate) geometry: Geometry,
    pub(crate) header: Mutex<Header>,
    pub(crate) epoch: u32,
    pub(crate) volatile: bool,
    pub(crate) spans: SpanAllocator,
    pub(crate) slots: Vec<Slot>,
    pub(crate) waits: ShardWaits,
    next_lsn: AtomicU64,
    poisoned: AtomicBool,
    pub(crate) closed: AtomicBool,
    pub(crate) paused: AtomicBool,
    /// Set while a repair rebuilds metadata that does not follow from anything else.
    pub(crate) repairing: AtomicBool,
    pub(crate) damaged: AtomicU64,
    /// The medium turned out not to support holes.
    pub(crate) keeps_space: AtomicBool,
    /// A purge was requested.
    pub(crate) purge_asked: AtomicBool,
    /// The progress of the requested purge ([`Heap::purge_step`]).
    pub(crate) purge_stage: AtomicUsize,
    /// Reservations that find no block may take a larger one.
    pub(crate) larger_blocks: AtomicBool,
    /// The number of bytes that the read caches of all shards together may take.
    pub(crate) read_cache: AtomicU64,
    pub(crate) snapshots: SnapshotMemory,
}

impl Heap {
    pub(crate) fn assemble(
        region: Region,
        header: Header,
        zones: u64,
        is_new: bool,
        states: Vec<ShardState>,
    ) -> Heap {
        let geometry = header.geometry;
        let max_zones = geometry.zones_in(region.reserved()).max(zones);
        let spans = SpanAllocator::new(&region, geometry, zones, max_zones, is_new);
        Heap {
            geometry,
            epoch: header.epoch,
            volatile: region.domain() == Domain::Volatile,
            snapshots: SnapshotMemory::new(spans.limit() / 2),
            spans,
            slots: states.into_iter().map(Slot::new).collect(),
            waits: ShardWaits::default(),
            next_lsn: AtomicU64::new(header.lsn),
            poisoned: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            repairing: AtomicBool::new(false),
            damaged: AtomicU64::new(0),
            keeps_space: AtomicBool::new(false),
            purge_asked: AtomicBool::new(false),
            purge_stage: AtomicUsize::new(0),
            larger_blocks: AtomicBool::new(false),
            read_cache: AtomicU64::new(0),
            header: Mutex::new(header),
            region,
        }
    }

    /// Returns the number of shards; fixed when the pool is created.
    pub fn shards(&self) -> usize {
        self.geometry.shards
    }

    /// Returns the sizes that were chosen when the pool was created.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the key of the hash that places keys; drawn when the pool was created.
    pub fn hash_seed(&self) -> [u8; 16] {
        self.header().seed
    }

    /// Returns the identifier that distinguishes this pool from any other.
    pub fn uuid(&self) -> [u8; 16] {
        self.header().uuid
    }

    /// Returns the number of this incarnation of the pool: every opening of its file has the next
    /// one.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns true if the content of the heap outlives the process.
    pub fn is_durable(&self) -> bool {
        !self.volatile
    }

    /// Returns the underlying region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Returns the number of bytes in allocated blocks of all shards.
    pub fn used(&self) -> u64 {
        self.slots.iter().map(|slot| slot.used.load(Ordering::Relaxed)).sum()
    }

    /// Returns the number of bytes that the pool takes now.
    pub fn size(&self) -> u64 {
        self.geometry.pool_bytes(self.spans.zones())
    }

    /// Returns the size of the pool in bytes when it has grown as far as it may.
    pub fn largest_size(&self) -> u64 {
        self.geometry.pool_bytes(self.spans.max_zones())
    }

    /// Returns the maximum number of bytes in spans.
    pub fn limit(&self) -> u64 {
        self.spans.limit()
    }

    /// Returns true if the pool has all the zones that it may have, so that it grows no more.
    pub fn is_at_limit(&self) -> bool {
        self.spans.is_at_limit()
    }

    /// Returns the log sequence number that the next record will take.
    pub fn lsn(&self) -> u64 {
        self.next_lsn.load(Ordering::Relaxed)
    }

    /// Returns the number of references found so far that no intact pool has.
    pub fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed) + self.region.faults()
    }

    /// Adds space before it is needed; returns true if a zone was added or a hole was refilled. For
    /// a background thread.
    pub fn grow_ahead(&self) -> bool {
        !self.volatile && self.spans.grow_ahead(&self.region)
    }

    /// Returns true if a durable step failed: no writes are accepted until the pool is opened
    /// again.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    /// Returns true while [`Heap::pause`] refuses writes.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Defers maintenance of a shard to its next lock holder.
    pub(crate) fn defer_to_next_holder(&self, shard: usize) {
        self.slots[shard].maintenance_pending.store(true, Ordering::Release);
    }

    pub(crate) fn area(&self, shard: usize) -> ShardArea {
        self.geometry.shard_area(shard)
    }

    pub(crate) fn take_lsn(&self) -> u64 {
        self.next_lsn.fetch_add(1, Ordering::Relaxed)
    }

    /// Fails unless commits are accepted.
    pub fn check_open(&self) -> Result<(), CommitError> {
        if self.is_poisoned() {
            return Err(CommitError::Poisoned);
        }
        if self.closed.load(Ordering::Relaxed) {
            return Err(CommitError::Closed);
        }
        if self.paused.load(Ordering::Relaxed) {
            return Err(CommitError::Paused);
        }
        if self.region.has_unresolved_losses() && !is_resolving() {
            return Err(CommitError::UnresolvedLosses);
        }
        Ok(())
    }

    pub(crate) fn poison(&self) -> CommitError {
        self.poisoned.store(true, Ordering::Release);
        CommitError::Poisoned
    }

    /// Ends a poisoning, to repair a pool that was stopped when it was opened.
    pub(crate) fn allow_commits(&self) {
        self.poisoned.store(false, Ordering::Release);
    }

    /// Returns the number of bytes that the read cache of one shard may take.
    pub(crate) fn read_cache_share(&self) -> u64 {
        self.read_cache.load(Ordering::Relaxed) / self.shards() as u64
    }

    pub(crate) fn count_damage(&self) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn header(&self) -> MutexGuard<'_, Header> {
        self.header.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn new(state: ShardState) -> Slot {
        Slot {
            used: AtomicU64::new(state.used),
            state: Mutex::new(state),
            waiting: AtomicU32::new(0),
            held: AtomicBool::new(false),
            awaited: AtomicU32::new(0),
            reserved: AtomicU64::new(0),
            pins: Arc::default(),
            returned: Mutex::default(),
            maintenance_pending: AtomicBool::new(false),
            cached: Arc::default(),
        }
    }
}
