//! The tree compared with a sorted vector, and the cost of its operations.

use crate::memory::{self, Cost, Memory};
use heap::{Full, Ptr};
use proptest::prelude::*;
use structures::Store;
use structures::tree::{Cursor, Item, Kind, Part, Tree, WalkItem, empty_root};

/// Sorted by both words; weight 1.
#[derive(Clone, Copy)]
struct Sorted;

impl Kind for Sorted {
    const SORTED: bool = true;

    fn weight(_: Item) -> u64 {
        1
    }
}

/// In the order in which the caller inserts them; the first word is the weight.
#[derive(Clone, Copy)]
struct Weighed;

impl Kind for Weighed {
    const SORTED: bool = false;

    fn weight(item: Item) -> u64 {
        item.first
    }
}

fn words(item: Item) -> (u64, u64) {
    (item.first, item.second)
}

fn item((first, second): (u64, u64)) -> Item {
    Item { first, second }
}

/// A tree, and a vector of its items.
struct Pair<K> {
    memory: Memory,
    tree: Tree<K>,
    model: Vec<(u64, u64)>,
}

impl<K: Kind> Pair<K> {
    fn new() -> Pair<K> {
        let (mut memory, root) = (Memory::new(), Memory::root(0));
        memory.set(root, empty_root());
        memory.commit();
        Pair { memory, tree: Tree::at(root), model: Vec::new() }
    }

    /// Returns the cursor before item number `number`.
    fn nth(&self, number: usize) -> Cursor {
        let weights = self.model[..number].iter().map(|&words| K::weight(item(words))).sum();
        let (cursor, own) = self.tree.seek_weight(&self.memory, weights);
        assert_eq!(own, 0);
        cursor
    }

    fn insert_at(&mut self, number: usize, words: (u64, u64)) -> Cost {
        let at = self.nth(number);
        self.tree.insert(&mut self.memory, &at, item(words)).expect("free memory");
        self.model.insert(number, words);
        self.memory.commit()
    }

    fn remove_at(&mut self, number: usize) -> Cost {
        let at = self.nth(number);
        let removed = self.tree.remove(&mut self.memory, &at).map(words);
        assert_eq!(removed, Some(self.model.remove(number)));
        self.memory.commit()
    }

    /// Removes up to `most` items of one leaf.
    fn remove_run(&mut self, number: usize, most: usize) {
        let at = self.nth(number);
        let mut taken = Vec::new();
        let count =
            self.tree.remove_run(&mut self.memory, &at, most, |item| taken.push(words(item)));
        assert_eq!(count, taken.len());
        assert_eq!(count > 0, most > 0 && number < self.model.len());
        assert_eq!(taken, self.model.drain(number..number + count).collect::<Vec<_>>());
        self.memory.commit();
    }

    fn replace_at(&mut self, number: usize, words: (u64, u64)) -> Cost {
        let at = self.nth(number);
        self.tree.replace(&mut self.memory, &at, item(words));
        self.model[number] = words;
        self.memory.commit()
    }

    fn relocate_all(&mut self) {
        self.memory.all_sparse = true;
        let before = self.blocks();
        let mut from = 0;
        loop {
            from =
                self.tree.relocate(&mut self.memory, from, |_, _| Ok(None)).expect("free memory");
            self.memory.commit();
            if from == 0 {
                break;
            }
        }
        self.memory.all_sparse = false;
        assert_eq!(self.blocks().len(), before.len());
    }

    fn blocks(&self) -> Vec<Ptr> {
        let mut blocks = Vec::new();
        let block = |part| {
            if let Part::Block(block) = part {
                blocks.push(block);
            }
        };
        self.tree.check(&self.memory, |_, _| true, block).expect("sound");
        blocks.sort();
        blocks
    }

    fn check(&self) {
        let mut items = Vec::new();
        let keep = |part| {
            if let Part::Item(item) = part {
                items.push(words(item));
            }
        };
        let rises = |a, b| !K::SORTED || words(a) < words(b);
        self.tree.check(&self.memory, rises, keep).expect("sound");
        assert_eq!(items, self.model);
        assert_eq!(self.blocks(), self.memory.blocks());
        let total: u64 = self.model.iter().map(|&words| K::weight(item(words))).sum();
        assert_eq!(self.tree.weight(&self.memory), total);
        assert_eq!(self.tree.is_empty(&self.memory), self.model.is_empty());
        self.check_cursors();
        self.check_salvage_walk();
    }

