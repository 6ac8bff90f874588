//! Lists compared with a vector of byte strings, and the cost of their operations.

use std::collections::VecDeque;

use crate::memory::{self, Cost, Memory};
use heap::Ptr;
use proptest::prelude::*;
use structures::list::{Element, Limits, List, Retain, Side, WalkItem};
use structures::listpack::Item;
use structures::reclaim::{self, Owned, Queue};

const OWNER: u16 = 9;

fn queue() -> Queue {
    Queue::at(Memory::root(0))
}

/// A list and its expected content.
struct Pair {
    memory: Memory,
    list: List,
    model: VecDeque<Vec<u8>>,
    limits: Limits,
}

/// Decides like a caller: a string that spells a small number is stored as one.
fn item(bytes: &[u8]) -> Item<'_> {
    let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<i64>().ok());
    match number.filter(|number| number.to_string().as_bytes() == bytes) {
        Some(number) => Item::Int(number),
        None => Item::Bytes(bytes),
    }
}

fn bytes_of(memory: &Memory, element: Element<'_>) -> Vec<u8> {
    match element {
        Element::Item(Item::Int(int)) => int.to_string().into_bytes(),
        Element::Item(Item::Bytes(bytes)) => bytes.to_vec(),
        Element::Blob(blob) => blob.to_vec(memory).expect("sound"),
    }
}

impl Pair {
    fn new(limits: Limits) -> Pair {
        Pair { memory: Memory::new(), list: List::EMPTY, model: VecDeque::new(), limits }
    }

    fn push(&mut self, side: Side, bytes: &[u8]) -> Cost {
        let list = self.list.push(&mut self.memory, side, item(bytes), self.limits);
        self.list = list.expect("free memory");
        match side {
            Side::Head => self.model.push_front(bytes.to_vec()),
            Side::Tail => self.model.push_back(bytes.to_vec()),
        }
        self.memory.commit()
    }

    fn push_all(&mut self, side: Side, elements: &[Vec<u8>]) {
        let items = elements.iter().map(|element| item(element));
        let list = self.list.push_all(&mut self.memory, side, items, self.limits);
        self.list = list.expect("free memory");
        for element in elements {
            match side {
                Side::Head => self.model.push_front(element.clone()),
                Side::Tail => self.model.push_back(element.clone()),
            }
        }
        self.memory.commit();
    }

    fn pop(&mut self, side: Side) -> Cost {
        let mut found = None;
        let take = |memory: &Memory, element: Element<'_>| found = Some(bytes_of(memory, element));
        let list = self.list.pop(&mut self.memory, queue(), side, 1, true, take);
        self.list = list.expect("sound");
        let expected = match side {
            Side::Head => self.model.pop_front(),
            Side::Tail => self.model.pop_back(),
        };
        assert_eq!(found, expected);
        self.memory.commit()
    }

    fn set(&mut self, index: usize, bytes: &[u8]) {
        let set = self.list.set(&mut self.memory, queue(), index as u64, item(bytes), self.limits);
        let (list, found) = set.expect("free memory");
        self.list = list;
        assert_eq!(found, index < self.model.len());
        if found {
            self.model[index] = bytes.to_vec();
        }
        self.memory.commit();
    }

    fn insert(&mut self, index: usize, bytes: &[u8]) {
        let list = self.list.insert(&mut self.memory, index as u64, item(bytes), self.limits);
        self.list = list.expect("free memory");
        self.model.insert(index.min(self.model.len()), bytes.to_vec());
        self.memory.commit();
    }

    fn trim(&mut self, side: Side, count: usize) {
        self.list = self.list.trim(&mut self.memory, queue(), side, count as u64).expect("sound");
        let count = count.min(self.model.len());
        match side {
            Side::Head => drop(self.model.drain(..count)),
            Side::Tail => self.model.truncate(self.model.len() - count),
        }
        self.memory.commit();
    }

