//! The keyspace as its users hold it: where transactions begin.
//!
//! Shards are locked in ascending order, each once; that alone keeps transactions from waiting for
//! each other in a circle. The map from logical to physical databases is persistent in shard 0 and
//! cached here: it changes under all locks, so it is still under any.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use crossbeam_utils::CachePadded;
use heap::{ANY_TURN, Heap, Ptr, ShardWait, View};
use smallvec::SmallVec;
use structures::index::{Bucket, CURSOR_BITS, Index};

use crate::databases::cursor_shard;
use crate::eviction::Random;
use crate::eviction::access::Lfu;
use crate::eviction::access::Which;
use crate::expected_keys::ExpectedKeys;
use crate::fault_points::FaultPoint;
use crate::key::Hashing;
use crate::known_damage::Damage;
use crate::layout::{
    Counts, FieldCounts, MAP_ROOT, counts_root, fields_root, keys_root, map_word, physical,
};
use crate::volatile::VolatileShard;
use crate::{DATABASES, Db, Eviction, Key, Stats, Txn, Watch};

/// Keys of a shard whose accesses are told apart although no policy asks for it.
const FEW_KEYS: u64 = 2 << 10;

/// Sixteen databases in the shards of a heap. `Send` and `Sync`: share it by an `Arc`.
pub struct Keyspace {
    pub(crate) heap: Arc<Heap>,
    pub(crate) hashing: Hashing,
    /// The first root word of each shard.
    roots: Vec<Ptr>,
    volatile_shards: Vec<CachePadded<VolatileShard>>,
    pub(crate) damage: Damage,
    pub(crate) map: AtomicU64,
    pub(crate) longest_lock_hold: AtomicU64,
    tracks: AtomicBool,
    lists_created: AtomicBool,
    lists_missed: AtomicBool,
    eviction: RwLock<Eviction>,
    /// What every write needs of `eviction`: bytes that blocks may take.
    pub(crate) eviction_limit: AtomicU64,
    /// The same of `maxmemory`, which is compared with more than blocks.
    pub(crate) maxmemory: AtomicU64,
    /// Bytes outside of the heap that count toward `maxmemory`.
    pub(crate) other_memory: AtomicI64,
    /// What every access needs of `eviction`: LFU | log factor << 1 | decay minutes << 16.
    lfu: AtomicU32,
    pub(crate) expected: ExpectedKeys,
}

impl Keyspace {
    /// The longest string, in bytes.
    pub const MAX_STRING: usize = 512 << 20;
    /// The longest key, in bytes.
    pub const MAX_KEY: usize = 512 << 20;

    /// Attaches to a heap; reads a few words only. `now` in unix milliseconds.
    pub fn new(heap: Heap, now: u64) -> Keyspace {
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
        let keyspace = Keyspace {
            heap: Arc::new(heap),
            hashing,
            roots,
            volatile_shards,
            damage: Damage::default(),
            map: AtomicU64::new(map),
            longest_lock_hold: AtomicU64::new(0),
            tracks: AtomicBool::new(false),
            lists_created: AtomicBool::new(false),
            lists_missed: AtomicBool::new(false),
            eviction: RwLock::default(),
            eviction_limit: AtomicU64::new(u64::MAX),
            maxmemory: AtomicU64::new(0),
            other_memory: AtomicI64::new(0),
            lfu: AtomicU32::new(0),
            expected: ExpectedKeys::default(),
        };
        keyspace.set_eviction(Eviction::default(), now);
        keyspace.take_over_damage();
        keyspace
    }

    /// Returns the heap under it.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Takes the heap out, to close it.
    pub fn into_heap(self) -> Arc<Heap> {
        self.heap
    }

    /// Returns how many shards there are.
    pub fn shards(&self) -> usize {
        self.volatile_shards.len()
    }

    pub(crate) fn volatile(&self, shard: usize) -> &VolatileShard {
        &self.volatile_shards[shard]
    }

    /// Expects this many keys in a database until [`Keyspace::expect_no_keys`]. If they do not
    /// come, the index takes more space than it needs, sixteen times that of those which came at
    /// most.
    pub fn expect_keys(&self, db: Db, keys: u64) {
        let physical = physical(self.map.load(Relaxed), db.number());
        let keys = keys / self.shards() as u64;
        self.expected.set(physical, keys);
        (0..self.shards()).for_each(|shard| self.expect_accesses(shard, keys));
    }

    /// Expects no more keys than there are.
    pub fn expect_no_keys(&self) {
        self.expected.clear();
    }

