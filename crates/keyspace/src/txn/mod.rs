//! A transaction: the locked shards of one command, of a batch, or of one EXEC, with the changes
//! that it staged.
//!
//! Everything in a transaction happens at one time, `now`. A reader of an expired key finds nothing
//! and writes nothing, but the transaction remembers the key so that it can be deleted afterwards
//! (`lazy`); a writer that meets an expired key deletes it first. An operation that fails may have
//! staged a part of its changes: the caller takes a savepoint before each command and rolls back to
//! it. Nothing is visible to others, or durable, before `commit`. The locks are held until the
//! transaction is dropped, so that a command log can be written in between.
//!
//! This module has what the operations on all types need: the locked shards, the lookup of a key
//! (`lookup`) and what its entry says of it (`properties`), the staging of its entry (`write`,
//! `expiry`), the list of changes (`listed`), rollback (`savepoint`) and commit (`commit`). It
//! knows only the format of entries and of what they own.
//!
//! The operations are in a module for each type: `strings`, `bitmap`, `hyperloglog`, `lists`,
//! `members` (hashes and sets), `sorted_sets`, `streams`; those on values of any type are in `keys`
//! and `elements`, those on whole databases in `databases`, those on function libraries in
//! `functions`. Such a module owns a handle, such as [`crate::Lists`], which has the operations
//! that change values of the type and nothing else, and it adds to [`Txn`] the method that returns
//! the handle and the one that reads a value that was found. A handle is a reference to the
//! transaction, so that taking it costs nothing.

mod commit;
mod expiry;
mod lazy;
mod lazy_free;
mod listed;
mod lookup;
pub(crate) mod moves;
mod properties;
mod savepoint;
mod uses;
mod write;

pub use expiry::Expire;
pub use properties::Properties;
pub use savepoint::Savepoint;
pub use write::AbsentKey;
pub(crate) use write::Old;

use std::sync::atomic::Ordering;

use heap::{Ptr, Shard, View};
use smallvec::SmallVec;
use structures::index::Index;
use structures::reclaim::Queue;

use self::lazy::LazilyExpired;
use self::lazy_free::QueuedValues;
use self::lookup::Memo;
use self::moves::Moves;
use crate::changes::Changes;
use crate::eviction::access::Which;
use crate::fault_points::FaultPoint;
use crate::layout::{
    Counts, FieldCounts, QUEUE_ROOT, counts_root, expiry_root, fields_root, keys_root, physical,
};
use crate::shared::Shared;
use crate::volatile::VolatileShard;
use crate::{Db, Key, Prepared};

/// The number of shards that a transaction holds without an allocation in DRAM.
const SHARDS: usize = 4;

/// The entry of a key that was found. Valid until the transaction changes anything.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub(crate) shard: usize,
    pub(crate) at: Ptr,
    which: Which,
}

/// The location of a key: the position of its shard in the transaction, and the physical database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyLocation {
    pub(crate) shard: usize,
    pub(crate) db: u8,
}

impl KeyLocation {
    /// Returns how the access table identifies the key with this hash.
    #[inline]
    pub(crate) fn which(self, hash: u64) -> Which {
        Which::new(hash, self.db)
    }

    /// Returns the entry at `at`, whose key has this hash.
    #[inline]
    pub(crate) fn entry(self, at: Ptr, hash: u64) -> Entry {
        Entry { shard: self.shard, at, which: self.which(hash) }
    }
}

