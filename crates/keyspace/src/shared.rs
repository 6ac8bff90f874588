//! The state that all transactions of a keyspace share: the heap, the hash of keys, the DRAM state
//! of the shards, and settings.
//!
//! The map from logical to physical databases is persistent in shard 0 and cached here. It changes
//! only while all shards are locked, so it is constant while any shard is. This module neither
//! begins transactions nor knows about them.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use crossbeam_utils::CachePadded;
use heap::{Heap, Ptr, View};
use structures::index::CURSOR_BITS;

use crate::eviction::Random;
use crate::eviction::access::Lfu;
use crate::expected_keys::ExpectedKeys;
use crate::key::Hashing;
use crate::known_damage::{Damage, Name};
use crate::layout::{Counts, LIBRARIES, MAP_ROOT, counts_root, map_word, physical};
use crate::volatile::VolatileShard;
use crate::{DATABASES, Db, Eviction, Key};

/// Returns the shard in which a scan continues from this cursor.
pub(crate) fn cursor_shard(cursor: u64) -> usize {
    (cursor >> CURSOR_BITS) as usize
}

/// The number of a shard's keys for which the access table has space if no policy needs it.
const FEW_KEYS: u64 = 2 << 10;

/// The state that all transactions of a keyspace share.
pub(crate) struct Shared {
    pub(crate) heap: Arc<Heap>,
    pub(crate) hashing: Hashing,
    /// The first root word of each shard.
    roots: Vec<Ptr>,
    volatile_shards: Vec<CachePadded<VolatileShard>>,
    pub(crate) damage: Damage,
    pub(crate) map: AtomicU64,
    pub(crate) tracks: AtomicBool,
    /// Whether commits say where the data is in a stream for replicas. Changes while all shards are
    /// locked, or nobody commits what a primary sends.
    pub(crate) keeps_position: AtomicBool,
    pub(crate) lists_created: AtomicBool,
    pub(crate) lists_missed: AtomicBool,
    eviction: RwLock<Eviction>,
    /// The part of `eviction` that every write needs: how many bytes blocks may take.
    pub(crate) eviction_limit: AtomicU64,
    /// A copy of `maxmemory` from `eviction`, which is compared with more than the bytes of blocks.
    pub(crate) maxmemory: AtomicU64,
    /// Bytes outside of the heap that count toward `maxmemory`.
    pub(crate) other_memory: AtomicI64,
    /// The part of `eviction` that every access needs: LFU | log factor << 1 | decay minutes << 16.
    lfu: AtomicU32,
    pub(crate) expected: ExpectedKeys,
}

impl Shared {
    /// Attaches to a heap; reads only a few words. `now` is in unix milliseconds.
    pub(crate) fn new(heap: Heap, now: u64) -> Shared {
        let seed = heap.hash_seed();
        let roots = (0..heap.shards()).map(|shard| heap.lock(shard).root(0)).collect();
        let map = {
            let first = heap.lock(0);
            map_word(first.word(first.root(MAP_ROOT)))
        };
        let hashing = Hashing::new(&seed);
        let volatile_shards = (0..heap.shards() as u64)
            .map(|shard| VolatileShard::new(now, hashing.hash(&shard.to_le_bytes())).into())
            .collect();
        let shared = Shared {
            heap: Arc::new(heap),
            hashing,
            roots,
            volatile_shards,
            damage: Damage::default(),
            map: AtomicU64::new(map),
            tracks: AtomicBool::new(false),
            keeps_position: AtomicBool::new(false),
            lists_created: AtomicBool::new(false),
            lists_missed: AtomicBool::new(false),
            eviction: RwLock::default(),
            eviction_limit: AtomicU64::new(u64::MAX),
            maxmemory: AtomicU64::new(0),
            other_memory: AtomicI64::new(0),
            lfu: AtomicU32::new(0),
            expected: ExpectedKeys::default(),
        };
        shared.set_eviction(Eviction::default(), now);
        shared
    }

    /// Returns the underlying heap.
    #[inline]
    pub(crate) fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Returns the number of shards.
    pub(crate) fn shards(&self) -> usize {
        self.volatile_shards.len()
    }

