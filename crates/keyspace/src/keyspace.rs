//! The handle to a keyspace, with which its users begin transactions.
//!
//! Each transaction locks its shards once, in ascending order, which prevents deadlocks between
//! transactions. Background work, checks, repairs and snapshots are in modules of their own.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use heap::{ANY_TURN, Heap, Shard, ShardWait};
use smallvec::SmallVec;
use structures::index::CURSOR_BITS;

use crate::damage::Resolver;
use crate::fault_points::FaultPoint;
use crate::key::MAX_KEY;
use crate::layout::{Counts, FieldCounts, LIBRARIES, counts_root, fields_root, physical};
use crate::position::{self, LeftPosition, Position};
use crate::prepared::LARGE;
use crate::shared::{Shared, cursor_shard};
use crate::value::MAX_STRING;
use crate::{CommitError, Db, Error, Eviction, Key, KeyDamage, Prepared, Stats, Txn, Watch};

/// Sixteen databases in the shards of a heap. It is `Send` and `Sync`: share it in an `Arc`.
pub struct Keyspace {
    pub(crate) shared: Shared,
    pub(crate) longest_lock_hold: AtomicU64,
    /// What the last use of the pool left.
    position: Mutex<Option<LeftPosition>>,
}

impl Keyspace {
    /// The maximum length of a string, in bytes.
    pub const MAX_STRING: usize = MAX_STRING;
    /// The maximum length of a key, in bytes.
    pub const MAX_KEY: usize = MAX_KEY;
    /// The length, in bytes, from which it pays to prepare or to pin a string.
    pub const LARGE: usize = LARGE;

    /// Attaches to a heap. Reads only a few words, unless the heap has recorded that entries lost
    /// their names. `now` is in unix milliseconds.
    pub fn new(heap: Heap, now: u64) -> Keyspace {
        let shared = Shared::new(heap, now);
        let position = Mutex::new(position::adopt(&shared, now));
        let keyspace = Keyspace { shared, longest_lock_hold: AtomicU64::new(0), position };
        keyspace.resolver().take_over();
        keyspace
    }

    /// Returns the underlying heap.
    pub fn heap(&self) -> &Heap {
        self.shared.heap()
    }

    /// Returns the heap, so that it can be closed.
    pub fn into_heap(self) -> Arc<Heap> {
        self.shared.heap
    }

