//! Making space: Redis's eviction policies over a sampled pool of candidates.
//!
//! Redis samples some keys, keeps the sixteen best candidates it has met, and evicts the best. Here
//! each shard has such a pool, and a step takes a shard at random, by its number of keys: the hash
//! spreads keys evenly, so the best of a shard is nearly the best of all. A candidate that was used
//! since it was sampled is judged again when its turn comes. Evictions are ordinary transactions.

pub(crate) mod access;
mod uses;

use std::sync::atomic::Ordering::Relaxed;

use crate::eviction::access::Which;
use crate::txn::KeyLocation;
use crate::{Db, Error, Event, Keyspace, Txn, entry};

/// Which keys go when memory is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// None: writes are refused.
    #[default]
    NoEviction,
    /// The least recently used of all keys.
    AllkeysLru,
    /// The least recently used of the keys with an expiry time.
    VolatileLru,
    /// The least frequently used of all keys.
    AllkeysLfu,
    /// The least frequently used of the keys with an expiry time.
    VolatileLfu,
    /// Any key.
    AllkeysRandom,
    /// Any key with an expiry time.
    VolatileRandom,
    /// The key that expires first.
    VolatileTtl,
}

impl Policy {
    /// Returns true if frequencies are kept in place of access times.
    pub fn is_lfu(self) -> bool {
        matches!(self, Policy::AllkeysLfu | Policy::VolatileLfu)
    }

    /// Returns true if it decides by access times or frequencies.
    pub fn is_by_access(self) -> bool {
        self.is_lfu() || matches!(self, Policy::AllkeysLru | Policy::VolatileLru)
    }

    /// Returns true if only keys with an expiry time may go.
    pub fn is_volatile(self) -> bool {
        matches!(
            self,
            Policy::VolatileLru
                | Policy::VolatileLfu
                | Policy::VolatileRandom
                | Policy::VolatileTtl
        )
    }
}

/// How space is made; Redis's directives of the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Bytes that the heap's blocks may take; 0 for no limit but the heap's own.
    pub maxmemory: u64,
    /// `maxmemory-policy`
    pub policy: Policy,
    /// `maxmemory-samples`
    pub samples: u32,
    /// `lfu-log-factor`
    pub lfu_log_factor: u32,
    /// `lfu-decay-time`, in minutes
    pub lfu_decay_time: u32,
}

impl Eviction {
    /// Redis's defaults.
    pub const DEFAULT: Eviction = Eviction {
        maxmemory: 0,
        policy: Policy::NoEviction,
        samples: 5,
        lfu_log_factor: 10,
        lfu_decay_time: 1,
    };
}

impl Default for Eviction {
    fn default() -> Eviction {
        Eviction::DEFAULT
    }
}

impl Eviction {
    /// Bytes that blocks may take in a heap of this limit.
    pub(crate) fn eviction_limit(&self, heap_limit: u64) -> u64 {
        // Blocks of one size do not serve another: leave the allocator some space to move.
        let evict_from = heap_limit - heap_limit / 16;
        match (self.maxmemory, self.policy) {
            (0, Policy::NoEviction) => u64::MAX,
            (0, _) => evict_from,
            (max, Policy::NoEviction) => max,
            (max, _) => max.min(evict_from),
        }
    }
}

/// Bytes of the smallest block, below which no entry is possible.
const SMALLEST_ENTRY: u64 = 16;

/// Redis's EVPOOL_SIZE.
const POOL: usize = 16;

struct Candidate {
    /// The higher, the sooner it goes.
    score: u64,
    db: Db,
    key: Box<[u8]>,
}

/// The best candidates that sampling has met in a shard, the best one last.
#[derive(Default)]
pub(crate) struct Pool {
    candidates: Vec<Candidate>,
}

impl Pool {
    fn add_candidate(&mut self, score: u64, db: Db, key: &[u8]) {
        if self.candidates.iter().any(|c| c.db == db && *c.key == *key) {
            return;
        }
        let at = self.candidates.partition_point(|c| c.score < score);
        if self.candidates.len() == POOL {
            if at == 0 {
                return;
            }
            self.candidates.remove(0);
            self.candidates.insert(at - 1, Candidate { score, db, key: key.into() });
        } else {
            self.candidates.insert(at, Candidate { score, db, key: key.into() });
        }
    }

    fn take(&mut self) -> Option<Candidate> {
        self.candidates.pop()
    }

    pub(crate) fn clear(&mut self) {
        self.candidates.clear();
    }
}

/// A small generator for one step.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