    /// Hashes a key, once for all its uses.
    pub(crate) fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key::new(bytes, &self.hashing, self.shards())
    }

    /// Returns the DRAM state of a shard.
    #[inline]
    pub(crate) fn volatile(&self, shard: usize) -> &VolatileShard {
        &self.volatile_shards[shard]
    }

    /// Returns the DRAM state of each shard.
    pub(crate) fn volatile_shards(&self) -> impl Iterator<Item = &VolatileShard> {
        self.volatile_shards.iter().map(|shard| &**shard)
    }

    /// Returns the physical database to which a logical one maps.
    pub(crate) fn physical_of(&self, db: usize) -> u8 {
        if db == usize::from(LIBRARIES) {
            return LIBRARIES;
        }
        physical(self.map.load(Relaxed), db)
    }

    /// Returns the logical database that maps to a physical one.
    pub(crate) fn logical_of(&self, db: u8) -> usize {
        (0..DATABASES).find(|&n| self.physical_of(n) == db).unwrap_or(usize::from(db))
    }

    /// Returns the form of a key by which damage is remembered.
    pub(crate) fn name(&self, db: Db, key: &Key<'_>) -> Name {
        Name { shard: key.shard(), db: self.physical_of(db.number()), hash: key.hash }
    }

    /// Returns the location of a root word of a shard.
    #[inline]
    pub(crate) fn root(&self, shard: usize, n: usize) -> Ptr {
        self.roots[shard].add(8 * n as u64)
    }

    /// Returns a root word without a lock: as it was committed at some moment, or, in a volatile
    /// heap, possibly as changed by an open transaction.
    pub(crate) fn root_word(&self, shard: usize, n: usize) -> u64 {
        self.heap.region().load(self.root(shard, n).raw())
    }

    pub(crate) fn lists_created(&self) -> bool {
        self.lists_created.load(Relaxed)
    }

    pub(crate) fn lists_missed(&self) -> bool {
        self.lists_missed.load(Relaxed)
    }

    pub(crate) fn tracks_changes(&self) -> bool {
        self.tracks.load(Relaxed)
    }

    /// Returns the number of keys, or of `expiring` keys, of one shard in all databases.
    fn shard_count(&self, shard: usize, expiring: bool) -> u64 {
        (0..DATABASES as u8)
            .map(|db| {
                let counts = Counts::decode(self.root_word(shard, counts_root(db)));
                u64::from(if expiring { counts.expiring } else { counts.keys })
            })
            .sum()
    }

    /// Returns a random shard, with a probability proportional to its number of keys, or of
    /// `expiring` keys; `None` if there are none.
    pub(crate) fn populated_shard(&self, expiring: bool, random: &mut Random) -> Option<usize> {
        let counts: Vec<u64> =
            (0..self.shards()).map(|shard| self.shard_count(shard, expiring)).collect();
        let total: u64 = counts.iter().sum();
        let mut nth = random.next().checked_rem(total)?;
        counts.iter().position(|&count| {
            let here = nth < count;
            nth = nth.wrapping_sub(count);
            here
        })
    }

    /// Grows the access table for the shard's keys. If no policy decides by it, a small table is
    /// enough: only OBJECT IDLETIME reads it, while every access writes it.
    pub(crate) fn grow_access(&self, shard: usize) {
        let most = if self.eviction().policy.is_by_access() { u64::MAX } else { FEW_KEYS };
        self.volatile_shards[shard].access.grow(self.shard_count(shard, false), most);
    }

    /// Grows the access table for this many new keys if no policy needs it and a small table is
    /// enough: it then does not have to grow for each of them.
    pub(crate) fn expect_accesses(&self, shard: usize, keys: u64) {
        if !self.eviction().policy.is_by_access() {
            let keys = self.shard_count(shard, false).saturating_add(keys);
            self.volatile_shards[shard].access.grow(keys, FEW_KEYS);
        }
    }

    /// Returns the eviction settings.
    pub(crate) fn eviction(&self) -> Eviction {
        *self.eviction.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the eviction settings. `now` is in unix ms.
    pub(crate) fn set_eviction(&self, eviction: Eviction, now: u64) {
        let is_other_kind = {
            let mut current = self.eviction.write().unwrap_or_else(PoisonError::into_inner);
            let before = std::mem::replace(&mut *current, eviction);
            before.policy.is_lfu() != eviction.policy.is_lfu()
        };
        let settings = u32::from(eviction.policy.is_lfu())
            | eviction.lfu_log_factor.min(0x7fff) << 1
            | eviction.lfu_decay_time.min(0xffff) << 16;
        self.lfu.store(settings, Relaxed);
        self.maxmemory.store(eviction.maxmemory, Relaxed);
        self.eviction_limit.store(eviction.eviction_limit(self.heap.limit()), Relaxed);
        for volatile in &self.volatile_shards {
            heap::lock(&volatile.candidates).unwrap_or_else(PoisonError::into_inner).clear();
            if is_other_kind {
                volatile.access.convert(now, eviction.policy.is_lfu());
            }
        }
    }

    /// Returns the settings by which uses are counted, if the policy is LFU.
    pub(crate) fn lfu(&self) -> Option<Lfu> {
        let settings = self.lfu.load(Relaxed);
        (settings & 1 != 0).then(|| self.lfu_settings())
    }

    pub(crate) fn lfu_settings(&self) -> Lfu {
        let settings = self.lfu.load(Relaxed);
        Lfu { log_factor: settings >> 1 & 0x7fff, decay_minutes: settings >> 16 }
    }

    /// Counts the pending values of a shard as freed. The shard must be locked, and its free queue
    /// empty.
    pub(crate) fn count_freed(&self, shard: usize) {
        let counters = &self.volatile(shard).counters;
        counters.lazily_freed.add(counters.lazy_free_pending.take());
    }
}