    /// Removes every third of the first elements from one side.
    fn retain(&mut self, from: Side, some: usize) {
        let mut seen = 0;
        let retain = |_: &Memory, _: Element<'_>| {
            seen += 1;
            match seen {
                _ if seen > some => Retain::Stop,
                _ if seen % 3 == 1 => Retain::Drop,
                _ => Retain::Keep,
            }
        };
        let list = self.list.retain(&mut self.memory, queue(), from, self.limits, retain);
        self.list = list.expect("free memory");
        let len = self.model.len();
        let mut number = 0;
        self.model.retain(|_| {
            let place = if from == Side::Head { number } else { len - 1 - number };
            number += 1;
            place >= some || place % 3 != 0
        });
        self.memory.commit();
    }

    fn relocate_all(&mut self) {
        self.memory.all_sparse = true;
        let mut index = 0;
        loop {
            let (list, next) = self.list.relocate(&mut self.memory, index).expect("free memory");
            self.list = list.unwrap_or(self.list);
            self.memory.commit();
            if next == 0 {
                break;
            }
            assert!(next > index);
            index = next;
        }
        self.memory.all_sparse = false;
    }

    fn read(&self, from: Side, index: usize) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let visit = |element: Element<'_>| {
            found.push(bytes_of(&self.memory, element));
            true
        };
        self.list.visit(&self.memory, index as u64, from, true, visit).expect("sound");
        found
    }

    fn check(&mut self) {
        while !queue().is_empty(&self.memory) {
            let free = |memory: &mut Memory, owner, owned| match owned {
                Owned::Item(item) => {
                    assert_eq!(owner, OWNER);
                    List::free_item(memory, queue(), item)
                }
                Owned::Entry(_) => panic!("no index was queued"),
            };
            queue().step(&mut self.memory, 100, free).expect("free memory");
            self.memory.commit();
        }
        assert_eq!(self.list.len(&self.memory), Ok(self.model.len() as u64));
        assert_eq!(self.list.is_empty(), self.model.is_empty());
        self.list.check(&self.memory).expect("sound");
        assert!(self.read(Side::Head, 0).iter().eq(&self.model));
        let last = self.model.len().saturating_sub(1);
        assert!(self.read(Side::Tail, last).iter().eq(self.model.iter().rev()));
        let mut blocks = Vec::new();
        self.list.blocks(&self.memory, |block| blocks.push(block));
        blocks.sort();
        assert_eq!(blocks, self.memory.blocks());
        let mut surveyed: Vec<Ptr> = Vec::new();
        self.list.salvage_walk(&self.memory, |found| {
            match found {
                WalkItem::Block(at, _) => surveyed.push(at),
                WalkItem::Damage(damage) => panic!("{damage}"),
            }
            true
        });
        surveyed.sort();
        assert_eq!(surveyed, blocks);
    }
}

#[derive(Clone, Debug)]
enum Change {
    Push(Side, Vec<Vec<u8>>),
    PushAll(Side, Vec<Vec<u8>>),
    Pop(Side, usize),
    Set(u16, Vec<u8>),
    Insert(u16, Vec<u8>),
    Trim(Side, u16),
    Retain(Side, usize),
    Relocate,
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Head), Just(Side::Tail)]
}

fn element() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..20),
        4 => any::<i16>().prop_map(|number| number.to_string().into_bytes()),
        2 => (0..200usize, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
        1 => (0..9000usize, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (side(), prop::collection::vec(element(), 1..40))
            .prop_map(|(side, elements)| Change::Push(side, elements)),
        6 => (side(), prop::collection::vec(element(), 0..40))
            .prop_map(|(side, elements)| Change::PushAll(side, elements)),
        3 => (side(), 1..60usize).prop_map(|(side, count)| Change::Pop(side, count)),
        2 => (any::<u16>(), element()).prop_map(|(at, bytes)| Change::Set(at, bytes)),
        2 => (any::<u16>(), element()).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        1 => (side(), any::<u16>()).prop_map(|(side, part)| Change::Trim(side, part)),
        1 => (side(), 0..200usize).prop_map(|(side, some)| Change::Retain(side, some)),
        1 => Just(Change::Relocate),
    ]
}

fn part(part: u16, of: usize) -> usize {
    (usize::from(part) * of) >> 16
}