    /// Returns the place of the data in a stream for replicas.
    #[inline]
    pub fn position(&self) -> Position<'_> {
        Position::new(&self.shared, &self.position)
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.shared.shards()
    }

    /// Prepares a database for this many keys, until [`Keyspace::expect_no_keys`] is called: its
    /// indexes grow in larger steps. If the keys do not arrive, an index takes up to sixteen times
    /// the space that its present entries need.
    pub fn expect_keys(&self, db: Db, keys: u64) {
        let physical = physical(self.shared.map.load(Relaxed), db.number());
        let keys = keys / self.shards() as u64;
        self.shared.expected.set(physical, keys);
        (0..self.shards()).for_each(|shard| self.shared.expect_accesses(shard, keys));
    }

    /// Ends what [`Keyspace::expect_keys`] began, for every database.
    pub fn expect_no_keys(&self) {
        self.shared.expected.clear();
    }

    /// Hashes a key, once for all its uses.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        self.shared.key(bytes)
    }

    /// Locks the shards (given in any order, repetitions allowed) and opens a transaction at `now`
    /// (unix ms).
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

    /// Like [`Keyspace::begin`], but returns `None`, with nothing locked, if one of the shards is
    /// already locked. Ignores the reservations of waiters.
    pub fn try_begin(&self, shards: impl Iterator<Item = usize>, now: u64) -> Option<Txn<'_>> {
        let locked = self.shared.heap.try_lock_all(&ascending(shards), ANY_TURN)?;
        Some(Txn::new(&self.shared, locked, now))
    }

    /// Like [`Keyspace::try_begin`], for a caller that may have waited for shards (`wait`). Also
    /// returns `None` if one of the shards is reserved for another waiter.
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

    /// Like [`Keyspace::try_begin`], for one shard.
    pub fn try_begin_one(&self, shard: usize, now: u64) -> Option<Txn<'_>> {
        let locked = self.shared.heap.try_lock_all(&[shard], ANY_TURN)?;
        Some(Txn::new(&self.shared, locked, now))
    }

    /// Like [`Keyspace::try_begin_as`], for one shard.
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

    /// Starts a wait for these shards that blocks no thread.
    pub fn wait_for_shards(&self, shards: &[usize]) -> ShardWait {
        ShardWait::enter(&self.shared.heap, shards)
    }

    /// Like [`Keyspace::begin`], for one shard.
    pub fn begin_one(&self, shard: usize, now: u64) -> Txn<'_> {
        let mut locked = SmallVec::new();
        locked.push(self.shared.heap.lock(shard));
        Txn::new(&self.shared, locked, now)
    }

    /// Like [`Keyspace::begin`], for all shards: FLUSHALL, SWAPDB, KEYS, RANDOMKEY.
    pub fn begin_all(&self, now: u64) -> Txn<'_> {
        let locked = (0..self.shards()).map(|shard| self.shared.heap.lock(shard)).collect();
        Txn::new(&self.shared, locked, now)
    }

    /// Returns the shard in which a SCAN continues from this cursor: lock it for
    /// [`crate::Database::scan`].
    pub fn scan_shard(&self, cursor: u64) -> usize {
        cursor_shard(cursor).min(self.shards() - 1)
    }

    /// Returns true if this cursor is at the beginning of its shard.
    pub fn begins_shard(cursor: u64) -> bool {
        cursor.is_multiple_of(1 << CURSOR_BITS)
    }

    /// Ends a watch.
    pub fn unwatch(&self, watch: Watch) {
        let shard = self.key(&watch.key).shard();
        self.shared.volatile(shard).watches.remove(watch);
    }

    /// Sets whether every transaction lists all of its changes (see [`Txn::changes`]), not only
    /// expired and evicted keys.
    pub fn track_changes(&self, yes: bool) {
        self.shared.tracks.store(yes, Relaxed);
    }

    /// Adds a listener to this shard: transactions list all changes in a shard that has listeners.
    /// A listener that is added while it holds the shard's lock misses no change.
    pub fn listen(&self, shard: usize) {
        self.shared.volatile(shard).listeners.fetch_add(1, Relaxed);
    }

    /// Removes a listener that [`Keyspace::listen`] added.
    pub fn unlisten(&self, shard: usize) {
        self.shared.volatile(shard).listeners.fetch_sub(1, Relaxed);
    }

    /// Sets whether transactions list new keys (`created`), and keys that readers do not find
    /// (`missed`).
    pub fn list_events(&self, created: bool, missed: bool) {
        self.shared.lists_created.store(created, Relaxed);
        self.shared.lists_missed.store(missed, Relaxed);
    }

    /// Returns the sums of the counters of all shards.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.shared.volatile_shards().for_each(|volatile| volatile.counters.add_to(&mut stats));
        stats
    }

    /// Resets the statistics to zero, except [`Stats::lazy_free_pending`].
    pub fn reset_stats(&self) {
        self.shared.volatile_shards().for_each(|volatile| volatile.counters.reset());
    }

    /// Returns the number of keys of a database, and how many of them have an expiry time. Takes no
    /// lock. The counts do not include changes of open transactions, except in a volatile heap.
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

    /// Returns the number of function libraries. Takes no lock. The count does not include changes
    /// of open transactions, except in a volatile heap.
    pub fn libraries(&self) -> u64 {
        (0..self.shards())
            .map(|shard| self.shared.root_word(shard, counts_root(LIBRARIES)))
            .map(|word| u64::from(Counts::decode(word).keys))
            .sum()
    }

    /// Writes a large string into blocks of the key's shard, for [`crate::Strings::set_prepared`].
    /// Waits for the shard's lock.
    pub fn prepare(&self, key: &Key<'_>, bytes: &[u8]) -> Result<Prepared<'_>, Error> {
        let lock = || Some(self.heap().lock(key.shard()));
        Prepared::write(lock, key, bytes).map(|prepared| prepared.expect("it waits for the lock"))
    }

    /// Like [`Keyspace::prepare`], for a caller that must not block: returns `None` if the key's
    /// shard is locked, or reserved for a waiter other than `wait`.
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

    /// Returns true if a command must call [`Keyspace::key_damage`] before it runs. One load.
    #[inline]
    pub fn has_media_errors(&self) -> bool {
        self.shared.damage.has_media_errors()
    }

    /// Returns the number of damaged keys found since the keyspace was opened.
    pub fn damaged_keys(&self) -> u64 {
        self.shared.damage.count()
    }

    /// Returns the reason why the store was stopped, if it was.
    pub fn stopped(&self) -> Option<&str> {
        self.shared.damage.stopped()
    }

    /// Returns true if the store was stopped by a loss that hides keys: reads are then refused too.
    pub fn hides_keys(&self) -> bool {
        self.shared.damage.hides_keys()
    }

    /// Returns messages for the log: the damage that was found, and what was done about it, since
    /// the last call.
    pub fn damage_news(&self) -> Vec<String> {
        self.shared.damage.take_events()
    }

    /// Finds out what lost bytes belonged to, until no loss is unresolved. The caller must not hold
    /// a shard.
    pub fn resolve_losses(&self) {
        self.resolver().resolve_losses();
    }

    /// Stops the store if its file was truncated, before anything is written into the gap. Returns
    /// true if the file was truncated.
    pub fn stop_if_cut_short(&self) -> bool {
        self.resolver().stop_if_cut_short()
    }

    /// Returns the reason why a command on this key must be refused, if there is one. The caller
    /// must not hold a shard.
    pub fn key_damage(&self, db: Db, key: &Key<'_>) -> Option<KeyDamage> {
        self.resolver().key_damage(db, key)
    }

    /// Removes from the indexes a lost entry that may have been this key's. For a caller that
    /// deletes or overwrites the key.
    pub fn remove_unidentified(&self, db: Db, key: &Key<'_>) -> Result<(), CommitError> {
        self.resolver().remove_unidentified(db, key)
    }

    pub(crate) fn resolver(&self) -> Resolver<'_> {
        Resolver::new(&self.shared)
    }

    /// Returns the eviction settings.
    pub fn eviction(&self) -> Eviction {
        self.shared.eviction()
    }

    /// Changes the eviction settings. `now` is in unix ms.
    pub fn set_eviction(&self, eviction: Eviction, now: u64) {
        self.shared.set_eviction(eviction, now);
    }
}

/// Returns the shards in ascending order, each once: the order in which they are locked.
pub(crate) fn ascending(shards: impl Iterator<Item = usize>) -> SmallVec<[usize; 16]> {
    let mut ascending = SmallVec::<[usize; 16]>::new();
    // A bit for each of the first 64 shards: set if the shard is already in `ascending`.
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
