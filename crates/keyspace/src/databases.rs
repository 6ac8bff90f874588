//! Whole databases: counting, walking, emptying, swapping. All operations see the locked shards
//! only.

use heap::{Ptr, View};
use structures::index::CURSOR_BITS;

use crate::changes::Flushed;
use crate::layout::{
    Counts, FieldCounts, Kind, OWNER_EXPIRY, OWNER_KEYS, counts_root, expiry_root, keys_root,
    swapped,
};
use crate::shared::cursor_shard;
use crate::txn::{Entry, KeyLocation};
use crate::watch::After;
use crate::{Db, Error, Event, Txn, entry, verify};

/// How many expired keys a random pick may meet before it takes the first live key.
const RANDOM_TRIES: usize = 100;
/// How many entries a step of a walk over everything visits.
const WALK: usize = 64;

/// A database that is read.
#[derive(Clone, Copy)]
pub struct Database<'t, 'k> {
    txn: &'t Txn<'k>,
    db: Db,
}

/// The operations that change whole databases.
pub struct Databases<'t, 'k> {
    txn: &'t mut Txn<'k>,
}

impl<'k> Txn<'k> {
    /// Returns a database, to count and to visit its keys.
    #[inline]
    pub fn database(&self, db: Db) -> Database<'_, 'k> {
        Database { txn: self, db }
    }

    /// Returns the operations that change whole databases.
    #[inline]
    pub fn databases(&mut self) -> Databases<'_, 'k> {
        Databases { txn: self }
    }
}

impl Database<'_, '_> {
    /// Returns the number of keys, including expired ones that have not been deleted yet.
    pub fn count(&self) -> u64 {
        self.txn.places(self.db).map(|place| u64::from(self.txn.counts(place).keys)).sum()
    }

    /// Returns the number of keys with an expiry time.
    pub fn count_expiring(&self) -> u64 {
        let here = |place| {
            let without_own_ttl = self.txn.field_counts(place).without_own_ttl;
            u64::from(self.txn.counts(place).expiring.saturating_sub(without_own_ttl))
        };
        self.txn.places(self.db).map(here).sum()
    }

    /// Returns the number of hashes of which a field has a time of its own.
    pub fn count_with_times(&self) -> u64 {
        self.txn.places(self.db).map(|place| u64::from(self.txn.field_counts(place).hashes)).sum()
    }

    /// Returns the estimated mean time to live of the keys with an expiry time, in milliseconds; 0
    /// while nothing is known. The mean of each locked shard is weighted by the size of its index
    /// of expiry times.
    pub fn mean_ttl(&self) -> u64 {
        let (mut sum, mut keys) = (0, 0);
        for place in self.txn.places(self.db) {
            let mean = self.txn.volatile(place.shard).mean_ttls[self.db.number()].get();
            let expiring = if mean == 0 { 0 } else { u128::from(self.txn.counts(place).expiring) };
            (sum, keys) = (sum + u128::from(mean) * expiring, keys + expiring);
        }
        sum.checked_div(keys).unwrap_or(0) as u64
    }

    /// Returns some key that has not expired. `random` returns random numbers.
    pub fn random_key(&self, random: &mut dyn FnMut() -> u64) -> Option<Vec<u8>> {
        for _ in 0..RANDOM_TRIES {
            let mut nth = random() % self.count().max(1);
            let place = self.txn.places(self.db).find(|place| {
                let keys = u64::from(self.txn.counts(*place).keys);
                let here = nth < keys;
                nth = nth.wrapping_sub(keys);
                here
            })?;
            let shard = &self.txn.shards[place.shard];
            let Some(at) = self.txn.keys_index(place).random(shard, &mut *random) else { break };
            if self.shows(place, at) {
                return Some(entry::key(shard, at).into_owned());
            }
        }
        // Nearly everything has expired, or the index is nearly empty: take the first key found.
        self.txn.places(self.db).find_map(|place| self.first(place))
    }

    fn first(&self, place: KeyLocation) -> Option<Vec<u8>> {
        let shard = &self.txn.shards[place.shard];
        let (mut found, mut cursor) = (None, 0);
        loop {
            cursor = self.txn.keys_index(place).scan(shard, cursor, WALK, |at| {
                if found.is_none() && self.shows(place, at) {
                    found = Some(entry::key(shard, at).into_owned());
                }
            });
            if cursor == 0 || found.is_some() {
                return found;
            }
        }
    }

    /// Returns true if a walk over all keys shows this one: it has not expired and, if it is marked
    /// as damaged, its name is known.
    fn shows(&self, place: KeyLocation, at: Ptr) -> bool {
        let shard = &self.txn.shards[place.shard];
        let named = || {
            let mut seen = verify::entry(shard, at, shard.capacity(at), None);
            let is_doubtful = seen.key.is_none();
            seen.readable_key().is_some_and(|key| {
                let leads_here = || self.leads(place, &key, at);
                !key.is_empty() && (!is_doubtful || leads_here())
            })
        };
        self.txn.live(place, at) && (Kind::decode(shard.word(at)).is_some() || named())
    }

