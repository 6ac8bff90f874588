//! When and how often keys were used: approximate, and in DRAM only. A restart forgets it.
//!
//! The table is a hash table of buckets, each of which is one cache line with eight cells. A cell
//! holds 31 bits of a key's hash as its tag, and the key's record of use. A key's bucket, and its
//! *home*, the cell that is tried first, follow from the same bits. If an eviction policy decides
//! by accesses, the table has on average at most four keys for each bucket. Then a key has a cell
//! of its own unless its bucket has more than eight keys: about one key in 150 when the table is
//! about to grow. Of the keys of such a bucket, those used last (or most often) have the cells. Of
//! a key without a cell it is only known that it was used no later (or no more often) than those
//! with one. Two keys of a shard whose tags are equal are mistaken for each other: this affects
//! about N / 2^31 of N keys.
//!
//! If no policy needs accesses, only OBJECT IDLETIME reads the table. Then it is small, so that
//! writing it costs no cache miss, and can be *over capacity*: a key that is used then takes its
//! home from any other key.
//!
//! The table doubles by adding a segment as long as all before it. The new segment takes over the
//! cells of the keys whose buckets are now in it. Cells are atomics without a lock: simultaneous
//! updates only cost precision.
//!
//! A record of use is either a time in tenths of a second (LRU) or, as in Redis, minutes << 8 |
//! logarithmic counter (LFU).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const CELLS: usize = 8;
/// The table grows when it has more keys than this for each bucket, on average.
const KEYS: u64 = 4;
/// The number of buckets of the first segment.
const FIRST: usize = 128;
/// The greatest number of segments for which the bits of a tag include those that select the
/// bucket, and those of the home above them.
const SEGMENTS: usize = 22;
const HOME_SHIFT: u32 = 28;
const DB_SHIFT: u32 = 24;
const _: () = assert!(FIRST << (SEGMENTS - 1) == 1 << HOME_SHIFT);
/// Redis's counter for a new key, so that it is not evicted before it can be used.
const LFU_INIT: u8 = 5;

/// Redis's `lfu-log-factor` and `lfu-decay-time`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lfu {
    pub(crate) log_factor: u32,
    pub(crate) decay_minutes: u32,
}

/// A key of a shard: its hash, combined with its physical database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Which(u64);

impl Which {
    #[inline]
    pub(crate) fn new(hash: u64, physical: u8) -> Which {
        Which(hash ^ u64::from(physical) << DB_SHIFT)
    }

    #[inline]
    fn tag(self) -> u64 {
        // A cell in use is never zero.
        (self.0 | 1 << 31) << 32
    }

    #[inline]
    fn home(self) -> usize {
        (self.0 >> HOME_SHIFT) as usize % CELLS
    }
}

/// The bits of the tag in a cell, which is tag << 32 | record of use. A free cell is zero.
const TAG: u64 = !0 << 32;

#[derive(Default)]
#[repr(align(64))]
struct Bucket([AtomicU64; CELLS]);

impl Bucket {
    /// Returns the cell of a key, if it has one.
    fn find(&self, which: Which) -> Option<&AtomicU64> {
        let at = |n: usize| &self.0[(which.home() + n) % CELLS];
        (0..CELLS).map(at).find(|cell| cell.load(Relaxed) & TAG == which.tag())
    }

    /// Returns the cell for a key that has none: a free one, or else the one with the least
    /// `worth`.
    fn free_cell(&self, which: Which, worth: impl Fn(u32) -> u32) -> &AtomicU64 {
        let at = |n: usize| &self.0[(which.home() + n) % CELLS];
        let worth_of = |cell: &&AtomicU64| match cell.load(Relaxed) {
            0 => 0,
            said => u64::from(worth(said as u32)) + 1,
        };
        (0..CELLS).map(at).min_by_key(worth_of).expect("a bucket has cells")
    }

    /// Returns the records of use of all its cells if none is free.
    fn if_full(&self) -> Option<[u32; CELLS]> {
        let cells = self.0.each_ref().map(|cell| cell.load(Relaxed));
        cells.iter().all(|cell| *cell != 0).then(|| cells.map(|cell| cell as u32))
    }
}