    fn check_cursors(&self) {
        let memory = &self.memory;
        let mut at = self.tree.begin(memory);
        let mut rank = 0;
        for &expected in &self.model {
            assert_eq!(at.item(memory).map(words), Some(expected));
            assert_eq!(self.tree.rank(memory, &at), rank);
            rank += K::weight(item(expected));
            assert!(at.next(memory));
        }
        assert!(at.item(memory).is_none() && !at.next(memory));
        let mut at = self.tree.end(memory);
        assert!(at.item(memory).is_none());
        for &expected in self.model.iter().rev() {
            assert!(at.prev(memory));
            assert_eq!(at.item(memory).map(words), Some(expected));
        }
        assert!(!at.prev(memory));
    }

    fn check_salvage_walk(&self) {
        let (mut blocks, mut items) = (Vec::new(), Vec::new());
        self.tree.salvage_walk(&self.memory, |found| {
            match found {
                WalkItem::Block(at, size) => blocks.push((at, size)),
                WalkItem::Item(item) => items.push(words(item)),
                WalkItem::Damage(damage) => panic!("{damage}"),
            }
            true
        });
        assert_eq!(items, self.model);
        blocks.sort();
        assert!(blocks.iter().map(|(at, _)| at).eq(&self.memory.blocks()));
    }
}

impl Pair<Sorted> {
    fn with(count: u64, key: impl Fn(u64) -> u64) -> Pair<Sorted> {
        let mut pair = Pair::new();
        (0..count).for_each(|number| {
            pair.add((key(number), number));
        });
        pair
    }

    /// Adds an item at its place.
    fn add(&mut self, words: (u64, u64)) -> Option<Cost> {
        let at = self.tree.seek(&self.memory, |other| (other.first, other.second) < words);
        let number = self.model.partition_point(|other| *other < words);
        assert_eq!(self.tree.rank(&self.memory, &at), number as u64);
        if at.item(&self.memory).map(self::words) == Some(words) {
            return None;
        }
        self.tree.insert(&mut self.memory, &at, item(words)).expect("free memory");
        self.model.insert(number, words);
        Some(self.memory.commit())
    }
}