    /// Hashes a key, once for everything that is done with it.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key::new(bytes, &self.hashing, self.shards())
    }

    /// Asks the processor to load the buckets in which a lookup of the key will search; takes no
    /// lock. For a batch of keys: this for each, then [`Keyspace::prefetch_entry`] for each.
    #[inline]
    pub fn prefetch_bucket(&self, db: Db, key: &Key<'_>) -> Option<PrefetchedBucket> {
        let db = physical(self.map.load(Relaxed), db.number());
        self.volatile_shards[key.shard()].access.prefetch(Which::new(key.hash, db));
        let index = Index::at(self.root(key.shard(), keys_root(db)));
        index.prefetch_bucket(&UnlockedView(&self.heap), key.hash).map(PrefetchedBucket)
    }

    /// Asks the processor to load the entry that a lookup of the key will compare, and notes where
    /// it is.
    #[inline]
    pub fn prefetch_entry(&self, prefetched: &PrefetchedBucket, key: &mut Key<'_>) {
        if let Some(slot_hint) = prefetched.0.prefetch_entry(&UnlockedView(&self.heap)) {
            key.slot_hint = slot_hint;
        }
    }

    fn root(&self, shard: usize, n: usize) -> Ptr {
        self.roots[shard].add(8 * n as u64)
    }

    /// Returns a root word without a lock: as it was committed at some moment, or, in a volatile
    /// heap, as an open transaction has changed it by now.
    pub(crate) fn root_word(&self, shard: usize, n: usize) -> u64 {
        self.heap.region().load(self.root(shard, n).raw())
    }

    /// Locks the shards (any order, repetitions allowed) and opens a transaction at `now` (unix
    /// ms).
    pub fn begin(&self, shards: &[usize], now: u64) -> Txn<'_> {
        if let [shard] = shards {
            return self.begin_one(*shard, now);
        }
        let shards = ascending(shards.iter().copied()).into_iter();
        let lock = |shard| self.heap.lock(shard);
        if FaultPoint::LockAscending.is_enabled() {
            return Txn::new(self, shards.map(lock).collect(), now);
        }
        let mut locked: SmallVec<_> = shards.rev().map(lock).collect();
        locked.reverse();
        Txn::new(self, locked, now)
    }

    /// As [`Keyspace::begin`], unless one of the shards is locked: then nothing is.
    pub fn try_begin(&self, shards: impl Iterator<Item = usize>, now: u64) -> Option<Txn<'_>> {
        let locked = self.heap.try_lock_all(&ascending(shards), ANY_TURN)?;
        Some(Txn::new(self, locked, now))
    }

    /// Does the same for one who may have waited for shards before, unless one of them is reserved
    /// for another one who waits.
    #[inline]
    pub fn try_begin_as(
        &self,
        shards: impl Iterator<Item = usize>,
        now: u64,
        wait: Option<&ShardWait>,
    ) -> Option<Txn<'_>> {
        let locked =
            self.heap.try_lock_all(&ascending(shards), wait.map_or(0, ShardWait::ticket))?;
        Some(Txn::new(self, locked, now))
    }

    /// Locks one shard, unless it is locked.
    pub fn try_begin_one(&self, shard: usize, now: u64) -> Option<Txn<'_>> {
        let locked = self.heap.try_lock_all(&[shard], ANY_TURN)?;
        Some(Txn::new(self, locked, now))
    }

    /// Does the same for one who may have waited for it before, unless it is reserved for another
    /// one who waits.
    #[inline]
    pub fn try_begin_one_as(
        &self,
        shard: usize,
        now: u64,
        wait: Option<&ShardWait>,
    ) -> Option<Txn<'_>> {
        let locked = self.heap.try_lock_all(&[shard], wait.map_or(0, ShardWait::ticket))?;
        Some(Txn::new(self, locked, now))
    }

    /// Enters those who wait for these shards without a thread.
    pub fn wait_for_shards(&self, shards: &[usize]) -> ShardWait {
        ShardWait::enter(&self.heap, shards)
    }

    /// Locks one shard.
    pub fn begin_one(&self, shard: usize, now: u64) -> Txn<'_> {
        let mut locked = SmallVec::new();
        locked.push(self.heap.lock(shard));
        Txn::new(self, locked, now)
    }

    /// Locks everything: FLUSHALL, SWAPDB, KEYS, RANDOMKEY.
    pub fn begin_all(&self, now: u64) -> Txn<'_> {
        let locked = (0..self.shards()).map(|shard| self.heap.lock(shard)).collect();
        Txn::new(self, locked, now)
    }

    /// Returns the shard in which a SCAN goes on from this cursor: lock it for [`Txn::scan`].
    pub fn scan_shard(&self, cursor: u64) -> usize {
        cursor_shard(cursor).min(self.shards() - 1)
    }

    /// Returns true if a scan with this cursor has met nothing in its shard yet.
    pub fn begins_shard(cursor: u64) -> bool {
        cursor.is_multiple_of(1 << CURSOR_BITS)
    }

    /// Stops watching.
    pub fn unwatch(&self, watch: Watch) {
        let shard = self.key(&watch.key).shard();
        self.volatile_shards[shard].watches.remove(watch);
    }

    /// Makes every transaction list all of its changes (see [`Txn::changes`]), not only expired and
    /// evicted keys.
    pub fn track_changes(&self, yes: bool) {
        self.tracks.store(yes, Relaxed);
    }

    /// Makes transactions list, for one more listener, all changes in this shard; begun while the
    /// shard is locked, it misses none.
    pub fn follow(&self, shard: usize) {
        self.volatile_shards[shard].followers.fetch_add(1, Relaxed);
    }

    /// Ends what one call of [`Keyspace::follow`] began.
    pub fn unfollow(&self, shard: usize) {
        self.volatile_shards[shard].followers.fetch_sub(1, Relaxed);
    }

    /// Makes transactions list new keys, and keys that readers do not find.
    pub fn list_events(&self, created: bool, missed: bool) {
        self.lists_created.store(created, Relaxed);
        self.lists_missed.store(missed, Relaxed);
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

    /// Returns what all shards counted.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.volatile_shards.iter().for_each(|volatile| volatile.counters.add_to(&mut stats));
        stats
    }

    /// Starts counting from zero.
    pub fn reset_stats(&self) {
        self.volatile_shards.iter().for_each(|volatile| volatile.counters.reset());
    }

    /// Keys, and keys with an expiry time, of a database. Takes no lock: what transactions are
    /// about to change is not in it, but for those of a volatile heap.
    pub fn count(&self, db: Db) -> (u64, u64) {
        let db = physical(self.map.load(Relaxed), db.number());
        (0..self.shards()).fold((0, 0), |(keys, expiring), shard| {
            let counts = Counts::decode(self.root_word(shard, counts_root(db)));
            let without_own_ttl =
                FieldCounts::decode(self.root_word(shard, fields_root(db))).without_own_ttl;
            let own = counts.expiring.saturating_sub(without_own_ttl);
            (keys + u64::from(counts.keys), expiring + u64::from(own))
        })
    }

    /// Keys of one shard in all databases.
    fn shard_count(&self, shard: usize, expiring: bool) -> u64 {
        (0..DATABASES as u8)
            .map(|db| {
                let counts = Counts::decode(self.root_word(shard, counts_root(db)));
                u64::from(if expiring { counts.expiring } else { counts.keys })
            })
            .sum()
    }

    /// Returns some shard, as likely as it has keys; none when there are no keys.
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

    /// Gives the table of accesses space for the shard's keys. Where no policy decides by it, a
    /// small one will do: only OBJECT IDLETIME reads it, and every access writes it.
    pub(crate) fn grow_access(&self, shard: usize) {
        let most = if self.eviction().policy.is_by_access() { u64::MAX } else { FEW_KEYS };
        self.volatile_shards[shard].access.grow(self.shard_count(shard, false), most);
    }

    /// Says to the table of accesses, where a small one will do, that this many keys are coming: it
    /// need not find out for each that it has no space.
    fn expect_accesses(&self, shard: usize, keys: u64) {
        if !self.eviction().policy.is_by_access() {
            let keys = self.shard_count(shard, false).saturating_add(keys);
            self.volatile_shards[shard].access.grow(keys, FEW_KEYS);
        }
    }

    /// Returns how space is made.
    pub fn eviction(&self) -> Eviction {
        *self.eviction.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes how space is made. `now` is in unix ms.
    pub fn set_eviction(&self, eviction: Eviction, now: u64) {
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
            heap::lock(&volatile.pool).unwrap_or_else(PoisonError::into_inner).clear();
            if is_other_kind {
                volatile.access.convert(now, eviction.policy.is_lfu());
            }
        }
    }

    /// Returns how uses are counted under an LFU policy.
    pub(crate) fn lfu(&self) -> Option<Lfu> {
        let settings = self.lfu.load(Relaxed);
        (settings & 1 != 0).then(|| self.lfu_settings())
    }

    pub(crate) fn lfu_settings(&self) -> Lfu {
        let settings = self.lfu.load(Relaxed);
        Lfu { log_factor: settings >> 1 & 0x7fff, decay_minutes: settings >> 16 }
    }
}

