//! A transaction: the locked shards of one command, of a batch, or of one EXEC, with what it read
//! and staged.
//!
//! All that happens in it happens at one time, `now`. Reading an expired key finds nothing and
//! writes nothing, but is remembered, so that it can be deleted afterwards (`lazily_expired`); a
//! writer that meets one deletes it first. An operation that fails may have staged a part of its
//! changes: whoever runs commands takes a savepoint before each and rolls back to it. Nothing is
//! visible to others, or durable, before `commit`, and the locks stay until the transaction is
//! dropped, so that a command log can be written in between.
//!
//! The operations stand by subject in `strings`, `keys` and `databases`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use heap::{Ptr, Shard, View};
use smallvec::SmallVec;
use structures::index::{Index, Slot};
use structures::reclaim::Queue;

use crate::changes::Changes;
use crate::eviction::access::Which;
use crate::expiry::lazy::LazilyExpired;
use crate::fault_points::FaultPoint;
use crate::layout::{
    Counts, FIELDS, Kind, MAP_ROOT, QUEUE_ROOT, counts_root, expiry_root, keys_root, map_word,
    physical,
};
use crate::lazy_free::Deferred;
use crate::types::{Encoding, Type};
use crate::value::{self, Str};
use crate::volatile::VolatileShard;
use crate::watch::After;
use crate::{
    Change, CommitError, Db, Error, Event, Key, Keyspace, Members, Prepared, Watch, collection,
    entry,
};

/// Shards of a transaction; this many without the heap.
const SHARDS: usize = 4;

/// A key that was found. Valid until the transaction changes anything.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub(crate) shard: usize,
    pub(crate) at: Ptr,
    pub(crate) which: Which,
}

/// A point to which a transaction can be rolled back.
pub struct Savepoint {
    /// By position in the transaction.
    shards: SmallVec<[(usize, heap::Savepoint); 1]>,
    changes: usize,
    flushed: usize,
    deferred: usize,
    map: u64,
}

/// Where a key belongs: index of the shard in the transaction, and physical database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyLocation {
    pub(crate) shard: usize,
    pub(crate) db: u8,
}

impl KeyLocation {
    /// Returns which key it is for the table of accesses.
    #[inline]
    pub(crate) fn which(self, hash: u64) -> Which {
        Which::new(hash, self.db)
    }
}

/// The key looked up last: commands look a key up, then write it.
#[derive(Clone, Copy)]
struct Memo {
    place: KeyLocation,
    hash: u64,
    slot: Slot,
}

/// The locked shards of one command or one EXEC. Dropped without `commit`, it changed nothing.
pub struct Txn<'k> {
    pub(crate) keyspace: &'k Keyspace,
    pub(crate) shards: SmallVec<[Shard<'k>; SHARDS]>,
    pub(crate) map: u64,
    now: u64,
    /// Made when there is something to list: most transactions have nothing.
    pub(crate) changes: Option<Box<Changes>>,
    /// Whether `changes` are those of a commit that has happened.
    pub(crate) committed: bool,
    /// Whether a key was linked that is to be listed as new with what is written to it.
    pub(crate) is_new: bool,
    /// Whether the next key that is linked takes the place of one that was deleted for it.
    pub(crate) is_overwritten: bool,
    memo: Option<Memo>,
    /// Expired keys that readers met.
    pub(crate) lazily_expired: Option<Box<LazilyExpired>>,
    /// A string that was written before the shards were locked.
    pub(crate) attached: Option<Box<Prepared<'k>>>,
    /// Whether keys that are found count as used.
    pub(crate) touches: bool,
    /// Values that are freed in the background after the commit.
    pub(crate) deferred: Deferred,
    /// Memory for the bytes of a packed collection that is being changed.
    pub(crate) spare: Vec<u8>,
}

impl<'k> Txn<'k> {
    /// Begins a transaction over `shards`, in ascending order.
    #[inline]
    pub(crate) fn new(
        keyspace: &'k Keyspace,
        shards: SmallVec<[Shard<'k>; SHARDS]>,
        now: u64,
    ) -> Txn<'k> {
        // The map changes under all locks only, so it is constant under any.
        let map = keyspace.map.load(Ordering::Acquire);
        Txn {
            keyspace,
            shards,
            map,
            now,
            changes: None,
            committed: false,
            is_new: false,
            is_overwritten: false,
            memo: None,
            lazily_expired: None,
            attached: None,
            touches: true,
            deferred: Deferred::default(),
            spare: Vec::new(),
        }
    }

