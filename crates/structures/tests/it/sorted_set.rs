//! A sorted set compared with a sorted vector, and the cost of its operations.

use std::cmp::Ordering;

use crate::memory::{self, Cost, Memory};
use heap::Ptr;
use structures::Store;
use structures::dict::Member;
use structures::reclaim::{Owned, Queue};
use structures::sorted_set::SortedSet;

const QUEUE: Queue = Queue::at(Ptr::from_raw(64));
const MEMBERS: u16 = 3;
const RANKS: u16 = 5;

fn hash(member: &[u8]) -> u64 {
    member.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

/// A sorted set and its expected content.
struct Pair {
    store: Memory,
    set: SortedSet,
    model: Vec<(f64, Vec<u8>)>,
}

fn order(a: &(f64, Vec<u8>), b: &(f64, Vec<u8>)) -> Ordering {
    a.0.partial_cmp(&b.0).expect("no NaN").then_with(|| a.1.cmp(&b.1))
}

impl Pair {
    fn new() -> Pair {
        let mut store = Memory::new();
        let set = SortedSet::create(&mut store).expect("free memory");
        store.commit();
        Pair { store, set, model: Vec::new() }
    }

    fn put(&mut self, member: &[u8], score: f64) -> Cost {
        let Pair { store, set, model } = self;
        match set.find(store, hash(member), member, true).expect("sound") {
            Some(found) => set.update(store, QUEUE, found, member, score).expect("free memory"),
            None => set.insert(store, hash, member, score).expect("free memory"),
        }
        model.retain(|(_, own)| own != member);
        let new = (score, member.to_vec());
        let at = model.partition_point(|own| order(own, &new) == Ordering::Less);
        model.insert(at, new);
        self.store.commit()
    }

    fn remove(&mut self, member: &[u8]) -> Cost {
        let found = self.set.find(&self.store, hash(member), member, true).expect("sound");
        assert_eq!(found.is_some(), self.model.iter().any(|(_, own)| own == member));
        if let Some(found) = found {
            self.set.remove(&mut self.store, QUEUE, found, member).expect("free memory");
        }
        self.model.retain(|(_, own)| own != member);
        self.store.commit()
    }

    fn remove_range(&mut self, rank: usize, count: usize) {
        let (mut taken, ranks) = (Vec::new(), rank as u64..(rank + count) as u64);
        let take = |member: &[u8], score: f64| taken.push((score, member.to_vec()));
        let removed = self.set.remove_range(&mut self.store, QUEUE, hash, ranks, true, take);
        let end = (rank + count).min(self.model.len());
        let expected: Vec<_> = self.model.drain(rank..end).collect();
        assert_eq!(removed.expect("sound"), expected.len() as u64);
        assert!(taken == expected);
        self.store.commit();
    }

    fn shown(&self, rank: u64, backwards: bool) -> Vec<(f64, Vec<u8>)> {
        let mut shown = Vec::new();
        let show = |member: &[u8], score: f64| {
            shown.push((score, member.to_vec()));
            true
        };
        self.set.visit(&self.store, rank, backwards, true, show).expect("sound");
        shown
    }

    fn check(&self) {
        let Pair { store, set, model } = self;
        set.check(store, hash, |at| store.capacity(at)).expect("sound");
        assert!(self.shown(0, false) == *model);
        assert_eq!(set.len(store), model.len() as u64);
        let half = model.len() / 2;
        assert!(self.shown(half as u64, false) == model[half..]);
        let mut reversed: Vec<_> = model.iter().take(half + 1).cloned().collect();
        reversed.reverse();
        assert!(self.shown(half as u64, true) == reversed);
        for (rank, (score, member)) in model.iter().enumerate().step_by(7) {
            let found = set.find(store, hash(member), member, true).expect("sound").expect("there");
            assert!(found.score == *score);
            assert_eq!(set.rank(store, &found, member), Ok(rank as u64));
            let below = model.partition_point(|own| own.0 < *score);
            assert_eq!(set.count_before(store, |own, _| own < *score), Ok(below as u64));
        }
        let mut blocks = Vec::new();
        set.blocks(store, |at| blocks.push(at));
        let all = blocks.len();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), all, "each block once");
        let (mut rank, mut members) = (0, 0);
        loop {
            let (next, bytes) = set.check_leaf(store, rank, hash).expect("sound");
            members += usize::from(bytes > 0);
            rank = next;
            if rank == 0 {
                break;
            }
        }
        assert_eq!(members > 0, !model.is_empty());
    }

    /// Frees all of it, and checks that nothing is left.
    fn free(mut self) {
        self.set.release(&mut self.store, QUEUE, MEMBERS, RANKS).expect("free memory");
        self.store.commit();
        loop {
            let freed = QUEUE.step(&mut self.store, 9, |store, owner, owned| match owned {
                Owned::Entry(at) if owner == MEMBERS => Member::at(at).release(store, QUEUE),
                Owned::Item(_) if owner == RANKS => Ok(0),
                owned => panic!("{owned:?} of {owner}"),
            });
            self.store.commit();
            let freed = freed.expect("free memory");
            assert!(freed <= 9 + 64, "{freed} blocks in a step");
            if freed == 0 {
                break;
            }
        }
        assert_eq!(self.store.blocks(), []);
    }
}