    /// Returns true if the index leads from the hash of a key to this entry.
    fn leads(&self, place: KeyLocation, key: &[u8], at: Ptr) -> bool {
        let shard = &self.txn.shards[place.shard];
        let hash = self.txn.shared().hashing.hash(key);
        self.txn.keys_index(place).find(shard, hash, |found| found == at).is_some()
    }

    /// Visits every key that has not expired, except damaged keys whose name is lost.
    pub fn for_each(&self, visit: &mut dyn FnMut(&[u8], &Entry)) {
        for place in self.txn.places(self.db) {
            let mut cursor = 0;
            loop {
                cursor = self.scan_place(place, cursor, WALK, visit);
                if cursor == 0 {
                    break;
                }
            }
        }
    }

    /// Visits about `count` keys from `cursor` on; returns the next cursor, 0 at the end. The shard
    /// of the cursor ([`crate::Keyspace::scan_shard`]) must be locked. A cursor of any other shard,
    /// which no scan returned, ends the scan.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8], &Entry)) -> u64 {
        let shard = cursor_shard(cursor);
        let Some(position) = self.txn.shards.iter().position(|s| s.id() == shard) else { return 0 };
        let place = KeyLocation { shard: position, db: self.txn.physical(self.db) };
        let within = cursor & ((1 << CURSOR_BITS) - 1);
        let next = self.scan_place(place, within, count, visit);
        match next {
            0 if shard + 1 < self.txn.shared().shards() => (shard as u64 + 1) << CURSOR_BITS,
            0 => 0,
            next => next | (shard as u64) << CURSOR_BITS,
        }
    }

    fn scan_place(
        &self,
        place: KeyLocation,
        cursor: u64,
        count: usize,
        visit: &mut dyn FnMut(&[u8], &Entry),
    ) -> u64 {
        let shard = &self.txn.shards[place.shard];
        let hashing = &self.txn.shared().hashing;
        self.txn.keys_index(place).scan_segments(shard, cursor, count, |at: Ptr| {
            if self.shows(place, at) {
                let key = entry::key(shard, at);
                visit(&key, &place.entry(at, hashing.hash(&key)));
            }
        })
    }
}

impl Databases<'_, '_> {
    /// Empties the database in the locked shards; returns the number of keys deleted.
    /// [`crate::Keyspace::reclaim_step`] frees their blocks later.
    pub fn flush(&mut self, db: Db) -> Result<u64, Error> {
        self.txn.forget();
        let mut keys = 0;
        for place in self.txn.places(db) {
            self.record_flushed(place, db, None);
            keys += self.flush_place(place)?;
        }
        Ok(keys)
    }

    /// Empties a database in one shard; returns the number of keys deleted.
    pub(crate) fn flush_place(&mut self, place: KeyLocation) -> Result<u64, Error> {
        let keys = u64::from(self.txn.counts(place).keys);
        let queue = self.txn.queue(place.shard);
        let shard = &mut self.txn.shards[place.shard];
        let (all, expiring) = (shard.root(keys_root(place.db)), shard.root(expiry_root(place.db)));
        shard.allow_reserve(true);
        let done = queue
            .push_index(shard, all, OWNER_KEYS)
            .and_then(|()| queue.push_index(shard, expiring, OWNER_EXPIRY));
        shard.allow_reserve(false);
        done?;
        if keys > 0 {
            self.txn.defer(place.shard, keys);
        }
        let shard = &mut self.txn.shards[place.shard];
        if shard.word(shard.root(counts_root(place.db))) != 0 {
            self.txn.set_counts(place, Counts::default());
        }
        self.txn.set_field_counts(place, FieldCounts::default());
        Ok(keys)
    }

    /// Swaps two databases: writes one word. All shards must be locked.
    pub fn swap(&mut self, a: Db, b: Db) -> Result<(), Error> {
        assert!(self.txn.covers_all(), "a swap of databases needs every shard");
        if a == b {
            return Ok(());
        }
        for shard in 0..self.txn.shards.len() {
            self.record_flushed(
                KeyLocation { shard, db: self.txn.physical(a) },
                a,
                Some(self.txn.physical(b)),
            );
            self.record_flushed(
                KeyLocation { shard, db: self.txn.physical(b) },
                b,
                Some(self.txn.physical(a)),
            );
        }
        self.txn.set_map(swapped(self.txn.map(), a.number(), b.number()));
        Ok(())
    }

    /// Records the watched keys of a database that is emptied, or that is replaced by the physical
    /// database `by`.
    fn record_flushed(&mut self, place: KeyLocation, db: Db, by: Option<u8>) {
        let volatile = self.txn.volatile(place.shard);
        if volatile.watches.is_empty() {
            return;
        }
        for bytes in volatile.watches.keys(db) {
            let key = self.txn.key(&bytes);
            let was_there = self.txn.after(place, &key) != After::Absent;
            let after = by
                .map_or(After::Absent, |by| self.txn.after(KeyLocation { db: by, ..place }, &key));
            if was_there || after != After::Absent {
                self.txn.record_change(place.shard, db, &bytes, Event::Flushed);
                let flushed = Flushed { shard: place.shard, db, key: bytes, was_there, after };
                self.txn.changes_mut().flushed.push(flushed);
            }
        }
    }
}