/// Returns the order in which shards are locked, each once.
pub(crate) fn ascending(shards: impl Iterator<Item = usize>) -> SmallVec<[usize; 16]> {
    let mut ascending = SmallVec::<[usize; 16]>::new();
    // Of the first 64, those that are listed.
    let mut listed = 0u64;
    for shard in shards {
        let bit = 1u64.checked_shl(shard as u32).unwrap_or(0);
        if listed & bit == 0 && !(bit == 0 && ascending.contains(&shard)) {
            listed |= bit;
            ascending.push(shard);
        }
    }
    ascending.sort_unstable();
    ascending
}

/// A lookup that is to come, whose buckets are on their way.
pub struct PrefetchedBucket(Bucket);

/// A view that takes no lock: words of some moment, which decide nothing but what to prefetch and
/// where to look first.
struct UnlockedView<'h>(&'h Heap);

impl View for UnlockedView<'_> {
    #[inline]
    fn word(&self, at: Ptr) -> u64 {
        self.0.region().guess(at.raw())
    }

    #[inline]
    fn line(&self, at: Ptr) -> [u64; 8] {
        self.0.region().guess_line(at.raw())
    }

    fn bytes(&self, _at: Ptr, _len: usize) -> &[u8] {
        &[]
    }

    #[inline]
    fn prefetch(&self, at: Ptr) {
        self.0.region().prefetch(at.raw());
    }
}