pub(crate) struct AccessTable {
    segments: [OnceLock<Box<[Bucket]>>; SEGMENTS],
    /// The number of buckets in use: FIRST << n.
    len: AtomicU64,
    /// Whether there are more keys than the table is allowed to grow for.
    over_capacity: AtomicBool,
    random: AtomicU64,
    start: u64,
}

impl AccessTable {
    pub(crate) fn new(now: u64, seed: u64) -> AccessTable {
        let table = AccessTable {
            segments: [const { OnceLock::new() }; SEGMENTS],
            len: AtomicU64::new(FIRST as u64),
            over_capacity: AtomicBool::new(false),
            random: AtomicU64::new(seed | 1),
            start: now,
        };
        // The table is new: nobody else has set it.
        let _ = table.segments[0].set((0..FIRST).map(|_| Bucket::default()).collect());
        table
    }

    #[inline]
    fn bucket(&self, which: Which) -> Option<&Bucket> {
        self.bucket_at((which.0 & (self.len.load(Relaxed) - 1)) as usize)
    }

    #[inline]
    fn bucket_at(&self, index: usize) -> Option<&Bucket> {
        let segment = (index / FIRST).checked_ilog2().map_or(0, |log| log as usize + 1);
        let base = if segment == 0 { 0 } else { FIRST << (segment - 1) };
        self.segments[segment].get()?.get(index - base)
    }

    /// Prefetches a key's bucket, which [`AccessTable::touch`] is going to write.
    #[inline]
    pub(crate) fn prefetch(&self, which: Which) {
        if let Some(bucket) = self.bucket(which) {
            heap::prefetch_value(bucket);
        }
    }

    /// Returns the record of use of a key.
    fn read(&self, which: Which) -> Option<u32> {
        self.bucket(which)?.find(which).map(|cell| cell.load(Relaxed) as u32)
    }

    /// Makes space for `keys` keys, but for at most `most`, by at most one segment in each call.
    /// Needs no lock.
    pub(crate) fn grow(&self, keys: u64, most: u64) {
        let is_over_capacity = keys > most;
        if self.over_capacity.load(Relaxed) != is_over_capacity {
            self.over_capacity.store(is_over_capacity, Relaxed);
        }
        let len = self.len.load(Relaxed);
        let segment = (len as usize / FIRST).ilog2() as usize + 1;
        if keys.min(most) <= len * KEYS || segment >= SEGMENTS {
            return;
        }
        // The keys of a bucket whose hashes have this bit set move to the new segment.
        let moves = |cell: u64| cell & len << 32 != 0;
        self.segments[segment].get_or_init(|| {
            let taken = |cell: &AtomicU64| {
                AtomicU64::new(Some(cell.load(Relaxed)).filter(|c| moves(*c)).unwrap_or(0))
            };
            let bucket =
                |index| self.bucket_at(index).map(|old| Bucket(old.0.each_ref().map(taken)));
            (0..len as usize).map(|index| bucket(index).unwrap_or_default()).collect()
        });
        self.len.store(len * 2, Relaxed);
        for bucket in (0..len as usize).filter_map(|index| self.bucket_at(index)) {
            for cell in &bucket.0 {
                let old = cell.load(Relaxed);
                if moves(old) {
                    // If it has changed in the meantime, another key has the cell.
                    let _ = cell.compare_exchange(old, 0, Relaxed, Relaxed);
                }
            }
        }
    }

    /// Converts all records of use to those of the other kind of policy. The time of an access is
    /// kept to the minute; a counter becomes that of a new key.
    pub(crate) fn convert(&self, now: u64, to_lfu: bool) {
        for cell in self.segments.iter().filter_map(OnceLock::get).flatten().flat_map(|b| &b.0) {
            let old = cell.load(Relaxed);
            let ago = |said: u32| u64::from(minutes(now).wrapping_sub(said >> 8) & 0xffff) * 60_000;
            let said = match old as u32 {
                _ if old == 0 => continue,
                said if to_lfu => new_counter(time(said, now)),
                said => tenths(now.saturating_sub(ago(said))),
            };
            cell.store(old & TAG | u64::from(said), Relaxed);
        }
    }