impl Txn<'_> {
    /// Samples every database of the locked shard into the pool.
    fn sample(&self, eviction: &Eviction, random: &mut Random, pool: &mut Pool) {
        let shard = &self.shards[0];
        for db in Db::all() {
            let place = KeyLocation { shard: 0, db: self.physical(db) };
            let index = if eviction.policy.is_volatile() {
                self.expiry_index(place)
            } else {
                self.keys_index(place)
            };
            let counts = self.counts(place);
            if counts.keys == 0 || eviction.policy.is_volatile() && counts.expiring == 0 {
                continue;
            }
            for _ in 0..eviction.samples.max(1) {
                let Some(at) = index.random(shard, || random.next()) else { break };
                // A hash may be here for the times of its fields alone.
                if eviction.policy.is_volatile() && entry::expiry(shard, at) == 0 {
                    continue;
                }
                let key = entry::key(shard, at);
                let which = place.which(self.keyspace.hashing.hash(&key));
                let score = self.score(eviction, at, which, random);
                pool.add_candidate(score, db, &key);
            }
        }
    }

    fn score(&self, eviction: &Eviction, at: heap::Ptr, which: Which, random: &mut Random) -> u64 {
        let access = &self.volatile(0).access;
        match eviction.policy {
            Policy::NoEviction | Policy::AllkeysRandom | Policy::VolatileRandom => random.next(),
            Policy::AllkeysLru | Policy::VolatileLru => access.idle_ms(which, self.now()),
            Policy::AllkeysLfu | Policy::VolatileLfu => u64::from(
                u8::MAX - access.frequency(which, self.now(), self.keyspace.lfu_settings()),
            ),
            Policy::VolatileTtl => u64::MAX - entry::expiry(&self.shards[0], at),
        }
    }

    /// Deletes the best candidate of the locked shard; false if there is none.
    fn evict_one(
        &mut self,
        eviction: &Eviction,
        random: &mut Random,
        pool: &mut Pool,
    ) -> Result<bool, Error> {
        // A key sampled before may have been used, deleted, or made persistent since.
        for _ in 0..2 {
            self.sample(eviction, random, pool);
            while let Some(candidate) = pool.take() {
                let key = self.key(&candidate.key);
                let place = self.place(candidate.db, &key);
                let Some(slot) = self.slot(place, &key) else { continue };
                let at = slot.entry();
                let persistent = entry::expiry(&self.shards[0], at) == 0;
                if persistent && eviction.policy.is_volatile()
                    || self.score(eviction, at, place.which(key.hash), random) < candidate.score
                        && !matches!(
                            eviction.policy,
                            Policy::AllkeysRandom | Policy::VolatileRandom
                        )
                {
                    continue;
                }
                let event = if self.live(place, at) { Event::Evicted } else { Event::Expired };
                self.unlink(place, key.hash, slot, true)?;
                self.record_change(0, candidate.db, &candidate.key, event);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Keyspace {
    /// Bytes in use beyond what `maxmemory` (or, with a policy, the heap's limit) allows; 0 if
    /// none.
    pub fn excess(&self) -> u64 {
        match self.eviction_limit.load(Relaxed) {
            u64::MAX => 0,
            eviction_limit => {
                let used = self.heap().used().max(SMALLEST_ENTRY);
                used.saturating_sub(eviction_limit).max(self.excess_with_other(used))
            }
        }
    }

    /// Returns the bytes beyond `maxmemory`, what is outside of the heap included; 0 if there is
    /// nothing outside.
    #[inline]
    fn excess_with_other(&self, used: u64) -> u64 {
        let other = self.other_memory();
        if other == 0 {
            return 0;
        }
        match self.maxmemory.load(Relaxed) {
            0 => 0,
            maxmemory => (used + other).saturating_sub(maxmemory),
        }
    }

    /// Returns the bytes outside of the heap that count toward `maxmemory`.
    pub fn other_memory(&self) -> u64 {
        u64::try_from(self.other_memory.load(Relaxed)).unwrap_or(0)
    }

    /// Says that this many bytes more, or fewer, outside of the heap count toward `maxmemory`.
    pub fn change_other_memory(&self, by: i64) {
        self.other_memory.fetch_add(by, Relaxed);
    }

    /// Returns true if more is in use than `maxmemory` allows, or if that is less than the smallest
    /// entry takes: then it allows none.
    pub fn exceeds_maxmemory(&self) -> bool {
        let maxmemory = self.maxmemory.load(Relaxed);
        let used = self.heap().used().max(SMALLEST_ENTRY) + self.other_memory();
        maxmemory > 0 && used > maxmemory
    }

    /// Deletes at most `budget` keys of one shard by the policy. The transaction comes back
    /// committed and still locked, so that `changes` can go into a command log before it is
    /// dropped. `None` when nothing exceeds (any more: what earlier deletes left is freed first),
    /// or when the policy finds no key: `excess` tells which. It waits for no shard:
    /// [`Error::Locked`] where all that may have a key are locked.
    pub fn evict_step(
        &self,
        budget: usize,
        now: u64,
        random: u64,
    ) -> Result<Option<Txn<'_>>, Error> {
        self.reclaim_until(|| self.excess() == 0);
        if self.excess() == 0 {
            return Ok(None);
        }
        self.evict_keys(budget, now, random)
    }

    /// Does the same whatever is in use: for a writer for which the heap had no block.
    pub fn evict_keys(
        &self,
        budget: usize,
        now: u64,
        random: u64,
    ) -> Result<Option<Txn<'_>>, Error> {
        let eviction = self.eviction();
        if eviction.policy == Policy::NoEviction {
            return Ok(None);
        }
        let mut random = Random::new(random);
        let mut shard = self.populated_shard(eviction.policy.is_volatile(), &mut random);
        let mut locked = None;
        for _ in 0..self.shards() {
            let Some(at) = shard else { return Ok(None) };
            shard = Some((at + 1) % self.shards());
            let held = self.time_lock_hold();
            let Some(mut txn) = self.try_begin_one(at, now) else {
                locked = locked.or(Some(at));
                continue;
            };
            if txn.evict_some(budget, &eviction, &mut random)? > 0 {
                txn.commit().map_err(|_| Error::ReadOnly)?;
                held.done();
                return Ok(Some(txn));
            }
        }
        locked.map_or(Ok(None), |shard| Err(Error::Locked(shard)))
    }
}

impl Txn<'_> {
    fn evict_some(
        &mut self,
        budget: usize,
        eviction: &Eviction,
        random: &mut Random,
    ) -> Result<usize, Error> {
        let volatile = self.volatile(0);
        let mut pool =
            heap::lock(&volatile.pool).unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut done = 0;
        while done < budget && self.evict_one(eviction, random, &mut pool)? {
            done += 1;
        }
        Ok(done)
    }
}