/// The locked shards of one command, of a batch or of one EXEC. A transaction that is dropped
/// without `commit` changes nothing.
///
/// It finds keys, undoes and commits changes. The operations on values are elsewhere: a value that
/// was found is read by its entry, and values are changed by their keys, through handles.
///
/// | | read | changed |
/// |---|---|---|
/// | strings | [`Txn::string`] | [`Txn::strings`] |
/// | bitmaps, which are strings | [`Str::bit`](crate::Str::bit) | [`Txn::bitmaps`] |
/// | HyperLogLogs, which are strings | [`Txn::hyperloglogs`] | [`Txn::hyperloglogs`] |
/// | lists | [`Txn::list`] | [`Txn::lists`] |
/// | hashes | [`Txn::members`] | [`Txn::hashes`] |
/// | sets | [`Txn::members`] | [`Txn::sets`] |
/// | sorted sets | [`Txn::sorted_set`] | [`Txn::sorted_sets`] |
/// | streams | [`Txn::stream`] | [`Txn::streams`] |
/// | any type | [`Txn::properties`], [`Txn::elements`], [`Txn::content`] | [`Txn::keys`] |
/// | databases | [`Txn::database`] | [`Txn::databases`] |
/// | function libraries | [`Txn::library`] | [`Txn::libraries`] |
pub struct Txn<'k> {
    shared: &'k Shared,
    pub(crate) shards: SmallVec<[Shard<'k>; SHARDS]>,
    map: u64,
    now: u64,
    /// The time of uses of keys, if that is later.
    used_at: u64,
    /// Allocated when there is something to list: most transactions list nothing.
    changes: Option<Box<Changes>>,
    /// Whether `changes` have been committed.
    committed: bool,
    /// Whether the key that was linked last must be listed as new, when the write to it is listed.
    is_new: bool,
    /// Whether the next key that is linked replaces one that was just deleted.
    is_overwritten: bool,
    memo: Option<Memo>,
    /// Expired keys that readers met, to be deleted later.
    lazily_expired: Option<Box<LazilyExpired>>,
    /// A large string that was written before the shards were locked.
    attached: Option<Box<Prepared<'k>>>,
    /// Whether finding a key counts as a use of it.
    touches: bool,
    /// The effect of the next commit on the data's place in a stream for replicas.
    pub(crate) moves: Moves,
    /// Values that are freed in the background after the commit.
    deferred: QueuedValues,
    /// A buffer for the bytes of a packed collection that is being changed.
    spare: Vec<u8>,
}

impl<'k> Txn<'k> {
    /// Begins a transaction over `shards`, in ascending order.
    #[inline]
    pub(crate) fn new(
        shared: &'k Shared,
        shards: SmallVec<[Shard<'k>; SHARDS]>,
        now: u64,
    ) -> Txn<'k> {
        debug_assert!(shards.is_sorted_by(|a, b| a.id() < b.id()), "shards are searched by number");
        // The map changes only while all shards are locked, so it is constant while any shard is.
        let map = shared.map.load(Ordering::Acquire);
        Txn {
            shared,
            shards,
            map,
            now,
            used_at: 0,
            changes: None,
            committed: false,
            is_new: false,
            is_overwritten: false,
            memo: None,
            lazily_expired: None,
            attached: None,
            touches: true,
            moves: Moves::Away,
            deferred: QueuedValues::default(),
            spare: Vec::new(),
        }
    }

    /// Makes the transaction see the databases through this map, as they were at the cut of a
    /// snapshot. Reads of the past are not counted as uses of keys.
    pub(crate) fn read_past(&mut self, map: u64) {
        self.map = map;
        self.touches = false;
    }

    /// Returns the time at which everything in the transaction happens, in unix ms.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Changes the time of the operations that follow. The replay of a log sets 0, so that nothing
    /// expires.
    pub fn set_now(&mut self, now: u64) {
        self.now = now;
        self.forget();
    }