    /// Records that a key was used.
    #[inline]
    pub(crate) fn touch(&self, which: Which, now: u64, lfu: Option<Lfu>) {
        let Some(bucket) = self.bucket(which) else { return };
        let home = &bucket.0[which.home()];
        // Over capacity, the cell is written without being read, so that no access waits for its
        // cache line.
        let is_home =
            || self.over_capacity.load(Relaxed) || home.load(Relaxed) & TAG == which.tag();
        if lfu.is_none() && is_home() {
            home.store(which.tag() | u64::from(tenths(now)), Relaxed);
        } else {
            self.touch_in(bucket, which, now, lfu);
        }
    }

    #[inline(never)]
    fn touch_in(&self, bucket: &Bucket, which: Which, now: u64, lfu: Option<Lfu>) {
        let found = bucket.find(which);
        let said = match lfu {
            None => tenths(now),
            Some(lfu) => {
                let old = found.map_or(new_counter(now), |cell| cell.load(Relaxed) as u32);
                let counter = decayed(old, now, lfu);
                u32::from(self.incremented(counter, lfu.log_factor)) | minutes(now) << 8
            }
        };
        let cell = found.unwrap_or_else(|| free_cell(bucket, which, now, lfu));
        cell.store(which.tag() | u64::from(said), Relaxed);
    }

    /// Records that a key was created.
    pub(crate) fn begin(&self, which: Which, now: u64, lfu: Option<Lfu>) {
        self.say(which, now, lfu, if lfu.is_some() { new_counter(now) } else { tenths(now) });
    }

    /// Records that a key was deleted. Over capacity, its cell is left until another key takes it.
    pub(crate) fn end(&self, which: Which) {
        if self.over_capacity.load(Relaxed) {
            return;
        }
        if let Some(cell) = self.bucket(which).and_then(|bucket| bucket.find(which)) {
            cell.store(0, Relaxed);
        }
    }

    fn say(&self, which: Which, now: u64, lfu: Option<Lfu>, said: u32) {
        let Some(bucket) = self.bucket(which) else { return };
        let cell = if lfu.is_none() && self.over_capacity.load(Relaxed) {
            &bucket.0[which.home()]
        } else {
            bucket.find(which).unwrap_or_else(|| free_cell(bucket, which, now, lfu))
        };
        cell.store(which.tag() | u64::from(said), Relaxed);
    }

    /// Records that a key was last used `idle_ms` before `now`.
    pub(crate) fn set_idle(&self, which: Which, now: u64, idle_ms: u64) {
        self.say(which, now, None, tenths(now.saturating_sub(idle_ms)));
    }

    /// Sets a key's logarithmic use counter.
    pub(crate) fn set_frequency(&self, which: Which, now: u64, lfu: Lfu, frequency: u8) {
        self.say(which, now, Some(lfu), u32::from(frequency) | minutes(now) << 8);
    }

    /// Returns the milliseconds since the last use; since the start, if none is known.
    pub(crate) fn idle_ms(&self, which: Which, now: u64) -> u64 {
        let since = |said: u32| u64::from(tenths(now).wrapping_sub(said).min(u32::MAX / 2)) * 100;
        let others = || self.bucket(which)?.if_full()?.into_iter().map(since).max();
        let known = self.read(which).map(since).or_else(others);
        known.unwrap_or_else(|| now.saturating_sub(self.start))
    }

    /// Returns Redis's logarithmic use counter, decayed.
    pub(crate) fn frequency(&self, which: Which, now: u64, lfu: Lfu) -> u8 {
        let of = |said: u32| decayed(said, now, lfu);
        let others = || self.bucket(which)?.if_full()?.into_iter().map(of).min();
        let known = self.read(which).map(of);
        known.or_else(|| others().map(|least| least.min(LFU_INIT))).unwrap_or(LFU_INIT)
    }

