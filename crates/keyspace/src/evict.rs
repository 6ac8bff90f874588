//! Making space: Redis's eviction policies over sampled candidates.
//!
//! Redis samples some keys, keeps the sixteen best candidates so far, and evicts the best one. Here
//! each shard has candidates, and a step selects a shard at random, weighted by its number of
//! keys. The hash spreads keys evenly, so the best candidate of a shard is nearly the best of all.
//! A candidate whose score has fallen since it was sampled, because it was used, is dropped.
//! Evictions are ordinary transactions.

use std::sync::atomic::Ordering::Relaxed;

use crate::eviction::access::Which;
use crate::eviction::{Candidates, Random};
use crate::txn::KeyLocation;
use crate::{Db, Error, Event, Eviction, Keyspace, Policy, Txn, entry};

/// The size of the smallest block, in bytes; no entry is smaller.
const SMALLEST_ENTRY: u64 = 16;

impl Keyspace {
    /// Returns by how many bytes the memory in use exceeds `maxmemory` or, with an eviction policy,
    /// fifteen sixteenths of the heap's limit; 0 if it exceeds neither.
    pub fn excess(&self) -> u64 {
        match self.shared.eviction_limit.load(Relaxed) {
            u64::MAX => 0,
            eviction_limit => {
                let used = self.heap().used().max(SMALLEST_ENTRY);
                used.saturating_sub(eviction_limit).max(self.excess_with_other(used))
            }
        }
    }

    /// Returns the number of bytes beyond `maxmemory`, including those outside the heap; 0 if there
    /// are none outside.
    #[inline]
    fn excess_with_other(&self, used: u64) -> u64 {
        let other = self.other_memory();
        if other == 0 {
            return 0;
        }
        match self.shared.maxmemory.load(Relaxed) {
            0 => 0,
            maxmemory => (used + other).saturating_sub(maxmemory),
        }
    }

    /// Returns the number of bytes outside the heap that count toward `maxmemory`.
    pub fn other_memory(&self) -> u64 {
        u64::try_from(self.shared.other_memory.load(Relaxed)).unwrap_or(0)
    }

    /// Changes the number of bytes outside the heap that count toward `maxmemory`.
    pub fn change_other_memory(&self, by: i64) {
        self.shared.other_memory.fetch_add(by, Relaxed);
    }

    /// Returns true if more is in use than `maxmemory` allows. A `maxmemory` below the size of the
    /// smallest entry allows no entry.
    pub fn exceeds_maxmemory(&self) -> bool {
        let maxmemory = self.shared.maxmemory.load(Relaxed);
        let used = self.heap().used().max(SMALLEST_ENTRY) + self.other_memory();
        maxmemory > 0 && used > maxmemory
    }

    /// Deletes at most `budget` keys of one shard by the policy. The transaction is returned
    /// committed and still locked, so that `changes` can be written to a command log before it is
    /// dropped. First frees blocks that earlier deletes left. Returns `None` if the limit is no
    /// longer exceeded, or if the policy finds no key: `excess` shows which. Never waits for a
    /// shard: returns [`Error::Locked`] if all shards that may have a key are locked.
    pub fn evict_step(
        &self,
        budget: usize,
        now: u64,
        random: u64,
    ) -> Result<Option<Txn<'_>>, Error> {
        let Some(mut txn) = self.stage_eviction_if_over_limit(budget, now, random)? else {
            return Ok(None);
        };
        txn.commit().map_err(|_| Error::ReadOnly)?;
        Ok(Some(txn))
    }

    /// Like [`Keyspace::evict_step`], but the caller commits the transaction.
    pub fn stage_eviction_if_over_limit(
        &self,
        budget: usize,
        now: u64,
        random: u64,
    ) -> Result<Option<Txn<'_>>, Error> {
        self.reclaim_until(|| self.excess() == 0);
        if self.excess() == 0 {
            return Ok(None);
        }
        self.stage_eviction(budget, now, random)
    }

    /// Like [`Keyspace::stage_eviction_if_over_limit`], however much is in use: for a writer for
    /// which the heap had no block.
    pub fn stage_eviction(
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
        let mut shard = self.shared.populated_shard(eviction.policy.is_volatile(), &mut random);
        let mut locked = None;
        for _ in 0..self.shards() {
            let Some(at) = shard else { return Ok(None) };
            shard = Some((at + 1) % self.shards());
            let held = self.time_lock_hold();
            let Some(mut txn) = self.try_begin_one(at, now) else {
                locked = locked.or(Some(at));
                continue;
            };
            if evict_from_shard(&mut txn, budget, &eviction, &mut random)? > 0 {
                debug_assert!(txn.pending_changes() > 0, "the log needs a DEL for each eviction");
                held.done();
                return Ok(Some(txn));
            }
        }
        locked.map_or(Ok(None), |shard| Err(Error::Locked(shard)))
    }
}

