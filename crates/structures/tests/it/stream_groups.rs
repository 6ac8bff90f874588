//! Consumer groups compared with a model of maps, the cost of their operations, and the detection
//! of flipped bits.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use crate::memory::{self, Memory};
use heap::{Ptr, View};
use proptest::prelude::*;
use structures::Store;
use structures::listpack::Item;
use structures::reclaim::{Owned, Queue};
use structures::stream::{Consumer, Error, Group, Id, Limits, Owners, Piece, Stream, WalkItem};

const OWNERS: Owners = Owners { nodes: 1, groups: 2, consumers: 3, pending: 4, nothing: 5 };

fn queue() -> Queue {
    Queue::at(Memory::root(0))
}

/// When an entry was delivered, how many times, and to whom.
type Delivery = (u64, u64, Vec<u8>);

#[derive(Clone, Debug, Default, PartialEq)]
struct GroupModel {
    last: u64,
    read: Option<u64>,
    /// When each was last seen, and last active.
    consumers: BTreeMap<Vec<u8>, (u64, Option<u64>)>,
    pending: BTreeMap<Id, Delivery>,
}

type Model = BTreeMap<Vec<u8>, GroupModel>;

struct Pair {
    memory: Memory,
    stream: Stream,
    model: Model,
}

/// Names with a common start, an empty one, and a long one.
fn name(number: u8) -> Vec<u8> {
    match number % 8 {
        0 => Vec::new(),
        1 => vec![b'x'; 3000],
        n => format!("consumer{}", "\0".repeat(usize::from(n))).into_bytes(),
    }
}

fn id(number: u16) -> Id {
    Id { ms: u64::from(number / 3), seq: u64::from(number % 3) }
}

impl Pair {
    fn new() -> Pair {
        let mut memory = Memory::new();
        let stream = Stream::create(&mut memory).expect("free memory");
        memory.commit();
        Pair { memory, stream, model: Model::new() }
    }

    fn group(&self, name: &[u8]) -> Group {
        self.stream.group(&self.memory, name).expect("sound").expect("a group")
    }

    fn consumer(
        &mut self,
        group: &Group,
        name: &[u8],
        (now, is_active): (u64, bool),
    ) -> Result<Consumer, Error> {
        match group.consumer(&self.memory, name)? {
            Some(mut consumer) => {
                consumer.see(&mut self.memory, now, is_active);
                Ok(consumer)
            }
            None => {
                let active = is_active.then_some(now);
                group.create_consumer(&mut self.memory, name, now, active)
            }
        }
    }

    fn run(&mut self, change: &Change) -> memory::Cost {
        self.try_run(change).expect("free memory");
        self.memory.commit()
    }

    fn try_run(&mut self, change: &Change) -> Result<(), Error> {
        match change {
            Change::Create(group, last) => {
                let name = name(*group);
                if !self.model.contains_key(&name) {
                    let at = Id { ms: *last, seq: 1 };
                    self.stream.create_group(&mut self.memory, &name, at, None)?;
                    let new = GroupModel { last: *last, ..GroupModel::default() };
                    self.model.insert(name, new);
                }
            }
            Change::Set(group, last, read) => {
                let name = name(*group);
                if let Some(held) = self.model.get_mut(&name) {
                    (held.last, held.read) = (*last, *read);
                    let mut group = self.group(&name);
                    (group.last, group.read) = (Id { ms: *last, seq: 1 }, *read);
                    group.save(&mut self.memory);
                }
            }
            Change::Destroy(group) => {
                let name = name(*group);
                let done = self.stream.drop_group(&mut self.memory, queue(), OWNERS, &name)?;
                assert_eq!(done, self.model.remove(&name).is_some());
            }
            Change::Deliver(group, consumer, ids, now) => {
                let (name, consumer) = (name(*group), name(*consumer));
                if self.model.contains_key(&name) {
                    self.deliver(&name, &consumer, ids, *now)?;
                }
            }
            Change::Acknowledge(group, ids) => {
                let name = name(*group);
                if self.model.contains_key(&name) {
                    self.acknowledge(&name, ids)?;
                }
            }
            Change::Forget(group, consumer) => {
                let (name, consumer) = (name(*group), name(*consumer));
                if self.model.contains_key(&name) {
                    self.forget(&name, &consumer)?;
                }
            }
            Change::Relocate => self.relocate_all(),
        }
        Ok(())
    }