    /// Increments the counter with a probability that falls as the counter rises.
    fn incremented(&self, counter: u8, log_factor: u32) -> u8 {
        let above = u64::from(counter.saturating_sub(LFU_INIT));
        let odds = above * u64::from(log_factor) + 1;
        if counter < u8::MAX && self.random().is_multiple_of(odds) { counter + 1 } else { counter }
    }

    fn random(&self) -> u64 {
        // xorshift; two threads that draw at the same time may get the same number.
        let mut x = self.random.load(Relaxed);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.store(x, Relaxed);
        x >> 11
    }
}

/// Returns the cell for a key that has none: a free one, or that of the least used key.
fn free_cell(bucket: &Bucket, which: Which, now: u64, lfu: Option<Lfu>) -> &AtomicU64 {
    match lfu {
        None => bucket.free_cell(which, |said| said),
        Some(lfu) => bucket.free_cell(which, |said| decayed(said, now, lfu).into()),
    }
}

/// Returns the LFU record of a key that is new, or was not used since the start.
fn new_counter(now: u64) -> u32 {
    u32::from(LFU_INIT) | minutes(now) << 8
}

fn tenths(now: u64) -> u32 {
    // Zero means "never".
    ((now / 100) as u32).max(1)
}

fn minutes(now: u64) -> u32 {
    (now / 60_000) as u32 & 0xffff
}

/// Returns the time in an LRU record.
fn time(said: u32, now: u64) -> u64 {
    now.saturating_sub(u64::from(tenths(now).wrapping_sub(said).min(u32::MAX / 2)) * 100)
}