fn mixed(key: u64) -> u64 {
    let mixed = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[derive(Clone, Debug)]
enum Change {
    Add(Vec<(u64, u64)>),
    AddRising(u64, usize),
    Remove(Vec<u16>),
    RemoveRun(u16, usize),
    RemoveEnds(usize, usize),
    Relocate,
}

fn change() -> impl Strategy<Value = Change> {
    let key = (0..60u64, 0..60u64);
    prop_oneof![
        4 => prop::collection::vec(key, 1..memory::steps(200)).prop_map(Change::Add),
        2 => (0..100u64, 1..memory::steps(200))
            .prop_map(|(from, count)| Change::AddRising(from, count)),
        3 => prop::collection::vec(any::<u16>(), 1..200).prop_map(Change::Remove),
        2 => (any::<u16>(), 0..200usize).prop_map(|(at, most)| Change::RemoveRun(at, most)),
        1 => (0..60usize, 0..60usize).prop_map(|(a, b)| Change::RemoveEnds(a, b)),
        1 => Just(Change::Relocate),
    ]
}

fn number(at: u16, count: usize) -> Option<usize> {
    (count > 0).then(|| (usize::from(at) * count) >> 16)
}

proptest! {
    #![proptest_config(memory::cases(96))]

    #[test]
    fn a_sorted_tree_is_a_sorted_vector(changes in prop::collection::vec(change(), 1..14)) {
        let mut pair = Pair::<Sorted>::new();
        for change in changes {
            match change {
                Change::Add(keys) => keys.into_iter().for_each(|key| { pair.add(key); }),
                Change::AddRising(from, count) => (0..count as u64).for_each(|n| {
                    pair.add((from, 100 + n));
                }),
                Change::Remove(places) => for at in places {
                    if let Some(number) = number(at, pair.model.len()) {
                        pair.remove_at(number);
                    }
                },
                Change::RemoveRun(at, most) => {
                    pair.remove_run(number(at, pair.model.len()).unwrap_or(0), most);
                }
                Change::RemoveEnds(first, last) => {
                    (0..first.min(pair.model.len())).for_each(|_| { pair.remove_at(0); });
                    (0..last.min(pair.model.len())).for_each(|_| {
                        pair.remove_at(pair.model.len() - 1);
                    });
                }
                Change::Relocate => pair.relocate_all(),
            }
            pair.check();
        }
    }

    #[test]
    fn a_weighed_tree_is_a_vector(
        changes in prop::collection::vec((0..8u32, any::<u16>(), 1..50u64), 1..memory::steps(900)),
    ) {
        let mut pair = Pair::<Weighed>::new();
        for (step, (change, at, weight)) in changes.into_iter().enumerate() {
            let count = pair.model.len();
            let words = (weight, step as u64);
            match number(at, count) {
                Some(number) if change < 2 => { pair.remove_at(number); }
                Some(number) if change == 2 => { pair.replace_at(number, words); }
                Some(_) if change == 3 => { pair.insert_at(0, words); }
                Some(_) if change == 4 => { pair.insert_at(count, words); }
                Some(number) => { pair.insert_at(number, words); }
                None => { pair.insert_at(0, words); }
            }
        }
        pair.check();
        for at in 0..pair.tree.weight(&pair.memory) {
            let (cursor, own) = pair.tree.seek_weight(&pair.memory, at);
            prop_assert_eq!(pair.tree.rank(&pair.memory, &cursor) + own, at);
            prop_assert!(cursor.item(&pair.memory).is_some_and(|item| own < item.first));
        }
    }
}

#[test]
fn a_large_tree_grows_and_goes() {
    let mut pair = Pair::with(30_000, mixed);
    pair.check();
    let mut random = fastrand::Rng::with_seed(5);
    while !pair.model.is_empty() {
        for _ in 0..pair.model.len().div_ceil(3) {
            pair.remove_at(random.usize(..pair.model.len()));
        }
        pair.check();
    }
    assert_eq!(pair.memory.blocks(), []);
}

#[test]
fn a_replaced_first_item_is_its_own_separator() {
    let mut pair = Pair::with(2000, |number| number * 2);
    for number in (0..2000).step_by(7) {
        let (first, second) = pair.model[number];
        pair.replace_at(number, (first + 1, second));
    }
    pair.check();
}

#[test]
fn what_an_operation_logs_is_bounded() {
    let mut pair = Pair::with(20_000, mixed);
    let most = |costs: &[Cost]| {
        let mut words: Vec<usize> = costs.iter().map(|cost| cost.words).collect();
        words.sort_unstable();
        (words[words.len() / 2], words[words.len() - 1])
    };
    let inserts: Vec<Cost> =
        (20_000..21_000).filter_map(|number| pair.add((mixed(number), number))).collect();
    let split = inserts.iter().filter(|cost| cost.blocks > 0).count();
    let removals: Vec<Cost> =
        (0..1000).map(|number| pair.remove_at(number * 7919 % pair.model.len())).collect();
    let merged = removals.iter().filter(|cost| cost.freed > 0).count();
    let (inserts, removals) = (most(&inserts), most(&removals));
    println!(
        "words of an insert {inserts:?}, {split} splits; of a removal {removals:?}, {merged} merges"
    );
    assert!(inserts.0 <= 10 && inserts.1 <= 60, "{inserts:?}");
    assert!(removals.0 <= 9 && removals.1 <= 60, "{removals:?}");
    assert!((20..120).contains(&split), "{split}");
}

#[test]
fn what_grows_at_its_end_fills_its_nodes() {
    let pair = Pair::with(20_000, |number| number);
    let per_item = pair.memory.used() as f64 / 20_000.0;
    println!("{per_item:.1} bytes for each rising item");
    assert!(per_item < 19.5, "{per_item}");
    let pair = Pair::with(20_000, mixed);
    let per_item = pair.memory.used() as f64 / 20_000.0;
    println!("{per_item:.1} bytes for each item in random order");
    assert!(per_item < 30.0, "{per_item}");
}

#[test]
fn a_tree_of_all_its_items_at_once_is_one_that_grew_at_its_end() {
    fn check<K: Kind>(count: u64) {
        let mut pair = Pair::<K>::new();
        pair.model = (0..count).map(|n| (n % 7 + n * u64::from(K::SORTED) + 1, n)).collect();
        pair.model.sort_unstable();
        let items: Vec<Item> = pair.model.iter().map(|&words| item(words)).collect();
        pair.tree.fill(&mut pair.memory, &items).expect("free memory");
        pair.memory.commit();
        pair.check();
        assert_eq!(pair.blocks().len(), grown::<K>(&pair.model), "{count} items");
        // A tree that has items accepts no others in their place.
        let refused = pair.tree.fill(&mut pair.memory, &items);
        assert_eq!(refused.is_err(), count > 0);
        for number in 0..pair.model.len().min(80) / 2 {
            pair.remove_at(number);
            pair.insert_at(number, (3, 1 << 40));
            pair.remove_at(number);
        }
        pair.check();
    }
    fn grown<K: Kind>(model: &[(u64, u64)]) -> usize {
        let mut pair = Pair::<K>::new();
        for &words in model {
            let end = pair.tree.end(&pair.memory);
            pair.tree.insert(&mut pair.memory, &end, item(words)).expect("free memory");
            pair.memory.commit();
        }
        pair.blocks().len()
    }
    for count in [0, 1, 29, 30, 29 * 30, 29 * 30 + 1, 29 * 30 * 30 + 1] {
        check::<Weighed>(count);
    }
    for count in [2, 29, 3000] {
        check::<Sorted>(count);
    }
}

#[test]
fn what_shrinks_gives_its_nodes_back() {
    let mut pair = Pair::with(20_000, mixed);
    let mut random = fastrand::Rng::with_seed(1);
    let (mut most, mut merges) = (0, 0);
    while pair.model.len() > 1000 {
        let cost = pair.remove_at(random.usize(..pair.model.len()));
        most = most.max(cost.words);
        merges += cost.freed;
    }
    println!("{merges} merges, at most {most} words of a removal");
    assert!(merges > 500 && most <= 100, "{merges} {most}");
    let per_item = pair.memory.used() as f64 / 1000.0;
    println!("{per_item:.1} bytes for each of the twentieth that is left");
    assert!(per_item < 70.0, "{per_item}");
}

#[test]
fn a_full_heap_refuses_and_a_rollback_leaves_what_was() {
    let mut pair = Pair::with(3000, mixed);
    let mut refused = 0;
    for number in 3000..3400 {
        pair.memory.reservations_left = number as usize % 3;
        let words = (mixed(number), number);
        let at = pair.tree.seek(&pair.memory, |other| (other.first, other.second) < words);
        match pair.tree.insert(&mut pair.memory, &at, item(words)) {
            Ok(()) => {
                pair.memory.commit();
                let number = pair.model.partition_point(|other| *other < words);
                pair.model.insert(number, words);
            }
            Err(Full) => {
                pair.memory.rollback();
                refused += 1;
            }
        }
    }
    pair.memory.reservations_left = usize::MAX;
    assert!(refused > 3, "{refused}");
    pair.check();
}

/// Whatever bit of a tree is flipped: a walk ends and reports it, unless the word means nothing.
#[test]
fn a_flipped_bit_is_named() {
    let fresh = || Pair::with(1500, mixed);
    let blocks = fresh().memory.blocks();
    let mut random = fastrand::Rng::with_seed(3);
    let (mut named, mut idle) = (0, 0);
    for _ in 0..400 {
        let mut pair = fresh();
        let mut sizes = Vec::new();
        pair.tree.salvage_walk(&pair.memory, |found| {
            if let WalkItem::Block(at, size) = found {
                sizes.push((at, size));
            }
            true
        });
        let (block, size) = sizes[random.usize(..sizes.len())];
        pair.memory.damage(block.add(random.u64(..size as u64)));
        let (mut seen, mut damaged) = (Vec::new(), false);
        pair.tree.salvage_walk(&pair.memory, |found| match found {
            WalkItem::Block(at, _) if seen.contains(&at) => false,
            WalkItem::Block(at, _) => {
                seen.push(at);
                blocks.contains(&at)
            }
            WalkItem::Item(_) => true,
            WalkItem::Damage(_) => {
                damaged = true;
                true
            }
        });
        if damaged {
            named += 1;
        } else {
            idle += 1;
            pair.check();
        }
    }
    println!("{named} named, {idle} without a meaning");
    assert!(named > 200, "{named} of 400");
}

#[test]
fn the_front_of_a_tree_is_cut_off_as_a_tree() {
    for count in [1u64, 28, 29, 30, 500, 3000] {
        for at in [0, 1, 27, count / 2, count.saturating_sub(1), count] {
            let at = at.min(count);
            let mut pair = Pair::<Sorted>::with(count, |n| n);
            let cursor = pair.nth(at as usize);
            let front = pair.tree.split_off_front(&mut pair.memory, &cursor).expect("free memory");
            pair.memory.set(Memory::root(1), front);
            let cost = pair.memory.commit();
            assert!(cost.blocks <= 5 && cost.words < 200, "{cost:?}");
            let mut cut = Vec::new();
            let other = Tree::<Sorted>::at(Memory::root(1));
            let mut next = other.begin(&pair.memory);
            while let Some(item) = next.item(&pair.memory) {
                cut.push(words(item));
                next.next(&pair.memory);
            }
            assert!(cut == pair.model[..at as usize]);
            pair.model.drain(..at as usize);
            let mut freed = 1;
            while freed > 0 {
                freed = other.free_step(&mut pair.memory, 10, |_, _| Ok(0)).expect("free memory");
                pair.memory.commit();
            }
            pair.check();
        }
    }
}