    /// Returns the time at which everything in it happens, in unix ms.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Lets what follows happen at another time: while a log is replayed, at 0, so that nothing
    /// expires.
    pub fn set_now(&mut self, now: u64) {
        self.now = now;
        self.forget();
    }

    /// Hashes a key, once for everything that is done with it.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        self.keyspace.key(bytes)
    }

    /// Returns true if the shard of the key is locked.
    pub fn covers(&self, key: &Key<'_>) -> bool {
        self.position(key.shard()).is_some()
    }

    /// Returns the shards that are locked, in ascending order.
    pub fn locked(&self) -> impl Iterator<Item = usize> {
        self.shards.iter().map(Shard::id)
    }

    /// Returns true if every shard is locked.
    pub fn covers_all(&self) -> bool {
        self.shards.len() == self.keyspace.shards()
    }

    /// Locks one more shard, unless somebody else has it: whoever waited with shards locked could
    /// wait forever. Returns true if it is locked. No savepoint may be held over this.
    pub fn try_extend(&mut self, shard: usize) -> bool {
        if self.position(shard).is_some() {
            return true;
        }
        let locked = match FaultPoint::TryExtend.is_enabled() {
            true => self.keyspace.heap().try_lock(shard),
            false => Some(self.keyspace.heap().lock(shard)),
        };
        let Some(locked) = locked else { return false };
        let at = match FaultPoint::ExtendInOrder.is_enabled() {
            true => self.shards.partition_point(|other| other.id() < shard),
            false => self.shards.len(),
        };
        self.shards.insert(at, locked);
        if let Some(changes) = &mut self.changes {
            changes.insert_shard(at);
        }
        self.forget();
        true
    }

    #[inline]
    fn position(&self, shard: usize) -> Option<usize> {
        match self.shards.len() {
            1 => (self.shards[0].id() == shard).then_some(0),
            _ if self.covers_all() => Some(shard),
            _ => self.shards.binary_search_by_key(&shard, Shard::id).ok(),
        }
    }

    /// # Panics
    /// As [`Txn::place_in`].
    #[inline]
    pub(crate) fn place(&self, db: Db, key: &Key<'_>) -> KeyLocation {
        self.place_in(self.physical(db), key)
    }

    /// Returns where a key of a physical database belongs.
    ///
    /// # Panics
    /// If the shard of the key is not locked: whoever opened the transaction declared other keys.
    #[inline]
    pub(crate) fn place_in(&self, db: u8, key: &Key<'_>) -> KeyLocation {
        let Some(shard) = self.position(key.shard()) else {
            panic!("the transaction does not hold shard {}", key.shard());
        };
        KeyLocation { shard, db }
    }

    pub(crate) fn physical(&self, db: Db) -> u8 {
        physical(self.map, db.number())
    }

    pub(crate) fn volatile(&self, shard: usize) -> &'k VolatileShard {
        self.keyspace.volatile(self.shards[shard].id())
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

    /// Returns the slot of a key, expired or not.
    #[inline]
    pub(crate) fn slot(&self, place: KeyLocation, key: &Key<'_>) -> Option<Slot> {
        let shard = &self.shards[place.shard];
        if let Some(memo) = self.memo
            && (memo.place, memo.hash) == (place, key.hash)
            && entry::has_key(shard, memo.slot.entry(), key.bytes)
        {
            return Some(memo.slot);
        }
        let equal = |at| entry::has_key(shard, at, key.bytes);
        self.keys_index(place).find_with_hint(shard, key.hash, key.slot_hint, equal)
    }

    pub(crate) fn remember(&mut self, place: KeyLocation, key: &Key<'_>, slot: Slot) {
        self.memo = Some(Memo { place, hash: key.hash, slot });
    }

    /// Forgets what was found; to be called by whatever changes an index.
    pub(crate) fn forget(&mut self) {
        self.memo = None;
    }

    pub(crate) fn live(&self, place: KeyLocation, at: Ptr) -> bool {
        !entry::is_expired(&self.shards[place.shard], at, self.now)
    }

    /// Finds a key for a command that reads: counts a hit or a miss, notes the access. Expired keys
    /// are not found.
    #[inline]
    pub fn find(&mut self, db: Db, key: &Key<'_>) -> Option<Entry> {
        let place = self.place(db, key);
        let volatile = self.volatile(place.shard);
        let found = self.slot(place, key);
        let Some(slot) = found.filter(|slot| self.live(place, slot.entry())) else {
            volatile.counters.misses.add(1);
            if self.keyspace.lists_missed() {
                self.record_missed(place.shard, db, key.bytes);
            }
            if found.is_some() {
                self.add_lazily_expired(db, key);
            }
            return None;
        };
        volatile.counters.hits.add(1);
        self.touch_key(place, key);
        self.remember(place, key, slot);
        Some(Entry { shard: place.shard, at: slot.entry(), which: place.which(key.hash) })
    }

    /// Finds a key for a command that writes: an expired key is deleted (and listed in `changes`)
    /// and not found; so are expired fields of a hash, all or some.
    pub fn find_mut(&mut self, db: Db, key: &Key<'_>) -> Result<Option<Entry>, Error> {
        let place = self.place(db, key);
        let Some(mut slot) = self.slot_mut(place, db, key)? else { return Ok(None) };
        if entry::expiry_word(&self.shards[place.shard], slot.entry()) & FIELDS != 0 {
            self.expire_fields(db, key)?;
            let Some(left) = self.slot_mut(place, db, key)? else { return Ok(None) };
            slot = left;
        }
        self.touch_key(place, key);
        self.remember(place, key, slot);
        Ok(Some(Entry { shard: place.shard, at: slot.entry(), which: place.which(key.hash) }))
    }

    /// Returns the slot of a key; an expired key is deleted.
    #[inline]
    pub(crate) fn slot_mut(
        &mut self,
        place: KeyLocation,
        db: Db,
        key: &Key<'_>,
    ) -> Result<Option<Slot>, Error> {
        let Some(slot) = self.slot(place, key) else { return Ok(None) };
        if self.live(place, slot.entry()) {
            return Ok(Some(slot));
        }
        self.expire(place, db, key, slot)?;
        Ok(None)
    }

    /// Returns the type of the value.
    pub fn type_of(&self, entry: &Entry) -> Type {
        match entry::kind(&self.shards[entry.shard], entry.at) {
            Kind::Collection(head) => head.what,
            _ => Type::String,
        }
    }

    /// Returns how the value is kept.
    pub fn encoding(&self, entry: &Entry) -> Encoding {
        value::encoding(&self.shards[entry.shard], entry.at)
    }

    /// Returns when the key expires, in unix ms.
    pub fn expiry(&self, entry: &Entry) -> Option<u64> {
        Some(entry::expiry(&self.shards[entry.shard], entry.at)).filter(|&at| at != 0)
    }

    /// Returns the string that the key holds. A short one is verified; a blob is by the scrub.
    pub fn string<'t>(&'t self, entry: &Entry) -> Result<Str<'t>, Error> {
        let shard = &self.shards[entry.shard];
        match entry::sound(shard, entry.at)? {
            Kind::Collection(_) => Err(Error::WrongType),
            kind => Str::read_as(shard, entry.at, kind),
        }
    }

    /// Returns the members of a set, or the fields of a hash.
    pub fn members<'t>(&'t self, entry: &Entry, what: Type) -> Result<Members<'t>, Error> {
        let shard = &self.shards[entry.shard];
        match entry::sound(shard, entry.at)? {
            Kind::Collection(head) if head.what == what => {
                Members::read(shard, self.keyspace.hashing, entry.at, head, self.now)
            }
            _ => Err(Error::WrongType),
        }
    }

    /// Bytes of the heap that key, value and index take.
    pub fn memory(&self, entry: &Entry) -> u64 {
        let shard = &self.shards[entry.shard];
        let mut bytes = shard.capacity(entry.at) as u64 + entry::INDEX_COST;
        match entry::kind(shard, entry.at) {
            Kind::Collection(head) => {
                let word = shard.word(entry::cell(shard, entry.at));
                bytes += collection::memory(shard, head, word);
            }
            _ => entry::owned(shard, entry.at, |block| bytes += shard.capacity(block) as u64),
        }
        bytes
    }

    /// Forgets the changes of a commit that has happened.
    #[inline]
    pub(crate) fn drop_committed(&mut self) {
        if self.committed {
            self.changes = None;
            self.committed = false;
        }
    }

    /// Lists a change, where somebody wants to know.
    #[inline]
    pub(crate) fn record_change(&mut self, shard: usize, db: Db, key: &[u8], event: Event) {
        self.drop_committed();
        if self.is_new && event == Event::Written {
            self.is_new = false;
            self.changes_mut().record_change(shard, db, key, Event::Created);
        }
        use Event::{Evicted, Expired, FieldExpired};
        let wanted = matches!(event, Expired | FieldExpired | Evicted)
            || self.keyspace.tracks_changes()
            || !self.volatile(shard).watches.is_empty()
            || self.volatile(shard).followers.load(Ordering::Relaxed) > 0;
        if wanted {
            self.changes_mut().record_change(shard, db, key, event);
        }
    }

    /// Lists that a field expired.
    pub(crate) fn record_expired_field(&mut self, shard: usize, db: Db, key: &[u8], field: &[u8]) {
        self.drop_committed();
        self.changes_mut().record_expired_field(shard, db, key, field);
    }

    pub(crate) fn changes_mut(&mut self) -> &mut Changes {
        self.changes.get_or_insert_default()
    }

    /// Returns how many changes are listed that no commit has made durable.
    #[inline]
    pub fn pending_changes(&self) -> usize {
        self.changes.as_ref().filter(|_| !self.committed).map_or(0, |changes| changes.len())
    }

    /// Keys changed by this transaction (after a commit: by the committed one): those that expired
    /// or were evicted always; the others when tracked or when somebody watches.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        self.changes_from(0)
    }

    /// Returns those after the first `from`.
    pub fn changes_from(&self, from: usize) -> impl Iterator<Item = Change<'_>> {
        let changes = self.changes.iter();
        changes.flat_map(move |changes| changes.iter_from(from)).map(|(_, change)| change)
    }

    /// Lists the key as written, though its value stayed as it was.
    pub fn record_written(&mut self, db: Db, key: &Key<'_>) {
        self.record_change(self.place(db, key).shard, db, key.bytes, Event::Written);
    }

    /// Makes what was written since there were `from` pending changes something that no watch is
    /// told of: a value that is kept in another form.
    pub fn mark_metadata_only(&mut self, from: usize) {
        if let Some(changes) = self.changes.as_mut().filter(|_| !self.committed) {
            changes.mark_metadata_only(from);
        }
    }

    /// Sets `flag` when a later transaction changes the key; `None` if this flag does that already.
    pub fn watch(&mut self, db: Db, key: &Key<'_>, flag: &Arc<AtomicBool>) -> Option<Watch> {
        let place = self.place(db, key);
        let expired = self.after(place, key) == After::Expired;
        self.volatile(place.shard).watches.add(db, key.bytes, flag, expired)
    }

    /// Returns true if the key expired since it is watched: EXEC fails then, though nobody deleted
    /// the key yet.
    pub fn has_expired(&self, watch: &Watch) -> bool {
        let key = self.key(&watch.key);
        let place = self.place(watch.db, &key);
        self.after(place, &key) == After::Expired
            && !self.volatile(place.shard).watches.began_expired(watch)
    }

    pub(crate) fn after(&self, place: KeyLocation, key: &Key<'_>) -> After {
        match self.slot(place, key) {
            None => After::Absent,
            Some(slot) if self.live(place, slot.entry()) => After::Present,
            Some(_) => After::Expired,
        }
    }

    /// Returns a point to come back to.
    pub fn savepoint(&mut self) -> Savepoint {
        self.savepoint_at(0..self.shards.len())
    }

    /// Returns a point to come back to, for a command that changes nothing but these keys.
    pub fn savepoint_of(&mut self, keys: &[Key<'_>]) -> Savepoint {
        if let [key] = keys
            && let Some(at) = self.position(key.shard())
        {
            let shards = SmallVec::from_buf([(at, self.shards[at].savepoint())]);
            return self.savepoint_with(shards);
        }
        let shards = keys.iter().filter_map(|key| self.position(key.shard()));
        let mut shards: SmallVec<[usize; 4]> = shards.collect();
        shards.sort_unstable();
        shards.dedup();
        self.savepoint_at(shards.into_iter())
    }

    fn savepoint_at(&mut self, shards: impl Iterator<Item = usize>) -> Savepoint {
        let shards = shards.map(|at| (at, self.shards[at].savepoint())).collect();
        self.savepoint_with(shards)
    }

    #[inline]
    fn savepoint_with(&self, shards: SmallVec<[(usize, heap::Savepoint); 1]>) -> Savepoint {
        let changes = self.changes.as_ref().filter(|_| !self.committed);
        let (changes, flushed) = changes.map_or((0, 0), |c| (c.len(), c.flushed.len()));
        Savepoint { shards, changes, flushed, deferred: self.deferred.len(), map: self.map }
    }

    /// Undoes everything since `savepoint`: a failed command.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        for (at, to) in savepoint.shards {
            self.shards[at].rollback_to(to);
        }
        if let Some(changes) = self.changes.as_mut().filter(|_| !self.committed) {
            changes.truncate(savepoint.changes);
            changes.flushed.truncate(savepoint.flushed);
        }
        self.deferred.truncate(savepoint.deferred);
        self.map = savepoint.map;
        (self.is_new, self.is_overwritten) = (false, false);
        self.forget();
    }

    /// Returns true if there is anything to commit.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.shards.iter().any(Shard::is_dirty)
    }

    /// Returns the locked shards in which there is anything to commit.
    pub fn dirty(&self) -> impl Iterator<Item = usize> {
        self.shards.iter().filter(|shard| shard.is_dirty()).map(Shard::id)
    }

    /// Makes it durable and tells who watches. Locks are kept until the drop; what follows is a new
    /// transaction on them.
    #[inline]
    pub fn commit(&mut self) -> Result<(), CommitError> {
        match self.shards.as_mut_slice() {
            [one] => one.commit()?,
            all => self.keyspace.heap().commit_all(all)?,
        }
        if self.map != self.keyspace.map.load(Ordering::Relaxed) {
            self.keyspace.map.store(self.map, Ordering::Release);
        }
        if let Some(mut changes) = self.changes.take() {
            if !self.committed {
                self.notify_watches(&mut changes);
            }
            self.changes = Some(changes);
        }
        if self.deferred.len() > 0 {
            self.count_deferred();
        }
        self.committed = true;
        Ok(())
    }

    #[cold]
    fn notify_watches(&self, changes: &mut Changes) {
        for flushed in changes.flushed.drain(..) {
            let watches = &self.volatile(flushed.shard).watches;
            watches.touch_flushed(flushed.db, &flushed.key, flushed.was_there, flushed.after);
        }
        for (shard, change) in changes.iter() {
            let volatile = self.volatile(shard);
            match change.event {
                Event::Expired => volatile.counters.expired.add(1),
                Event::FieldExpired => volatile.counters.expired_fields.add(1),
                Event::Evicted => volatile.counters.evicted.add(1),
                Event::Created
                | Event::Deleted
                | Event::Flushed
                | Event::MetadataOnly
                | Event::Missed
                | Event::Written => {}
            }
            if !matches!(change.event, Event::Flushed | Event::MetadataOnly | Event::Missed)
                && !volatile.watches.is_empty()
            {
                let key = self.key(change.key);
                let place = KeyLocation { shard, db: self.physical(change.db) };
                volatile.watches.touch(change.db, change.key, self.after(place, &key));
            }
        }
    }

    /// Stages the word of the map of databases. All shards are locked.
    pub(crate) fn set_map(&mut self, map: u64) {
        let first = &mut self.shards[0];
        let root = first.root(MAP_ROOT);
        first.set(root, map_word(map));
        self.map = map;
        self.forget();
    }
}