    /// Hashes a key, once for all its uses.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        self.shared.key(bytes)
    }

    /// Returns true if the shard of the key is locked.
    pub fn covers(&self, key: &Key<'_>) -> bool {
        self.position(key.shard()).is_some()
    }

    /// Returns the locked shards, in ascending order.
    pub fn locked(&self) -> impl Iterator<Item = usize> {
        self.shards.iter().map(Shard::id)
    }

    /// Returns true if every shard is locked.
    pub fn covers_all(&self) -> bool {
        self.shards.len() == self.shared.shards()
    }

    /// Locks one more shard, unless another transaction holds it: to wait while holding shards
    /// could deadlock. Returns true if the shard is locked now. Savepoints that were taken before
    /// this call become invalid.
    pub fn try_extend(&mut self, shard: usize) -> bool {
        if self.position(shard).is_some() {
            return true;
        }
        let locked = match FaultPoint::TryExtend.is_enabled() {
            true => self.shared.heap().try_lock(shard),
            false => Some(self.shared.heap().lock(shard)),
        };
        let Some(locked) = locked else { return false };
        let at = match FaultPoint::ExtendInOrder.is_enabled() {
            true => self.shards.partition_point(|other| other.id() < shard),
            false => self.shards.len(),
        };
        self.shards.insert(at, locked);
        debug_assert!(
            !FaultPoint::ExtendInOrder.is_enabled() || self.shards.is_sorted_by_key(Shard::id)
        );
        if let Some(changes) = &mut self.changes {
            changes.insert_shard(at);
        }
        self.forget();
        true
    }

    /// Attaches a prepared string, for the command that will set it.
    pub fn attach(&mut self, prepared: Prepared<'k>) {
        debug_assert!(self.attached.is_none(), "a transaction has one large string at most");
        self.attached = Some(Box::new(prepared));
    }

    /// Takes the attached string, to pass it to [`crate::Strings::set_prepared`].
    #[inline]
    pub fn take_attached(&mut self) -> Option<Box<Prepared<'k>>> {
        self.attached.take()
    }

    /// Takes a buffer for the bytes of a packed collection that is being changed.
    #[inline]
    pub(crate) fn take_spare(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.spare)
    }

    /// Keeps a buffer for the next packed collection that is changed.
    #[inline]
    pub(crate) fn keep_spare(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        if bytes.capacity() > self.spare.capacity() {
            self.spare = bytes;
        }
    }

    /// Returns what all transactions of the keyspace share.
    #[inline]
    pub(crate) fn shared(&self) -> &'k Shared {
        self.shared
    }

    #[inline]
    fn position(&self, shard: usize) -> Option<usize> {
        debug_assert!(shard < self.shared.shards(), "no shard has this number");
        match self.shards.len() {
            1 => (self.shards[0].id() == shard).then_some(0),
            _ if self.covers_all() => Some(shard),
            _ => self.shards.binary_search_by_key(&shard, Shard::id).ok(),
        }
    }

    /// Like [`Txn::place_in`], for a logical database.
    ///
    /// # Panics
    /// Like [`Txn::place_in`].
    #[inline]
    pub(crate) fn place(&self, db: Db, key: &Key<'_>) -> KeyLocation {
        self.place_in(self.physical(db), key)
    }

    /// Returns where a key of a physical database belongs.
    ///
    /// # Panics
    /// If the shard of the key is not locked: the transaction was opened for other keys.
    #[inline]
    pub(crate) fn place_in(&self, db: u8, key: &Key<'_>) -> KeyLocation {
        let Some(shard) = self.position(key.shard()) else {
            panic!("the transaction does not hold shard {}", key.shard());
        };
        KeyLocation { shard, db }
    }

    /// Returns the map from logical databases to physical ones.
    pub(crate) fn map(&self) -> u64 {
        self.map
    }

    pub(crate) fn physical(&self, db: Db) -> u8 {
        physical(self.map, db.number())
    }

    pub(crate) fn volatile(&self, shard: usize) -> &'k VolatileShard {
        self.shared.volatile(self.shards[shard].id())
    }

    pub(crate) fn keys_index(&self, place: KeyLocation) -> Index {
        Index::at(self.shards[place.shard].root(keys_root(place.db)))
    }

    pub(crate) fn expiry_index(&self, place: KeyLocation) -> Index {
        Index::at(self.shards[place.shard].root(expiry_root(place.db)))
    }

    pub(crate) fn queue(&self, shard: usize) -> Queue {
        Queue::at(self.shards[shard].root(QUEUE_ROOT))
    }

    pub(crate) fn counts(&self, place: KeyLocation) -> Counts {
        let shard = &self.shards[place.shard];
        Counts::decode(shard.word(shard.root(counts_root(place.db))))
    }

    pub(crate) fn set_counts(&mut self, place: KeyLocation, counts: Counts) {
        let shard = &mut self.shards[place.shard];
        let root = shard.root(counts_root(place.db));
        shard.set(root, counts.encode());
    }

    /// Returns the location of a database's keys in each locked shard.
    pub(crate) fn places(&self, db: Db) -> impl Iterator<Item = KeyLocation> + use<> {
        let db = self.physical(db);
        (0..self.shards.len()).map(move |shard| KeyLocation { shard, db })
    }

    pub(crate) fn field_counts(&self, place: KeyLocation) -> FieldCounts {
        let shard = &self.shards[place.shard];
        FieldCounts::decode(shard.word(shard.root(fields_root(place.db))))
    }

    pub(crate) fn set_field_counts(&mut self, place: KeyLocation, counts: FieldCounts) {
        if self.field_counts(place) != counts {
            let shard = &mut self.shards[place.shard];
            let root = shard.root(fields_root(place.db));
            shard.set(root, counts.encode());
        }
    }
}
