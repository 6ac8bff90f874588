//! The keyspace as its users hold it: where transactions begin.
//!
//! Shards are locked in ascending order, each once; that alone keeps transactions from waiting for
//! each other in a circle. Work in the background, checks, repairs and snapshots come after this.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heap::{ANY_TURN, Heap, Ptr, Shard, ShardWait, View};
use smallvec::SmallVec;
use structures::index::{Bucket, CURSOR_BITS, Index};

use crate::damage::Resolver;
use crate::eviction::access::Which;
use crate::fault_points::FaultPoint;
use crate::key::MAX_KEY;
use crate::layout::{
    Counts, FieldCounts, LIBRARIES, counts_root, fields_root, keys_root, physical,
};
use crate::prepared::LARGE;
use crate::shared::{Shared, cursor_shard};
use crate::value::MAX_STRING;
use crate::{CommitError, Db, Error, Eviction, Key, KeyDamage, Prepared, Stats, Txn, Watch};

/// Sixteen databases in the shards of a heap. `Send` and `Sync`: share it by an `Arc`.
pub struct Keyspace {
    pub(crate) shared: Shared,
    pub(crate) longest_lock_hold: AtomicU64,
}

impl Keyspace {
    /// The longest string, in bytes.
    pub const MAX_STRING: usize = MAX_STRING;
    /// The longest key, in bytes.
    pub const MAX_KEY: usize = MAX_KEY;
    /// From this length on it pays to prepare or to pin a string.
    pub const LARGE: usize = LARGE;

    /// Attaches to a heap; reads a few words only. `now` in unix milliseconds.
    pub fn new(heap: Heap, now: u64) -> Keyspace {
        let keyspace =
            Keyspace { shared: Shared::new(heap, now), longest_lock_hold: AtomicU64::new(0) };
        keyspace.resolver().take_over();
        keyspace
    }

    /// Returns the heap under it.
    pub fn heap(&self) -> &Heap {
        self.shared.heap()
    }

    /// Takes the heap out, to close it.
    pub fn into_heap(self) -> Arc<Heap> {
        self.shared.heap
    }

    /// Returns how many shards there are.
    pub fn shards(&self) -> usize {
        self.shared.shards()
    }

    /// Expects this many keys in a database until [`Keyspace::expect_no_keys`]. If they do not
    /// come, the index takes more space than it needs, sixteen times that of those which came at
    /// most.
    pub fn expect_keys(&self, db: Db, keys: u64) {
        let physical = physical(self.shared.map.load(Relaxed), db.number());
        let keys = keys / self.shards() as u64;
        self.shared.expected.set(physical, keys);
        (0..self.shards()).for_each(|shard| self.shared.expect_accesses(shard, keys));
    }

    /// Expects no more keys than there are.
    pub fn expect_no_keys(&self) {
        self.shared.expected.clear();
    }

