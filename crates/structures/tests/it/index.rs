//! The index compared with a map, and the cost of its operations.

mod defragmentation;
mod expecting;

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};

use crate::memory::{self, Cost, Memory};
use heap::{Full, Ptr, View};
use proptest::prelude::*;
use structures::index::{CURSOR_BITS, Index, Part};
use structures::{Fill, Store};

/// How a key becomes a hash: well, or as badly as an adversary likes.
#[derive(Clone, Copy, Debug)]
enum Hash {
    Good,
    AllEqual,
    FewValues,
    OnePrefix,
    OneHome,
    /// A third of the keys have one hash, the others good ones.
    Mixed,
}

impl Hash {
    fn of(self, key: u64) -> u64 {
        let good = (key ^ key >> 31).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let good = (good ^ good >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let good = good ^ good >> 32;
        match self {
            Hash::Good => good,
            Hash::AllEqual => 0x1234_5678_9abc_def0,
            Hash::FewValues => good & 0xc000_0000_0000_0003,
            Hash::OnePrefix => good >> 41,
            Hash::OneHome => good & !0xffff | 0x1234,
            Hash::Mixed if key.is_multiple_of(3) => 0x1234_5678_9abc_def0,
            Hash::Mixed => good,
        }
    }
}

/// An index of entries of two words, key and value, next to a map.
struct Pair {
    memory: Memory,
    index: Index,
    hash: Hash,
    /// The depth of the segments that are expected to be needed.
    wanted: u32,
    /// How many hashes were requested.
    rehashed: Cell<u64>,
    model: HashMap<u64, u64>,
}

impl Pair {
    fn new(hash: Hash) -> Pair {
        let index = Index::at(Memory::root(0));
        let (memory, rehashed) = (Memory::new(), Cell::new(0));
        Pair { memory, index, hash, wanted: 0, rehashed, model: HashMap::new() }
    }

    fn with(hash: Hash, keys: u64) -> Pair {
        let mut pair = Pair::new(hash);
        for key in 0..keys {
            pair.put(key, key).expect("free memory");
        }
        pair
    }

    fn find(&self, key: u64) -> Option<structures::index::Slot> {
        let hash = self.hash.of(key);
        self.index.find(&self.memory, hash, |entry| self.memory.word(entry) == key)
    }

    /// Stages an entry's insertion or replacement.
    fn stage(&mut self, key: u64, value: u64) -> Result<(), Full> {
        let entry = write_entry(&mut self.memory, key, value)?;
        if let Some(slot) = self.find(key) {
            self.memory.free(slot.entry());
            self.index.replace(&mut self.memory, slot, entry);
            return Ok(());
        }
        let hash = self.hash;
        let rehash = |memory: &Memory, entry| {
            self.rehashed.update(|count| count + 1);
            hash.of(memory.word(entry))
        };
        let wanted = || self.wanted;
        self.index.insert_expecting(&mut self.memory, hash.of(key), entry, wanted, rehash)
    }

    fn put(&mut self, key: u64, value: u64) -> Result<Cost, Full> {
        if let Err(full) = self.stage(key, value) {
            self.memory.rollback();
            return Err(full);
        }
        self.model.insert(key, value);
        Ok(self.memory.commit())
    }

    fn remove(&mut self, key: u64) -> Cost {
        assert_eq!(self.find(key).is_some(), self.model.remove(&key).is_some());
        if let Some(slot) = self.find(key) {
            self.memory.free(slot.entry());
            self.index.remove(&mut self.memory, slot);
        }
        self.memory.commit()
    }

    /// Checks that everything in the model is found and nothing else, that the structure is sound,
    /// and that no block leaks.
    fn check(&self) {
        for (&key, &value) in &self.model {
            let slot = self.find(key).expect("a key of the model");
            assert_eq!(self.memory.word(slot.entry().add(8)), value);
        }
        let mut reachable = Vec::new();
        let rehash = |entry| self.hash.of(self.memory.word(entry));
        let mut entries = 0;
        let visit = |part| match part {
            Part::Block(block) => reachable.push(block),
            Part::Entry(entry) => {
                entries += 1;
                reachable.push(entry);
            }
        };
        self.index.check(&self.memory, rehash, visit).expect("a sound index");
        reachable.sort();
        assert_eq!(reachable, self.memory.blocks(), "reachable is not allocated");
        assert_eq!(entries, self.model.len());
    }