    fn deliver(&mut self, name: &[u8], to: &[u8], ids: &[u16], now: u64) -> Result<(), Error> {
        let group = self.group(name);
        let consumer = self.consumer(&group, to, (now, !ids.is_empty()))?;
        let held = self.model.get_mut(name).expect("a group");
        let before = held.consumers.get(to).and_then(|(_, active)| *active);
        let active = if ids.is_empty() { before } else { Some(now) };
        held.consumers.insert(to.to_vec(), (now, active));
        for number in ids {
            let id = id(*number);
            let before = group.pending(&self.memory, id).expect("sound");
            assert_eq!(before.map(|one| one.count), held.pending.get(&id).map(|one| one.1));
            let count = before.map_or(1, |one| one.count + 1);
            let memory = &mut self.memory;
            match before {
                Some(one) => group.redeliver(
                    memory,
                    &one,
                    &consumer,
                    structures::stream::Delivery { at_ms: now, count },
                ),
                None => group.deliver(
                    memory,
                    &consumer,
                    id,
                    structures::stream::Delivery { at_ms: now, count },
                ),
            }?;
            held.pending.insert(id, (now, count, to.to_vec()));
        }
        Ok(())
    }

    fn acknowledge(&mut self, name: &[u8], ids: &[u16]) -> Result<(), Error> {
        let group = self.group(name);
        let held = self.model.get_mut(name).expect("a group");
        for number in ids {
            let id = id(*number);
            let pending = group.pending(&self.memory, id).expect("sound");
            assert_eq!(pending.is_some(), held.pending.remove(&id).is_some());
            if let Some(pending) = pending {
                group.acknowledge(&mut self.memory, &pending)?;
            }
        }
        Ok(())
    }

    fn forget(&mut self, name: &[u8], who: &[u8]) -> Result<(), Error> {
        let group = self.group(name);
        let held = self.model.get_mut(name).expect("a group");
        let consumer = group.consumer(&self.memory, who).expect("sound");
        assert_eq!(consumer.is_some(), held.consumers.remove(who).is_some());
        if let Some(consumer) = consumer {
            let memory = &mut self.memory;
            let count = group.drop_consumer(memory, queue(), OWNERS, &consumer)?;
            let before = held.pending.len() as u64;
            held.pending.retain(|_, (_, _, of)| of != who);
            assert_eq!(count, before - held.pending.len() as u64);
        }
        Ok(())
    }

    fn relocate_all(&mut self) {
        self.memory.commit();
        self.memory.all_sparse = true;
        let mut place = 0;
        loop {
            let (_, next) = self.stream.relocate(&mut self.memory, place).expect("free memory");
            self.memory.commit();
            if next == 0 {
                break;
            }
            assert!(next > place);
            place = next;
        }
        self.memory.all_sparse = false;
    }

    fn reclaim(&mut self) {
        while !queue().is_empty(&self.memory) {
            let free = |memory: &mut Memory, owner, owned| match owned {
                Owned::Item(item) => Stream::free_item(memory, queue(), OWNERS, owner, item),
                Owned::Entry(_) => panic!("no index was queued"),
            };
            let freed = queue().step(&mut self.memory, 20, free).expect("free memory");
            let cost = self.memory.commit();
            assert!(freed > 0 && cost.freed < 100, "a step frees {}", cost.freed);
        }
    }