proptest! {
    #![proptest_config(memory::cases(160))]

    #[test]
    fn a_list_is_its_elements(
        bytes in prop_oneof![Just(0usize), Just(400), Just(8192)],
        count in prop_oneof![Just(3usize), Just(40), Just(9999)],
        changes in prop::collection::vec(change(), 1..memory::steps(30)),
    ) {
        let mut pair = Pair::new(Limits::new(bytes, count));
        for change in changes {
            let len = pair.model.len();
            match change {
                Change::Push(side, elements) => elements.iter().for_each(|element| {
                    pair.push(side, element);
                }),
                Change::PushAll(side, elements) => pair.push_all(side, &elements),
                Change::Pop(side, count) => (0..count).for_each(|_| { pair.pop(side); }),
                Change::Set(at, bytes) => pair.set(part(at, len + 1), &bytes),
                Change::Insert(at, bytes) => pair.insert(part(at, len + 2), &bytes),
                Change::Trim(side, some) => pair.trim(side, part(some, len / 2 + 2)),
                Change::Retain(side, some) => pair.retain(side, some),
                Change::Relocate => pair.relocate_all(),
            }
            pair.check();
        }
        pair.list.release(&mut pair.memory, queue(), OWNER).expect("free memory");
        pair.memory.commit();
        (pair.list, pair.model) = (List::EMPTY, VecDeque::new());
        pair.check();
    }
}

#[test]
fn elements_that_fill_a_node_are_written_at_once() {
    let elements: Vec<Vec<u8>> = (0..200).map(|n| format!("element {n}").into_bytes()).collect();
    let mut pair = Pair::new(Limits::new(8192, 128));
    pair.push_all(Side::Tail, &elements);
    pair.check();
    assert_eq!(pair.memory.blocks().len(), 3, "a header and two nodes");
}

#[test]
fn a_list_that_is_copied_node_by_node_is_its_elements() {
    for count in [0, 1, 100, 5000] {
        let mut pair = Pair::new(Limits::new(8192, 9999));
        let element = |n: usize| match n % 1000 {
            7 => vec![b'l'; 9000 + n],
            n => format!("element {n}").into_bytes(),
        };
        for n in 0..count {
            // Nodes that were begun at the head have their elements in reverse.
            pair.push(if n % 3 == 0 { Side::Head } else { Side::Tail }, &element(n));
        }
        if count > 10 {
            for side in [Side::Head, Side::Tail, Side::Tail] {
                pair.pop(side);
            }
        }
        let (mut to, mut copy, mut copied) = (Memory::new(), List::EMPTY, 0);
        while let Some(node) = pair.list.copy_node(&pair.memory, copied, true).expect("sound") {
            copied += node.count();
            copy = copy.push_copy(&mut to, &node).expect("free memory");
        }
        assert_eq!(copied, pair.model.len() as u64);
        to.commit();
        let mut other = Pair { memory: to, list: copy, model: pair.model.clone(), ..pair };
        other.check();
        for n in 0..20 {
            other.push(Side::Tail, &element(n));
            other.push(Side::Head, &element(n));
        }
        other.check();
    }
}

fn with(count: usize, side: Side) -> Pair {
    let mut pair = Pair::new(Limits::new(8192, 9999));
    (0..count).for_each(|number| {
        pair.push(side, format!("element {number}").as_bytes());
    });
    pair
}

#[test]
fn a_push_logs_two_words_and_a_pop_one_whatever_the_length() {
    for count in [10, 100, 100_000] {
        for side in [Side::Head, Side::Tail] {
            let mut pair = with(count, side);
            let pushed: Vec<Cost> = (0..200).map(|_| pair.push(side, b"one more")).collect();
            let in_place = |cost: &&Cost| cost.words == 2 && cost.blocks == 0;
            let (usual, most) = (
                pushed.iter().filter(in_place).count(),
                pushed.iter().map(|cost| cost.words).max(),
            );
            assert!(usual >= 195 && most < Some(12), "{count}: {usual} {most:?}");
            assert!(pushed.iter().filter(in_place).all(|cost| cost.published == 10));
            let popped: Vec<Cost> = (0..200).map(|_| pair.pop(side)).collect();
            let one = popped.iter().filter(|cost| cost.words == 1 && cost.blocks == 0).count();
            assert!(one >= 197, "{count}: {one}");
            pair.check();
        }
    }
}