    /// Calls a scan once; collects the keys.
    fn scan(&self, cursor: u64, count: usize, keys: &mut BTreeSet<u64>) -> u64 {
        self.index.scan(&self.memory, cursor, count, |entry| {
            keys.insert(self.memory.word(entry));
        })
    }

    /// Runs a whole defragmentation; returns how many steps it took.
    fn defragment(&mut self, move_entries: bool) -> usize {
        let mut cursor = 0;
        for step in 1.. {
            cursor = self.defragment_step(cursor, move_entries);
            if cursor == 0 {
                return step;
            }
        }
        unreachable!("the loop ends by its answer")
    }

    fn defragment_step(&mut self, cursor: u64, move_entries: bool) -> u64 {
        let relocate = |memory: &mut Memory, entry: Ptr| {
            if !move_entries {
                return Ok(None);
            }
            let (key, value) = (memory.word(entry), memory.word(entry.add(8)));
            let new = write_entry(memory, key, value)?;
            memory.free(entry);
            Ok(Some(new))
        };
        let next =
            self.index.defragment(&mut self.memory, cursor, 20, relocate).expect("free memory");
        self.memory.commit();
        next
    }
}

fn write_entry(memory: &mut Memory, key: u64, value: u64) -> Result<Ptr, Full> {
    let fresh = memory.reserve(16)?;
    memory.write_word(&fresh, 0, key);
    memory.write_word(&fresh, 8, value);
    Ok(memory.publish(fresh, 16))
}

#[derive(Clone, Debug)]
enum Change {
    Put(std::ops::Range<u64>),
    Remove(std::ops::Range<u64>),
    Defragment(bool),
}

fn change() -> impl Strategy<Value = Change> {
    let keys =
        (0..4000u64, 1..memory::steps(900) as u64).prop_map(|(from, count)| from..from + count);
    prop_oneof![
        3 => keys.clone().prop_map(Change::Put),
        2 => keys.prop_map(Change::Remove),
        1 => any::<bool>().prop_map(Change::Defragment),
    ]
}

fn any_hash() -> impl Strategy<Value = Hash> {
    prop_oneof![
        4 => Just(Hash::Good),
        1 => Just(Hash::AllEqual),
        1 => Just(Hash::FewValues),
        1 => Just(Hash::OnePrefix),
        1 => Just(Hash::OneHome),
        1 => Just(Hash::Mixed),
    ]
}

proptest! {
    #![proptest_config(memory::cases(40))]

    #[test]
    fn an_index_is_a_map(
        hash in any_hash(),
        wanted in prop_oneof![Just(0), 0..50u32],
        changes in prop::collection::vec(change(), 1..memory::steps(12)),
    ) {
        let mut pair = Pair { wanted, ..Pair::new(hash) };
        for (value, change) in changes.into_iter().enumerate() {
            match change {
                Change::Put(keys) => keys.for_each(|key| {
                    pair.put(key, value as u64).expect("free memory");
                }),
                Change::Remove(keys) => keys.for_each(|key| { pair.remove(key); }),
                Change::Defragment(sparse) => {
                    pair.memory.all_sparse = sparse;
                    pair.defragment(sparse);
                }
            }
            pair.check();
        }
    }

    #[test]
    fn a_scan_misses_nothing_that_stays(
        hash in any_hash(),
        stays in 0..1500u64,
        count in 1..60usize,
        changes in prop::collection::vec(change(), 0..20),
    ) {
        let mut pair = Pair::with(hash, stays);
        let mut keys = BTreeSet::new();
        let mut cursor = pair.scan(0, count, &mut keys);
        let mut tidying = 0;
        for change in changes {
            if cursor == 0 {
                break;
            }
            match change {
                Change::Put(some) => some.for_each(|key| { pair.put(key + stays, 0).expect("free memory"); }),
                Change::Remove(some) => some.for_each(|key| { pair.remove(key + stays); }),
                Change::Defragment(sparse) => {
                    pair.memory.all_sparse = sparse;
                    for _ in 0..50 {
                        tidying = pair.defragment_step(tidying, sparse);
                    }
                }
            }
            cursor = pair.scan(cursor, count, &mut keys);
        }
        while cursor != 0 {
            cursor = pair.scan(cursor, count, &mut keys);
        }
        prop_assert!((0..stays).all(|key| keys.contains(&key)));
    }

    #[test]
    fn any_cursor_is_accepted(cursor: u64, keys in 0..3000u64) {
        let pair = Pair::with(Hash::Good, keys);
        let next = pair.scan(cursor, 10, &mut BTreeSet::new());
        prop_assert!(next < 1 << CURSOR_BITS);
    }
}

#[test]
fn a_scan_visits_about_the_count() {
    let pair = Pair::with(Hash::Good, 20_000);
    let mut cursor = 0;
    let mut calls = 0;
    loop {
        let mut keys = BTreeSet::new();
        cursor = pair.scan(cursor, 10, &mut keys);
        assert!(keys.len() < 10 + 40, "{} keys at once", keys.len());
        calls += 1;
        if cursor == 0 {
            break;
        }
    }
    assert!((1000..2200).contains(&calls), "{calls} calls for 20000 keys");
}

#[test]
fn a_scan_of_a_sparse_index_is_bounded() {
    let mut pair = Pair::with(Hash::Good, 20_000);
    (0..20_000).for_each(|key| {
        pair.remove(key);
    });
    let mut keys = BTreeSet::new();
    let mut calls = 1;
    let mut cursor = pair.scan(0, 10, &mut keys);
    while cursor != 0 {
        cursor = pair.scan(cursor, 10, &mut keys);
        calls += 1;
    }
    assert!(keys.is_empty() && calls > 20, "each call visits a hundred home buckets at most");
}

/// Returns how many operations logged how many words.
fn histogram(costs: impl Iterator<Item = Cost>) -> [usize; 6] {
    let mut counts = [0; 6];
    costs.for_each(|cost| counts[cost.words.min(5)] += 1);
    counts
}

#[test]
fn an_operation_logs_one_word_rarely_two_or_three() {
    let keys = 30_000u64;
    let mut pair = Pair::new(Hash::Good);
    let costs: Vec<Cost> = (0..keys).map(|key| pair.put(key, 0).expect("free memory")).collect();
    let (splits, inserts): (Vec<Cost>, Vec<Cost>) =
        costs.into_iter().partition(|cost| cost.published > 16);
    let words = histogram(inserts.iter().copied());
    let share = |count: usize| count as f64 / inserts.len() as f64;
    println!("inserts by logged words {words:?}, splits {}", splits.len());
    assert_eq!(words[0] + words[3] + words[4] + words[5], 0);
    assert!(share(words[2]) < 0.15, "two words in {:.3}", share(words[2]));
    assert!(splits.iter().all(|cost| cost.words <= 128));
    assert!(splits.iter().all(|cost| cost.published <= 16 + 2 * 4352 + 2048));

    let replaced = histogram((0..keys).map(|key| pair.put(key, 1).expect("free memory")));
    assert_eq!(replaced, [0, keys as usize, 0, 0, 0, 0]);
    let removed = histogram((0..keys).map(|key| pair.remove(key)));
    println!("removals by logged words {removed:?}");
    assert_eq!(removed[0] + removed[3] + removed[4] + removed[5], 0);
    assert!(removed[2] < keys as usize / 20);
}

#[test]
fn a_segment_is_nearly_full_when_it_splits() {
    let load_at_split = |seed: u64| {
        let mut pair = Pair::new(Hash::Good);
        let keys =
            (seed << 32..).take_while(|&key| pair.put(key, 0).expect("free memory").freed == 0);
        keys.count() as f64 / 536.0
    };
    let mut loads: Vec<f64> = (0..40).map(load_at_split).collect();
    loads.sort_by(f64::total_cmp);
    println!("load at the first split: {:.3} median of {:.3}", loads[20], loads[0]);
    assert!(loads[0] > 0.85 && loads[20] > 0.9, "{loads:.3?}");
}

fn segments(pair: &Pair) -> usize {
    let mut segments = 0;
    let rehash = |entry| pair.hash.of(pair.memory.word(entry));
    let visit = |part| segments += usize::from(matches!(part, Part::Block(_)));
    pair.index.check(&pair.memory, rehash, visit).expect("sound");
    segments
}

#[test]
fn the_index_takes_some_fifteen_bytes_for_an_entry() {
    let mut pair = Pair::new(Hash::Good);
    let mut most: f64 = 0.0;
    let mut least = f64::MAX;
    for key in 0..120_000 {
        pair.put(key, 0).expect("free memory");
        if key >= 20_000 && key % 5000 == 0 {
            let own = pair.memory.used() - pair.model.len() * 16;
            let bytes = own as f64 / pair.model.len() as f64;
            most = most.max(bytes);
            least = least.min(bytes);
        }
    }
    println!("bytes of index for an entry: {least:.1} to {most:.1}");
    assert!(most < 25.0 && least < 13.0, "{least:.1} to {most:.1}");
}

#[test]
fn equal_hashes_are_chained_and_do_not_hinder_others() {
    let mut pair = Pair::with(Hash::AllEqual, 3000);
    pair.check();
    assert!(segments(&pair) < 60, "no useless splits: {}", segments(&pair));
    for key in (0..3000).filter(|key| key % 3 != 0) {
        pair.remove(key);
    }
    pair.check();
    for key in 0..3000 {
        pair.remove(key);
    }
    pair.check();
    assert_eq!(segments(&pair), 1, "the chain is gone");
}

/// A home bucket and its neighbour, the stash, one overflow block, two: every slot is the last one
/// once.
#[test]
fn every_count_of_equal_hashes_finds_its_place() {
    const MOST: u64 = 2 * 8 + 3 * 8 + 2 * 63 + 3;
    // Everything at the boundaries, and periodically elsewhere.
    let is_looked_at = |n: u64| n % 8 <= 1 || (38..45).contains(&n) || n % 63 > 60;
    for hash in [Hash::AllEqual, Hash::OneHome, Hash::FewValues] {
        let mut pair = Pair::new(hash);
        for key in 0..MOST {
            pair.put(key, key).expect("free memory");
            assert!(pair.find(key).is_some() && pair.find(0).is_some(), "{hash:?}: {key}");
            if is_looked_at(key) {
                pair.check();
            }
        }
        // From either end and from the middle, in turns.
        for (n, turn) in (0..MOST).zip([0, 1, 2].into_iter().cycle()) {
            let mut left: Vec<u64> = pair.model.keys().copied().collect();
            left.sort_unstable();
            pair.remove(left[[0, left.len() - 1, left.len() / 2][turn]]);
            if is_looked_at(n) {
                pair.check();
            }
        }
        pair.check();
    }
}

/// Returns the overflow blocks of an index of equal hashes, in the order of their chain.
fn overflow_blocks(pair: &Pair) -> Vec<Ptr> {
    let mut blocks = Vec::new();
    let rehash = |entry| pair.hash.of(pair.memory.word(entry));
    let visit = |part| match part {
        Part::Block(block) => blocks.push(block),
        Part::Entry(_) => {}
    };
    pair.index.check(&pair.memory, rehash, visit).expect("a sound index");
    let refers = |to: &&Ptr| blocks.iter().any(|from| pair.memory.word(*from) == to.raw());
    let mut chain: Vec<Ptr> = blocks.iter().filter(refers).copied().collect();
    let next = |at: &Ptr| Ptr::from_raw(pair.memory.word(*at));
    chain.sort_by_key(|at| {
        std::iter::successors(Some(*at), |at| Some(next(at)).filter(|n| !n.is_null())).count()
    });
    chain.reverse();
    chain
}

#[test]
fn a_chain_that_leads_back_to_itself_is_reported_and_walked_no_further() {
    for (from, to) in [(0, 0), (3, 0), (3, 3), (5, 2)] {
        let mut pair = Pair::with(Hash::AllEqual, 600);
        let blocks = overflow_blocks(&pair);
        assert!(blocks.len() > 5, "{} overflow blocks", blocks.len());
        pair.memory.put(blocks[from], blocks[to].raw());
        let rehash = |entry: Ptr| pair.hash.of(pair.memory.word(entry));
        let checked = pair.index.check(&pair.memory, rehash, |_| ());
        let found = checked.err().map(|damaged| damaged.what);
        assert_eq!(found, Some("index overflow chain"), "{from} to {to}");
        // A missing entry is searched for in the whole chain; a scan follows the chain.
        assert!(pair.find(9999).is_none());
        let mut cursor = pair.scan(0, 10, &mut BTreeSet::new());
        for _ in 0..1000 {
            if cursor == 0 {
                break;
            }
            cursor = pair.scan(cursor, 10, &mut BTreeSet::new());
        }
        assert_eq!(cursor, 0, "a scan ends");
    }
}

#[test]
fn an_insert_splits_once_at_most() {
    let hashes = [Hash::OnePrefix, Hash::FewValues, Hash::OneHome, Hash::AllEqual, Hash::Mixed];
    let most = 16 + 2 * 4352 + 2048 + 5 * 512;
    for hash in hashes {
        let mut pair = Pair::new(hash);
        let keys = if matches!(hash, Hash::Mixed) { 4000 } else { 1500 };
        for key in 0..keys {
            let cost = pair.put(key, 0).expect("free memory");
            assert!(cost.words <= 130 && cost.published <= most, "{hash:?}: {cost:?}");
        }
        pair.check();
    }
}

#[test]
fn random_entries_are_nearly_uniform() {
    let pair = Pair::with(Hash::Good, 2000);
    let mut random = fastrand::Rng::with_seed(7);
    let mut counts = vec![0u32; 2000];
    for _ in 0..200_000 {
        let entry = pair.index.random(&pair.memory, || random.u64(..)).expect("an entry");
        counts[pair.memory.word(entry) as usize] += 1;
    }
    let (least, most) = (counts.iter().min(), counts.iter().max());
    assert!(least > Some(&50) && most < Some(&160), "{least:?} {most:?} of 100");
}

#[test]
fn an_empty_index_has_nothing() {
    let pair = Pair::new(Hash::Good);
    assert!(pair.find(1).is_none());
    assert_eq!(pair.scan(0, 10, &mut BTreeSet::new()), 0);
    assert_eq!(pair.index.random(&pair.memory, || 0), None);
    assert!(pair.index.prefetch_bucket(&pair.memory, 0).is_none());
    pair.check();
}

/// What a lookup without a lock may read: any words.
struct Noise(std::cell::RefCell<fastrand::Rng>);

impl View for Noise {
    fn word(&self, _: Ptr) -> u64 {
        let mut random = self.0.borrow_mut();
        // Few bits, many bits, or something that looks like a node.
        random.u64(..) >> random.u32(..64) | u64::from(random.bool())
    }