    fn check(&mut self) {
        self.reclaim();
        self.stream = Stream::open(&self.memory, self.stream.word()).expect("sound");
        assert_eq!(read(&self.memory, &self.stream), self.model);
        assert_eq!(read_parts(&self.memory, &self.stream), self.model);
        let mut place = 0;
        loop {
            let (next, _) = self.stream.check_step(&self.memory, place).expect("sound");
            if next == 0 {
                break;
            }
            assert!(next > place);
            place = next;
        }
        let mut blocks: Vec<Ptr> = Vec::new();
        Stream::blocks(&self.memory, self.stream.word(), |block| blocks.push(block));
        blocks.sort();
        assert_eq!(blocks, self.memory.blocks());
        let mut surveyed: Vec<Ptr> = Vec::new();
        Stream::salvage_walk(&self.memory, self.stream.word(), |found| {
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

/// Reads everything by name and by ID.
fn read(memory: &Memory, stream: &Stream) -> Model {
    let mut model = Model::new();
    let mut groups: Vec<Group> = Vec::new();
    let all = stream.groups(memory, |group| {
        groups.push(group);
        ControlFlow::<()>::Continue(())
    });
    all.expect("sound");
    assert_eq!(stream.group_count(memory), groups.len() as u64);
    for group in groups {
        let mut held = GroupModel { last: group.last.ms, read: group.read, ..Default::default() };
        let mut consumers: Vec<Consumer> = Vec::new();
        let all = group.consumers(memory, |consumer| {
            consumers.push(consumer);
            ControlFlow::<()>::Continue(())
        });
        all.expect("sound");
        assert_eq!(group.consumer_count(memory), consumers.len() as u64);
        let mut counted = 0;
        for consumer in consumers {
            let name = consumer.name(memory).expect("sound");
            let visit = |one: &structures::stream::Pending| {
                let delivery = (one.delivered, one.count, name.clone());
                held.pending.insert(one.id, delivery);
                counted += 1;
                true
            };
            consumer.visit_pending(memory, Id::MIN, visit).expect("sound");
            assert_eq!(consumer.pending_count(memory), {
                held.pending.values().filter(|(_, _, of)| *of == name).count() as u64
            });
            held.consumers.insert(name, (consumer.seen, consumer.active));
        }
        assert_eq!((group.pending_count(memory), held.pending.len()), (counted, counted as usize));
        let last = held.pending.keys().next_back().copied();
        assert_eq!(group.last_pending(memory), Ok(last));
        model.insert(group.name(memory).expect("sound"), held);
    }
    model
}

/// Reads everything by walking over the pieces.
fn read_parts(memory: &Memory, stream: &Stream) -> Model {
    let (mut model, mut place, mut name) = (Model::new(), 0, Vec::new());
    loop {
        let mut done = 1;
        match stream.piece(memory, place).expect("sound") {
            Piece::Node(_) | Piece::Head | Piece::End => {}
            Piece::Group(_, group) => {
                name = group.name(memory).expect("sound");
                let held =
                    GroupModel { last: group.last.ms, read: group.read, ..Default::default() };
                model.insert(name.clone(), held);
            }
            Piece::Consumers(group, from) => {
                let held = model.get_mut(&name).expect("its group came first");
                let show = |one: Consumer| {
                    let name = one.name(memory).expect("sound");
                    held.consumers.insert(name, (one.seen, one.active));
                };
                done = group.some_consumers(memory, from, 2, show).expect("sound");
            }
            Piece::Pending(group, from) => {
                let held = model.get_mut(&name).expect("its group came first");
                let show = |one: &structures::stream::Pending| {
                    let owner = group.owner(memory, one).and_then(|owner| owner.name(memory));
                    let delivery = (one.delivered, one.count, owner.expect("sound"));
                    held.pending.insert(one.id, delivery);
                };
                done = group.some_pending(memory, from, 7, show).expect("sound");
            }
        }
        match stream.position_after(memory, place, done).expect("sound") {
            0 => return model,
            next => place = next,
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Create(u8, u64),
    Set(u8, u64, Option<u64>),
    Destroy(u8),
    Deliver(u8, u8, Vec<u16>, u64),
    Acknowledge(u8, Vec<u16>),
    Forget(u8, u8),
    Relocate,
}

fn change() -> impl Strategy<Value = Change> {
    let ids = || prop::collection::vec(0..400u16, 1..80);
    prop_oneof![
        3 => (0..8u8, 0..9u64).prop_map(|(group, last)| Change::Create(group, last)),
        1 => (0..8u8, 0..9u64, any::<Option<u64>>()).prop_filter("unknown", |set| set.2 != Some(u64::MAX))
            .prop_map(|(group, last, read)| Change::Set(group, last, read)),
        1 => (0..8u8).prop_map(Change::Destroy),
        8 => (0..3u8, 0..8u8, ids(), 0..99u64).prop_map(|(g, c, ids, now)| Change::Deliver(g, c, ids, now)),
        4 => (0..3u8, ids()).prop_map(|(group, ids)| Change::Acknowledge(group, ids)),
        1 => (0..3u8, 0..8u8).prop_map(|(group, consumer)| Change::Forget(group, consumer)),
        1 => Just(Change::Relocate),
    ]
}

proptest! {
    #![proptest_config(memory::cases(40))]

    #[test]
    fn groups_are_their_consumers_and_what_is_pending(
        changes in prop::collection::vec(change(), 1..memory::steps(40)),
    ) {
        let mut pair = Pair::new();
        (0..3).for_each(|group| {
            pair.run(&Change::Create(group, 1));
        });
        for change in &changes {
            pair.run(change);
            pair.check();
        }
        Stream::release(&mut pair.memory, queue(), pair.stream.word(), OWNERS).expect("free memory");
        pair.memory.commit();
        pair.reclaim();
        prop_assert!(pair.memory.blocks().is_empty());
    }

    #[test]
    fn a_heap_without_space_refuses_and_nothing_is_lost(
        changes in prop::collection::vec(change(), 1..20),
        reservations in 0..30usize,
    ) {
        let mut pair = Pair::new();
        (0..3).for_each(|group| {
            pair.run(&Change::Create(group, 1));
        });
        for change in changes.iter().filter(|change| !matches!(change, Change::Relocate)) {
            let (stream, model) = (pair.stream, pair.model.clone());
            pair.memory.reservations_left = reservations;
            match pair.try_run(change) {
                Ok(()) => drop(pair.memory.commit()),
                Err(_) => {
                    pair.memory.rollback();
                    pair.memory.allow_reserve(false);
                    (pair.stream, pair.model) = (stream, model);
                }
            }
            pair.memory.reservations_left = usize::MAX;
            pair.check();
        }
    }
}

/// Creates a group of `count` entries, pending for two consumers in turn.
fn filled(count: u16) -> Pair {
    let mut pair = Pair::new();
    pair.run(&Change::Create(0, 1));
    for number in 0..count {
        pair.run(&Change::Deliver(0, (number % 2) as u8, vec![number], 5));
    }
    pair
}

#[test]
fn an_entry_costs_two_ways_down_a_tree_however_many_there_are() {
    let mut pair = filled(6000);
    let median = |costs: &mut Vec<usize>| {
        costs.sort_unstable();
        costs[costs.len() / 2]
    };
    let (mut delivered, mut given, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for number in 6000..6200u16 {
        delivered.push(pair.run(&Change::Deliver(0, 0, vec![number], 5)).words);
    }
    for number in (0..6000u16).step_by(31) {
        given.push(pair.run(&Change::Deliver(0, (number + 1) as u8 % 2, vec![number], 6)).words);
        taken.push(pair.run(&Change::Acknowledge(0, vec![number])).words);
    }
    let medians = [&mut delivered, &mut given, &mut taken].map(median);
    println!("{medians:?}");
    // For each tree: an item, its order, the checksum, a weight for each of about three levels.
    assert!(medians[0] <= 20 && medians[1] <= 30 && medians[2] <= 20, "{medians:?}");
    pair.check();
}

#[test]
fn a_large_group_goes_in_steps() {
    let mut pair = filled(5000);
    let held = pair.memory.blocks().len();
    let cost = pair.run(&Change::Destroy(0));
    assert!(cost.freed <= 3 && cost.words < 10, "{cost:?}");
    assert!(pair.memory.blocks().len() + 3 > held);
    pair.check();
    assert_eq!(pair.memory.blocks().len(), 1);
}

/// Walks a stream's groups, reading each allocated block once; returns the number of errors found.
fn damages(memory: &Memory, word: u64) -> usize {
    let (mut seen, mut damages) = (HashSet::new(), 0);
    let known: HashSet<Ptr> = memory.blocks().into_iter().collect();
    Stream::salvage_walk(memory, word, |found| match found {
        WalkItem::Block(at, _) => known.contains(&at) && seen.insert(at),
        WalkItem::Damage(_) => {
            damages += 1;
            true
        }
    });
    damages
}

#[test]
fn flipped_bits_are_found() {
    let mut pair = filled(200);
    let entry = [(Item::Bytes(b"f"), Item::Bytes(b"v"))];
    let limits = Limits::new(4096, 100);
    pair.stream.append(&mut pair.memory, id(3), &entry, limits).expect("free memory");
    pair.stream.save(&mut pair.memory);
    pair.memory.commit();
    let word = pair.stream.word();
    assert_eq!(damages(&pair.memory, word), 0);
    let mut blocks: Vec<(Ptr, usize)> = Vec::new();
    Stream::salvage_walk(&pair.memory, word, |found| {
        if let WalkItem::Block(at, size) = found {
            blocks.push((at, size));
        }
        true
    });
    let (mut missed, mut flips) = (Vec::new(), 0);
    for (at, size) in blocks {
        for offset in (0..size as u64 / 8 * 8).step_by(8) {
            let place = at.add(offset);
            pair.memory.damage(place);
            flips += 1;
            if damages(&pair.memory, word) == 0 {
                missed.push((at, offset));
            }
            pair.memory.damage(place);
        }
    }
    assert!(flips > 1000);
    // A free slot of a tree's node may hold anything.
    let free: Vec<_> =
        missed.iter().filter(|(at, offset)| !is_free_slot(&pair, *at, *offset)).collect();
    assert!(free.is_empty(), "missed: {free:x?}");
    assert_eq!(damages(&pair.memory, word), 0);
}

/// Returns true if a word is in a slot of a tree's node that its order does not list.
fn is_free_slot(pair: &Pair, node: Ptr, offset: u64) -> bool {
    let word = |number: u64| pair.memory.word(node.add(8 * number));
    if word(0) as u32 >> 8 != 0x65_7274 {
        return false;
    }
    let order: Vec<u8> = (1..5).flat_map(|number| word(number).to_le_bytes()).collect();
    let (header, slots) = if word(0) & 0xff == 0 { (6, 29) } else { (8, 30) };
    let number = offset / 8;
    let Some(slot) = number.checked_sub(header).map(|number| number % slots) else { return false };
    // The first child has no separator.
    let used = &order[1..=usize::from(order[0])];
    let is_separator = header == 8 && (number - header) / slots < 2;
    !used.contains(&(slot as u8)) || is_separator && used[0] == slot as u8
}