fn score(random: &mut fastrand::Rng) -> f64 {
    match random.u8(0..10) {
        0 => [f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0][random.usize(0..4)],
        1..6 => f64::from(random.i8(-4..4)),
        _ => random.f64() * 1e6 - 5e5,
    }
}

#[test]
fn a_sorted_set_is_a_sorted_vector() {
    for seed in 0..memory::steps(4) as u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pair = Pair::new();
        for n in 0..memory::steps(2500) {
            let member = random.u16(0..700).to_string().repeat(random.usize(1..3));
            match random.u8(0..30) {
                0..20 => _ = pair.put(member.as_bytes(), score(&mut random)),
                20..29 => _ = pair.remove(member.as_bytes()),
                _ => {
                    let rank = random.usize(0..=pair.model.len());
                    pair.remove_range(rank, random.usize(0..60));
                }
            }
            if n % 250 == 249 {
                pair.check();
            }
        }
        pair.free();
    }
}

#[test]
fn a_sorted_set_of_all_its_members_at_once_is_one_that_grew() {
    for count in [0, 1, 29, 30, 5000] {
        let mut random = fastrand::Rng::with_seed(count);
        let named = |n| format!("member{n}").repeat(if n % 900 == 1 { 2000 } else { 1 });
        let mut model: Vec<(f64, Vec<u8>)> =
            (0..count).map(|n| (score(&mut random), named(n).into_bytes())).collect();
        model.sort_by(order);
        let members: Vec<(&[u8], f64)> =
            model.iter().map(|(score, member)| (&member[..], *score)).collect();
        let mut store = Memory::new();
        let set = SortedSet::create_of(&mut store, hash, &members).expect("free memory");
        store.commit();
        let mut pair = Pair { store, set, model };
        pair.check();
        for n in 0..40 {
            pair.put(named(n * 31 % (count + 1)).as_bytes(), score(&mut random));
            pair.remove(named(n * 17 % (count + 1)).as_bytes());
        }
        pair.check();
        pair.free();
    }
}

#[test]
fn members_and_nodes_move_and_stay_what_they_were() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut pair = Pair::new();
    for n in 0..2000 {
        pair.put(format!("member {n}").as_bytes(), score(&mut random));
    }
    pair.store.all_sparse = true;
    let (mut cursor, mut moved) = (0, 0);
    loop {
        let step = pair.set.defragment(&mut pair.store, cursor, 10, || moved += 1);
        cursor = step.expect("free memory");
        pair.store.commit();
        if cursor == 0 {
            break;
        }
    }
    pair.store.all_sparse = false;
    assert_eq!(moved, 2000);
    pair.check();
    pair.free();
}

#[test]
fn a_change_logs_few_words() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut pair = Pair::new();
    for n in 0..20_000 {
        pair.put(format!("{n}").as_bytes(), random.f64());
    }
    let median = |mut all: Vec<usize>| {
        all.sort_unstable();
        all[all.len() / 2]
    };
    let words = |pair: &mut Pair, change: &mut dyn FnMut(&mut Pair, usize) -> Cost| {
        median((0..301).map(|n| change(pair, n).words).collect())
    };
    let new =
        words(&mut pair, &mut |pair, n| pair.put(format!("new {n}").as_bytes(), random.f64()));
    assert!(new <= 12, "{new} words for a new member");
    let near = words(&mut pair, &mut |pair, n| {
        let score = pair.model.iter().find(|(_, own)| *own == format!("{n}").into_bytes());
        let score = score.expect("there").0;
        pair.put(format!("{n}").as_bytes(), score + f64::EPSILON)
    });
    assert!(near <= 6, "{near} words for a score that keeps its place");
    let gone = words(&mut pair, &mut |pair, n| pair.remove(format!("{n}").as_bytes()));
    assert!(gone <= 10, "{gone} words for a member that goes");
}