/// Samples candidates from every database of the locked shard.
fn sample(txn: &Txn<'_>, eviction: &Eviction, random: &mut Random, candidates: &mut Candidates) {
    let shard = &txn.shards[0];
    for db in Db::all() {
        let place = KeyLocation { shard: 0, db: txn.physical(db) };
        let index = if eviction.policy.is_volatile() {
            txn.expiry_index(place)
        } else {
            txn.keys_index(place)
        };
        let counts = txn.counts(place);
        if counts.keys == 0 || eviction.policy.is_volatile() && counts.expiring == 0 {
            continue;
        }
        for _ in 0..eviction.samples.max(1) {
            let Some(at) = index.random(shard, || random.next()) else { break };
            // A hash may be in this index only because of the times of its fields.
            if eviction.policy.is_volatile() && entry::expiry(shard, at) == 0 {
                continue;
            }
            let key = entry::key(shard, at);
            let which = place.which(txn.shared().hashing.hash(&key));
            let score = score(txn, eviction, at, which, random);
            candidates.add_candidate(score, db, &key);
        }
    }
}

fn score(
    txn: &Txn<'_>,
    eviction: &Eviction,
    at: heap::Ptr,
    which: Which,
    random: &mut Random,
) -> u64 {
    let access = &txn.volatile(0).access;
    match eviction.policy {
        Policy::NoEviction | Policy::AllkeysRandom | Policy::VolatileRandom => random.next(),
        Policy::AllkeysLru | Policy::VolatileLru => access.idle_ms(which, txn.now()),
        Policy::AllkeysLfu | Policy::VolatileLfu => {
            u64::from(u8::MAX - access.frequency(which, txn.now(), txn.shared().lfu_settings()))
        }
        Policy::VolatileTtl => u64::MAX - entry::expiry(&txn.shards[0], at),
    }
}

/// Deletes the best candidate of the locked shard; returns false if there is none.
fn evict_one(
    txn: &mut Txn<'_>,
    eviction: &Eviction,
    random: &mut Random,
    candidates: &mut Candidates,
) -> Result<bool, Error> {
    // A key sampled earlier may have been used, deleted, or made persistent since.
    for _ in 0..2 {
        sample(txn, eviction, random, candidates);
        while let Some(candidate) = candidates.take() {
            let key = txn.key(&candidate.key);
            let place = txn.place(candidate.db, &key);
            let Some(slot) = txn.slot(place, &key) else { continue };
            let at = slot.entry();
            let persistent = entry::expiry(&txn.shards[0], at) == 0;
            if persistent && eviction.policy.is_volatile()
                || score(txn, eviction, at, place.which(key.hash), random) < candidate.score
                    && !matches!(eviction.policy, Policy::AllkeysRandom | Policy::VolatileRandom)
            {
                continue;
            }
            let event = if txn.live(place, at) { Event::Evicted } else { Event::Expired };
            txn.unlink(place, key.hash, slot, true)?;
            txn.record_change(0, candidate.db, &candidate.key, event);
            return Ok(true);
        }
    }
    Ok(false)
}

fn evict_from_shard(
    txn: &mut Txn<'_>,
    budget: usize,
    eviction: &Eviction,
    random: &mut Random,
) -> Result<usize, Error> {
    debug_assert!(txn.shards.len() == 1, "keys of one shard are evicted");
    let volatile = txn.volatile(0);
    let candidates = heap::lock(&volatile.candidates);
    let mut candidates = candidates.unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut done = 0;
    while done < budget && evict_one(txn, eviction, random, &mut candidates)? {
        done += 1;
    }
    Ok(done)
}