    /// Hashes a key, once for everything that is done with it.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        self.shared.key(bytes)
    }

    /// Asks the processor to load the buckets in which a lookup of the key will search; takes no
    /// lock. For a batch of keys: this for each, then [`Keyspace::prefetch_entry`] for each.
    #[inline]
    pub fn prefetch_bucket(&self, db: Db, key: &Key<'_>) -> Option<PrefetchedBucket> {
        let db = physical(self.shared.map.load(Relaxed), db.number());
        self.shared.volatile(key.shard()).access.prefetch(Which::new(key.hash, db));
        let index = Index::at(self.shared.root(key.shard(), keys_root(db)));
        index.prefetch_bucket(&UnlockedView(self.heap()), key.hash).map(PrefetchedBucket)
    }

    /// Asks the processor to load the entry that a lookup of the key will compare, and notes where
    /// it is.
    #[inline]
    pub fn prefetch_entry(&self, prefetched: &PrefetchedBucket, key: &mut Key<'_>) {
        if let Some(slot_hint) = prefetched.0.prefetch_entry(&UnlockedView(self.heap())) {
            key.slot_hint = slot_hint;
        }
    }

    /// Locks the shards (any order, repetitions allowed) and opens a transaction at `now` (unix
    /// ms).
    pub fn begin(&self, shards: &[usize], now: u64) -> Txn<'_> {
        if let [shard] = shards {
            return self.begin_one(*shard, now);
        }
        let shards = ascending(shards.iter().copied()).into_iter();
        let lock = |shard| self.shared.heap.lock(shard);
        if FaultPoint::LockAscending.is_enabled() {
            return Txn::new(&self.shared, shards.map(lock).collect(), now);
        }
        let mut locked: SmallVec<_> = shards.rev().map(lock).collect();
        locked.reverse();
        Txn::new(&self.shared, locked, now)
    }

    /// As [`Keyspace::begin`], unless one of the shards is locked: then nothing is.
    pub fn try_begin(&self, shards: impl Iterator<Item = usize>, now: u64) -> Option<Txn<'_>> {
        let locked = self.shared.heap.try_lock_all(&ascending(shards), ANY_TURN)?;
        Some(Txn::new(&self.shared, locked, now))
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
            self.shared.heap.try_lock_all(&ascending(shards), wait.map_or(0, ShardWait::ticket))?;
        Some(Txn::new(&self.shared, locked, now))
    }

    /// Locks one shard, unless it is locked.
    pub fn try_begin_one(&self, shard: usize, now: u64) -> Option<Txn<'_>> {
        let locked = self.shared.heap.try_lock_all(&[shard], ANY_TURN)?;
        Some(Txn::new(&self.shared, locked, now))
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
        let locked = self.shared.heap.try_lock_all(&[shard], wait.map_or(0, ShardWait::ticket))?;
        Some(Txn::new(&self.shared, locked, now))
    }

    /// Enters those who wait for these shards without a thread.
    pub fn wait_for_shards(&self, shards: &[usize]) -> ShardWait {
        ShardWait::enter(&self.shared.heap, shards)
    }

    /// Locks one shard.
    pub fn begin_one(&self, shard: usize, now: u64) -> Txn<'_> {
        let mut locked = SmallVec::new();
        locked.push(self.shared.heap.lock(shard));
        Txn::new(&self.shared, locked, now)
    }

    /// Locks everything: FLUSHALL, SWAPDB, KEYS, RANDOMKEY.
    pub fn begin_all(&self, now: u64) -> Txn<'_> {
        let locked = (0..self.shards()).map(|shard| self.shared.heap.lock(shard)).collect();
        Txn::new(&self.shared, locked, now)
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
        self.shared.volatile(shard).watches.remove(watch);
    }

    /// Makes every transaction list all of its changes (see [`Txn::changes`]), not only expired and
    /// evicted keys.
    pub fn track_changes(&self, yes: bool) {
        self.shared.tracks.store(yes, Relaxed);
    }

    /// Makes transactions list, for one more listener, all changes in this shard; begun while the
    /// shard is locked, it misses none.
    pub fn follow(&self, shard: usize) {
        self.shared.volatile(shard).followers.fetch_add(1, Relaxed);
    }

    /// Ends what one call of [`Keyspace::follow`] began.
    pub fn unfollow(&self, shard: usize) {
        self.shared.volatile(shard).followers.fetch_sub(1, Relaxed);
    }

    /// Makes transactions list new keys, and keys that readers do not find.
    pub fn list_events(&self, created: bool, missed: bool) {
        self.shared.lists_created.store(created, Relaxed);
        self.shared.lists_missed.store(missed, Relaxed);
    }

    /// Returns what all shards counted.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.shared.volatile_shards().for_each(|volatile| volatile.counters.add_to(&mut stats));
        stats
    }

    /// Starts counting from zero.
    pub fn reset_stats(&self) {
        self.shared.volatile_shards().for_each(|volatile| volatile.counters.reset());
    }

    /// Keys, and keys with an expiry time, of a database. Takes no lock: what transactions are
    /// about to change is not in it, but for those of a volatile heap.
    pub fn count(&self, db: Db) -> (u64, u64) {
        let db = physical(self.shared.map.load(Relaxed), db.number());
        (0..self.shards()).fold((0, 0), |(keys, expiring), shard| {
            let counts = Counts::decode(self.shared.root_word(shard, counts_root(db)));
            let without_own_ttl =
                FieldCounts::decode(self.shared.root_word(shard, fields_root(db))).without_own_ttl;
            let own = counts.expiring.saturating_sub(without_own_ttl);
            (keys + u64::from(counts.keys), expiring + u64::from(own))
        })
    }

    /// Returns how many function libraries there are. Takes no lock: what transactions are about to
    /// change is not in it.
    pub fn libraries(&self) -> u64 {
        (0..self.shards())
            .map(|shard| self.shared.root_word(shard, counts_root(LIBRARIES)))
            .map(|word| u64::from(Counts::decode(word).keys))
            .sum()
    }

    /// Writes a large string into blocks of the key's shard, for [`Txn::set_prepared`].
    pub fn prepare(&self, key: &Key<'_>, bytes: &[u8]) -> Result<Prepared<'_>, Error> {
        let lock = || Some(self.heap().lock(key.shard()));
        Prepared::write(lock, key, bytes).map(|prepared| prepared.expect("it waits for the lock"))
    }

    /// Does the same for who has others to serve; `None` where the key's shard is locked.
    pub fn try_prepare(
        &self,
        key: &Key<'_>,
        bytes: &[u8],
        wait: Option<&ShardWait>,
    ) -> Result<Option<Prepared<'_>>, Error> {
        let ticket = wait.map_or(0, ShardWait::ticket);
        let lock = || -> Option<Shard<'_>> {
            let mut locked: SmallVec<[Shard<'_>; 1]> =
                self.heap().try_lock_all(&[key.shard()], ticket)?;
            locked.pop()
        };
        Prepared::write(lock, key, bytes)
    }

    /// Returns true if [`Keyspace::key_damage`] is to be asked before a command. One load.
    #[inline]
    pub fn has_media_errors(&self) -> bool {
        self.shared.damage.has_media_errors()
    }

    /// Returns the number of damaged keys found since the keyspace was opened.
    pub fn damaged_keys(&self) -> u64 {
        self.shared.damage.count()
    }

    /// Returns why the store was stopped, if it was.
    pub fn stopped(&self) -> Option<&str> {
        self.shared.damage.stopped()
    }

    /// Returns true if the store was stopped by a loss that hides keys: then reads are refused too.
    pub fn hides_keys(&self) -> bool {
        self.shared.damage.hides_keys()
    }

    /// Returns what was found and done since this was asked last, for the log.
    pub fn damage_news(&self) -> Vec<String> {
        self.shared.damage.take_events()
    }

    /// Finds out what lost bytes meant, until nothing is unresolved. The caller holds no shard.
    pub fn resolve_losses(&self) {
        self.resolver().resolve_losses();
    }

    /// Stops the store if its file was cut short, before anything is written into the gap. Returns
    /// true if so.
    pub fn stop_if_cut_short(&self) -> bool {
        self.resolver().stop_if_cut_short()
    }

    /// Returns why a command on this key cannot be tried. The caller holds no shard.
    pub fn key_damage(&self, db: Db, key: &Key<'_>) -> Option<KeyDamage> {
        self.resolver().key_damage(db, key)
    }

    /// Takes a lost entry that this key led to out of the indexes: whoever names it deletes or
    /// overwrites it.
    pub fn remove_unidentified(&self, db: Db, key: &Key<'_>) -> Result<(), CommitError> {
        self.resolver().remove_unidentified(db, key)
    }

    pub(crate) fn resolver(&self) -> Resolver<'_> {
        Resolver::new(&self.shared)
    }

    /// Returns how space is made.
    pub fn eviction(&self) -> Eviction {
        self.shared.eviction()
    }

    /// Changes how space is made. `now` is in unix ms.
    pub fn set_eviction(&self, eviction: Eviction, now: u64) {
        self.shared.set_eviction(eviction, now);
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