fn decayed(cell: u32, now: u64, lfu: Lfu) -> u8 {
    let elapsed = minutes(now).wrapping_sub(cell >> 8) & 0xffff;
    let periods = elapsed.checked_div(lfu.decay_minutes).unwrap_or(0);
    (cell as u8).saturating_sub(periods.min(255) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    const LFU: Lfu = Lfu { log_factor: 10, decay_minutes: 1 };
    const START: u64 = 1_700_000_000_000;

    fn which(random: &mut Rng) -> Which {
        Which::new(random.u64(..), random.u8(..2))
    }

    /// Returns a table for many keys, all of which were used at the same time.
    fn filled(keys: u64) -> (AccessTable, Vec<Which>) {
        let (table, mut random) = (AccessTable::new(START, 1), Rng::with_seed(5));
        (0..30).for_each(|_| table.grow(keys, u64::MAX));
        let all: Vec<_> = (0..keys).map(|_| which(&mut random)).collect();
        all.iter().for_each(|&which| table.begin(which, START + 1000, None));
        (table, all)
    }

    #[test]
    fn a_use_of_one_key_is_none_of_another() {
        const KEYS: u64 = 100_000;
        let (table, all) = filled(KEYS);
        for &used in all.iter().step_by(KEYS as usize / 20) {
            table.touch(used, START + 60_000, None);
        }
        let fresh = all.iter().filter(|&&which| table.idle_ms(which, START + 60_000) == 0);
        assert_eq!(fresh.count(), 20);
    }

    #[test]
    fn in_a_full_table_too() {
        const KEYS: u64 = 100_000;
        let (table, mut random) = (AccessTable::new(START, 1), Rng::with_seed(6));
        (0..30).for_each(|_| table.grow(KEYS, 8192));
        assert_eq!(table.len.load(Relaxed), 2048);
        let all: Vec<_> = (0..KEYS).map(|_| which(&mut random)).collect();
        all.iter().for_each(|&which| table.begin(which, START + 1000, None));
        table.touch(all[7], START + 60_000, None);
        let fresh: Vec<_> =
            all.iter().filter(|&&which| table.idle_ms(which, START + 60_000) == 0).collect();
        assert_eq!(fresh, [&all[7]]);
    }

    #[test]
    fn nearly_every_key_has_a_cell_and_the_others_are_the_longest_unused() {
        const KEYS: u64 = 1 << 17;
        let (table, all) = filled(KEYS);
        assert_eq!(table.len.load(Relaxed) * super::KEYS, KEYS, "as full as it gets");
        let now = START + 2 * KEYS;
        (START..).step_by(2).zip(&all).for_each(|(at, &which)| table.touch(which, at, None));
        let without = all.iter().filter(|which| table.read(**which).is_none()).count();
        assert!(without as u64 <= KEYS / 100, "{without} of {KEYS} keys have no cell");
        let mut taken_for_others = 0;
        for (at, &which) in (START..).step_by(2).zip(&all) {
            let (idle, said) = (now - at, table.idle_ms(which, now));
            if table.read(which).is_none() {
                assert!(said <= idle + 100, "{said}, not {idle}");
            } else if said.abs_diff(idle) > 100 {
                taken_for_others += 1;
            }
        }
        // KEYS^2 / 2^31 keys have the tag of another key; the later use of the two is reported for
        // both.
        assert!(taken_for_others <= 12, "{taken_for_others}");
    }

    #[test]
    fn growth_keeps_what_a_key_said() {
        let (table, mut random) = (AccessTable::new(START, 1), Rng::with_seed(7));
        let all: Vec<_> = (0..200).map(|_| which(&mut random)).collect();
        all.iter().for_each(|&which| table.touch(which, START + 1000, None));
        (0..20).for_each(|_| table.grow(200_000, u64::MAX));
        assert_eq!(table.len.load(Relaxed), 65_536);
        for &which in &all {
            assert_eq!(table.idle_ms(which, START + 61_000), 60_000);
        }
        let used = (0..65_536).filter_map(|index| table.bucket_at(index)).flat_map(|b| &b.0);
        assert_eq!(used.filter(|cell| cell.load(Relaxed) != 0).count(), 200, "each in one bucket");
    }

    #[test]
    fn a_key_that_is_made_again_has_no_past() {
        let (table, key) = (AccessTable::new(START, 1), Which::new(9, 0));
        (0..100).for_each(|_| table.touch(key, START, Some(LFU)));
        assert!(table.frequency(key, START, LFU) > LFU_INIT);
        table.end(key);
        assert_eq!(table.read(key), None);
        table.begin(key, START, Some(LFU));
        assert_eq!(table.frequency(key, START, LFU), LFU_INIT);
        assert_eq!(table.read(Which::new(9, 1)), None, "in another database it is another key");
    }

    #[test]
    fn an_access_is_known_after_a_change_of_policy() {
        let (table, key) = (AccessTable::new(START, 1), Which::new(9, 0));
        table.touch(key, START + 600_000, None);
        table.convert(START + 900_000, true);
        assert_eq!(table.frequency(key, START + 900_000, LFU), 0, "decayed for five minutes");
        table.convert(START + 900_000, false);
        let idle = table.idle_ms(key, START + 900_000);
        assert!((240_000..=360_000).contains(&idle), "{idle}");
    }

    #[test]
    fn an_untouched_key_is_idle_since_the_start() {
        let (table, key) = (AccessTable::new(START, 1), Which::new(5, 0));
        assert_eq!(table.idle_ms(key, START + 2000), 2000);
        assert_eq!(table.frequency(key, START, LFU), LFU_INIT);
    }

    #[test]
    fn a_counter_rises_ever_slower_and_decays_by_the_minute() {
        let (table, key) = (AccessTable::new(START, 42), Which::new(9, 0));
        table.begin(key, START, Some(LFU));
        for _ in 0..100 {
            table.touch(key, START, Some(LFU));
        }
        let hundred = table.frequency(key, START, LFU);
        assert!((7..=14).contains(&hundred), "{hundred}, Redis gives about 10");
        for _ in 0..100_000 {
            table.touch(key, START, Some(LFU));
        }
        let many = table.frequency(key, START, LFU);
        assert!((110..=200).contains(&many), "{many}, Redis gives about 142");
        assert_eq!(table.frequency(key, START + 10 * 60_000, LFU), many - 10);
    }
}