#[test]
fn a_queue_stays_small_and_copies_little() {
    let mut pair = with(100, Side::Tail);
    let mut published = 0;
    for number in 0..20_000 {
        published += pair.push(Side::Tail, format!("element {number}").as_bytes()).published;
        published += pair.pop(Side::Head).published;
    }
    pair.check();
    let element = 16;
    println!("{} bytes written for each of {element}", published / 20_000);
    assert!(published < 20_000 * 3 * element, "{published}");
    assert!(pair.memory.used() < 40_000, "{}", pair.memory.used());
}

#[test]
fn a_large_list_goes_in_bounded_steps() {
    let mut pair = with(300_000, Side::Tail);
    pair.push(Side::Head, &vec![b'x'; 300_000]);
    pair.push(Side::Head, b"before");
    pair.list.release(&mut pair.memory, queue(), OWNER).expect("free memory");
    let cost = pair.memory.commit();
    assert!(cost.freed <= 4 && cost.words <= 4, "{cost:?}");
    let mut steps = 0;
    while !queue().is_empty(&pair.memory) {
        let free = |memory: &mut Memory, _, owned| match owned {
            Owned::Item(item) => List::free_item(memory, queue(), item),
            Owned::Entry(_) => panic!("no index was queued"),
        };
        let mut waiting = Vec::new();
        let visit = |_, part| match part {
            reclaim::Part::Block(at) => waiting.push(at),
            reclaim::Part::Owned(Owned::Item(item)) => {
                List::item_blocks(&pair.memory, item, |at| waiting.push(at));
            }
            reclaim::Part::Owned(Owned::Entry(_)) => panic!("no index was queued"),
        };
        queue().check(&pair.memory, |_, _| 0, visit).expect("sound");
        waiting.sort();
        assert_eq!(waiting, pair.memory.blocks());
        queue().step(&mut pair.memory, 20, free).expect("free memory");
        assert!(pair.memory.commit().freed <= 20 + 35);
        steps += 1;
    }
    assert!(steps > 10 && pair.memory.blocks().is_empty(), "{steps}");
}

#[test]
fn a_full_heap_refuses_and_a_rollback_leaves_what_was() {
    let mut pair = with(3000, Side::Tail);
    let mut refused = 0;
    for number in 0..600 {
        pair.memory.reservations_left = number % 2;
        let element = vec![b'x'; number * 20];
        let done = pair.list.push(&mut pair.memory, Side::Tail, Item::Bytes(&element), pair.limits);
        match done {
            Ok(list) => {
                pair.memory.commit();
                pair.list = list;
                pair.model.push_back(element);
            }
            Err(_) => {
                pair.memory.rollback();
                refused += 1;
            }
        }
    }
    pair.memory.reservations_left = usize::MAX;
    assert!(refused > 20, "{refused}");
    pair.check();
}

#[test]
fn a_flipped_bit_is_named() {
    let mut random = fastrand::Rng::with_seed(4);
    let fresh = || {
        let mut pair = with(3000, Side::Head);
        (0..1000).for_each(|_| {
            pair.pop(Side::Head);
        });
        pair.push(Side::Head, b"one more");
        pair
    };
    let known = fresh().memory.blocks();
    let mut named = 0;
    for _ in 0..150 {
        let mut pair = fresh();
        let mut blocks = Vec::new();
        pair.list.salvage_walk(&pair.memory, |found| {
            if let WalkItem::Block(at, size) = found {
                blocks.push((at, size));
            }
            true
        });
        let (at, size) = blocks[random.usize(..blocks.len())];
        // Not in a length: this store refuses to read past it.
        pair.memory.damage(at.add(random.u64(8..size as u64)));
        let (mut seen, mut damaged) = (Vec::new(), false);
        pair.list.salvage_walk(&pair.memory, |found| match found {
            WalkItem::Block(at, _) => {
                let first = !seen.contains(&at);
                seen.push(at);
                first && known.contains(&at)
            }
            WalkItem::Damage(_) => {
                damaged = true;
                true
            }
        });
        if damaged {
            named += 1;
        } else {
            pair.check();
        }
    }
    println!("{named} of 150 named");
    assert!(named > 60, "{named}");
}