    fn bytes(&self, _: Ptr, _: usize) -> &[u8] {
        &[]
    }

    fn prefetch(&self, _: Ptr) {}
}

#[test]
fn a_prefetch_ends_whatever_it_reads() {
    let view = Noise(fastrand::Rng::with_seed(11).into());
    let index = Pair::new(Hash::Good).index;
    let mut seen = 0;
    for hash in 0..100_000u64 {
        let bucket = index.prefetch_bucket(&view, hash.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        seen += usize::from(bucket.is_some_and(|bucket| bucket.prefetch_entry(&view).is_some()));
    }
    assert!(seen > 0, "no guess led to an entry");
}

#[test]
fn a_full_heap_changes_nothing() {
    let mut pair = Pair::with(Hash::Good, 480);
    let mut refusals = 0;
    for key in 480..2000 {
        for left in 0..4 {
            pair.memory.reservations_left = left;
            match pair.put(key, 0) {
                Err(Full) => refusals += 1,
                Ok(_) => break,
            }
        }
        pair.memory.reservations_left = usize::MAX;
        pair.put(key, 0).expect("free memory");
    }
    assert!(refusals > 1520 + 6, "a split was refused, too: {refusals}");
    pair.check();
}

#[test]
fn damage_is_reported() {
    let mut pair = Pair::with(Hash::Good, 2000);
    let mut blocks = Vec::new();
    let rehash = |entry| pair.hash.of(pair.memory.word(entry));
    pair.index.check(&pair.memory, rehash, |part| blocks.push(part)).expect("sound");
    let Some(&Part::Block(segment)) =
        blocks.iter().rev().find(|part| matches!(part, Part::Block(_)))
    else {
        unreachable!("an index has a segment")
    };
    let mut found = Vec::new();
    for word in [0, 1, 4, 7] {
        pair.memory.damage(segment.add(8 * word + 7));
        let rehash = |entry: Ptr| pair.hash.of(pair.memory.word(entry));
        let checked = pair.index.check(&pair.memory, rehash, |_| ());
        found.push(checked.err().map(|damaged| damaged.what));
        pair.memory.damage(segment.add(8 * word + 7));
    }
    assert_eq!(
        found,
        [
            Some("index trie"),
            Some("index segment prefix"),
            Some("spare word of an index segment"),
            Some("spare word of an index segment"),
        ]
    );
    pair.check();
}
