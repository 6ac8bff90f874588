//! Streams compared with a map of entries, and the cost of their operations.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::{self, Memory};
use heap::Ptr;
use proptest::prelude::*;
use structures::listpack::Item;
use structures::reclaim::{Owned, Queue};
use structures::stream::Error as StreamError;
use structures::stream::{Bound, Entry, Id, Limits, Owners, Stream, Trim, WalkItem};
use structures::{Damaged, Store};

const OWNERS: Owners = Owners { nodes: 9, groups: 10, consumers: 11, pending: 12, nothing: 13 };

type Words = Vec<(Vec<u8>, Vec<u8>)>;

fn queue() -> Queue {
    Queue::at(Memory::root(0))
}

/// A stream and its expected content.
struct Pair {
    memory: Memory,
    stream: Stream,
    model: BTreeMap<Id, Words>,
    limits: Limits,
}

fn words_of(entry: &Entry<'_>) -> Words {
    let bytes = |item: Item<'_>| match item {
        Item::Int(int) => int.to_string().into_bytes(),
        Item::Bytes(bytes) => bytes.to_vec(),
    };
    entry.pairs().map(|(field, value)| (bytes(field), bytes(value))).collect()
}

impl Pair {
    fn new(limits: Limits) -> Pair {
        let mut memory = Memory::new();
        let stream = Stream::create(&mut memory).expect("free memory");
        memory.commit();
        Pair { memory, stream, model: BTreeMap::new(), limits }
    }

    fn append(&mut self, step: (u64, u64), words: Words) -> memory::Cost {
        let last = self.stream.head.last;
        let id = match step {
            (0, seq) => Id { ms: last.ms, seq: last.seq + seq + 1 },
            (ms, seq) => Id { ms: last.ms + ms, seq },
        };
        let pairs: Vec<(Item<'_>, Item<'_>)> =
            words.iter().map(|(f, v)| (Item::Bytes(f), Item::Bytes(v))).collect();
        self.stream.append(&mut self.memory, id, &pairs, self.limits).expect("free memory");
        self.stream.save(&mut self.memory);
        self.model.insert(id, words);
        self.memory.commit()
    }

    fn id(&self, part: u16) -> Id {
        let number = (usize::from(part) * (self.model.len() + 1)) >> 16;
        self.model.keys().nth(number).copied().unwrap_or(Id { ms: 7, seq: 7 })
    }

    fn delete(&mut self, id: Id) {
        self.delete_all(&[id]);
    }

    fn delete_all(&mut self, ids: &[Id]) -> memory::Cost {
        let gone = self.stream.delete(&mut self.memory, queue(), ids, true).expect("sound");
        let present = ids.iter().filter(|id| self.model.remove(id).is_some()).count();
        assert_eq!(gone, present as u64);
        self.stream.save(&mut self.memory);
        self.memory.commit()
    }

    fn trim(&mut self, trim: Trim) -> memory::Cost {
        let gone =
            self.stream.trim(&mut self.memory, queue(), OWNERS.nodes, trim, true).expect("sound");
        self.stream.save(&mut self.memory);
        let exact = match trim.bound {
            Bound::Len(most) => self.model.len().saturating_sub(most as usize) as u64,
            Bound::Id(least) => self.model.range(..least).count() as u64,
        };
        assert!(gone <= exact && (trim.whole_nodes || gone == exact), "{gone} of {exact}");
        assert!(trim.most == 0 || gone <= trim.most);
        (0..gone).for_each(|_| drop(self.model.pop_first()));
        self.memory.commit()
    }

    fn relocate_all(&mut self) {
        self.memory.all_sparse = true;
        let mut number = 0;
        loop {
            let (word, next) = self.stream.relocate(&mut self.memory, number).expect("free memory");
            assert_eq!(word, self.stream.word());
            self.memory.commit();
            if next == 0 {
                break;
            }
            number = next;
        }
        self.memory.all_sparse = false;
    }

    /// Reads the entries in a range of IDs.
    fn read(&self, from: Id, to: Id, reversed: bool) -> Vec<(Id, Words)> {
        let mut found = Vec::new();
        let show = |entry: &Entry<'_>| {
            found.push((entry.id, words_of(entry)));
            true
        };
        let done = match reversed {
            false => self.stream.visit(&self.memory, from..=to, true, show),
            true => self.stream.visit_back(&self.memory, from..=to, true, show),
        };
        done.expect("sound");
        found
    }

    fn check(&mut self, from: u16, to: u16) {
        while !queue().is_empty(&self.memory) {
            let free = |memory: &mut Memory, owner, owned| match owned {
                Owned::Item(item) => {
                    assert_eq!(owner, OWNERS.nodes);
                    Stream::free_item(memory, queue(), OWNERS, owner, item)
                }
                Owned::Entry(_) => panic!("no index was queued"),
            };
            queue().step(&mut self.memory, 100, free).expect("free memory");
            self.memory.commit();
        }
        self.stream = Stream::open(&self.memory, self.stream.word()).expect("sound");
        assert_eq!(self.stream.head.len, self.model.len() as u64);
        assert_eq!(self.stream.first_id(&self.memory), Ok(self.model.keys().next().copied()));
        let (from, to) = (self.id(from), self.id(to));
        for (from, to) in [(Id::MIN, Id::MAX), (from.min(to), from.max(to))] {
            let wanted: Vec<(Id, Words)> =
                self.model.range(from..=to).map(|(id, words)| (*id, words.clone())).collect();
            assert_eq!(self.read(from, to, false), wanted);
            assert!(self.read(from, to, true).iter().eq(wanted.iter().rev()));
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

#[derive(Clone, Debug)]
enum Change {
    Append(Vec<((u64, u64), Words)>),
    Delete(Vec<u16>),
    DeleteAll(Vec<u16>),
    Len(u16, bool, u64),
    Least(u16, bool, u64),
    Relocate,
}

fn words() -> impl Strategy<Value = Words> {
    let bytes = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 1..20),
        1 => (0..900usize, any::<u8>()).prop_map(|(len, byte)| vec![byte; len + 1]),
    ];
    let large = (60_000..80_000usize).prop_map(|len| vec![(b"f".to_vec(), vec![7; len])]);
    let pair = (prop_oneof![Just(b"a".to_vec()), Just(b"b".to_vec())], bytes);
    prop_oneof![40 => prop::collection::vec(pair, 1..4), 1 => large]
}

fn change() -> impl Strategy<Value = Change> {
    let entry = ((0..3u64, 0..3u64), words());
    let most = prop_oneof![Just(0u64), 1..200u64];
    prop_oneof![
        6 => prop::collection::vec(entry, 1..40).prop_map(Change::Append),
        2 => prop::collection::vec(any::<u16>(), 1..30).prop_map(Change::Delete),
        2 => prop::collection::vec(any::<u16>(), 1..90).prop_map(Change::DeleteAll),
        1 => (any::<u16>(), any::<bool>(), most.clone()).prop_map(|(n, w, m)| Change::Len(n, w, m)),
        1 => (any::<u16>(), any::<bool>(), most).prop_map(|(n, w, m)| Change::Least(n, w, m)),
        1 => Just(Change::Relocate),
    ]
}

proptest! {
    #![proptest_config(memory::cases(120))]

    #[test]
    fn a_stream_is_its_entries(
        bytes in prop_oneof![Just(0usize), Just(400), Just(4096)],
        count in prop_oneof![Just(0usize), Just(3), Just(100)],
        changes in prop::collection::vec(change(), 1..memory::steps(20)),
        (from, to) in any::<(u16, u16)>(),
    ) {
        let mut pair = Pair::new(Limits::new(bytes, count));
        for change in changes {
            let len = pair.model.len() as u64;
            match change {
                Change::Append(entries) => entries.into_iter().for_each(|(step, words)| {
                    pair.append(step, words);
                }),
                Change::Delete(some) => some.into_iter().for_each(|part| {
                    pair.delete(pair.id(part));
                }),
                Change::DeleteAll(some) => {
                    let ids: BTreeSet<Id> = some.into_iter().map(|part| pair.id(part)).collect();
                    pair.delete_all(&ids.into_iter().collect::<Vec<Id>>());
                }
                Change::Len(part, whole_nodes, most) => {
                    let bound = Bound::Len((u64::from(part) * (len + 1)) >> 16);
                    let most = if whole_nodes { most } else { 0 };
                    pair.trim(Trim { bound, whole_nodes, most });
                }
                Change::Least(part, whole_nodes, most) => {
                    let most = if whole_nodes { most } else { 0 };
                    pair.trim(Trim { bound: Bound::Id(pair.id(part)), whole_nodes, most });
                }
                Change::Relocate => pair.relocate_all(),
            }
            pair.check(from, to);
        }
        let word = pair.stream.word();
        Stream::release(&mut pair.memory, queue(), word, OWNERS).expect("free memory");
        let mut empty = Stream::create(&mut pair.memory).expect("free memory");
        empty.save(&mut pair.memory);
        pair.memory.commit();
        (pair.stream, pair.model) = (empty, BTreeMap::new());
        pair.check(from, to);
    }
}

#[test]
fn an_entry_logs_the_node_and_the_head() {
    let mut pair = Pair::new(Limits::new(4096, 100));
    let words = vec![(b"field".to_vec(), b"value".to_vec())];
    let mut costs: Vec<usize> = (0..1000)
        .map(|_| {
            let cost = pair.append((1, 0), words.clone());
            cost.words
        })
        .collect();
    costs.sort_unstable();
    // Node: checksum, window. Header: length, milliseconds, number of added entries, checksum.
    assert_eq!(costs[500], 6);
    assert!(costs[999] <= 20, "{}", costs[999]);
    assert_eq!(pair.stream.node_count(&pair.memory), 10);
}

#[test]
fn a_tree_that_leads_nowhere_is_damage_and_costs_no_node() {
    let mut pair = Pair::new(Limits::new(4096, 10));
    let words = vec![(b"field".to_vec(), b"value".to_vec())];
    (0..25).for_each(|_| {
        pair.append((1, 0), words.clone());
    });
    // The header's second root but one is the tree's; its only leaf begins with its kind.
    let root = Ptr::from_raw(pair.stream.word()).add(64);
    let leaf = heap::View::word(&pair.memory, root);
    let leaf = Ptr::from_raw(structures::self_checksummed::decode(leaf).expect("a root"));
    pair.memory.damage(leaf);
    let trim = Trim { bound: Bound::Len(1), whole_nodes: false, most: 0 };
    let all = Id::MIN..=Id::MAX;
    let found = [
        pair.stream.trim(&mut pair.memory, queue(), OWNERS.nodes, trim, true).err(),
        pair.stream.first_id(&pair.memory).err().map(Into::into),
        pair.stream.visit(&pair.memory, all.clone(), true, |_| true).err().map(Into::into),
        pair.stream.visit_back(&pair.memory, all, true, |_| true).err().map(Into::into),
    ];
    for found in found {
        let Some(StreamError::Damaged(Damaged { what, .. })) = found else { panic!("{found:?}") };
        assert_eq!(what, "tree of a stream's nodes");
    }
    assert!(pair.stream.contains(&pair.memory, pair.stream.head.last, true).is_ok());
}

fn with_entries(count: usize, in_a_node: usize) -> Pair {
    let mut pair = Pair::new(Limits::new(4096, in_a_node));
    let words = vec![(b"field".to_vec(), b"value".to_vec())];
    (0..count).for_each(|_| {
        pair.append((1, 0), words.clone());
    });
    pair
}

#[test]
fn entries_that_go_together_cost_one_copy_of_their_node() {
    let mut pair = with_entries(1000, 100);
    let ids: Vec<Id> = pair.model.keys().copied().collect();
    // Every second entry of three nodes, and an ID that does not exist.
    let mut some: Vec<Id> = ids[100..400].iter().copied().step_by(2).collect();
    some.insert(1, Id { seq: 9, ..some[0] });
    let cost = pair.delete_all(&some);
    assert_eq!((cost.blocks, cost.freed), (3, 3));
    pair.check(0, u16::MAX);
}

#[test]
fn a_trim_of_any_number_of_nodes_is_a_small_transaction() {
    for left in [0, 3, 4999, 10_000, 14_000, 19_000] {
        for by_id in [false, true] {
            let mut pair = with_entries(20_000, 4);
            let least = pair.model.keys().rev().nth(left).map_or(Id::MIN, |id| id.next().unwrap());
            let bound = if by_id { Bound::Id(least) } else { Bound::Len(left as u64) };
            let cost = pair.trim(Trim { bound, whole_nodes: false, most: 0 });
            assert_eq!(pair.model.len(), left);
            // Sixteen nodes one by one; then one node for each level.
            assert!(cost.freed <= 40 && cost.blocks <= 8 && cost.words < 400, "{cost:?}");
            pair.check(100, 60_000);
        }
    }
}

#[test]
fn a_trim_takes_the_space_that_is_kept_for_deletes_to_its_end() {
    let mut pair = with_entries(300, 4);
    let mut large = with_large_entries(4);
    for pair in [&mut pair, &mut large] {
        pair.memory.reservations_left = 0;
        pair.memory.allow_reserve(true);
        pair.trim(Trim { bound: Bound::Len(20), whole_nodes: false, most: 0 });
        let ids: Vec<Id> = pair.model.keys().copied().step_by(3).collect();
        pair.delete_all(&ids);
        pair.memory.allow_reserve(false);
        pair.memory.reservations_left = usize::MAX;
        pair.check(0, u16::MAX);
    }
}

/// Entries that are longer than a block, with short ones between them.
fn with_large_entries(in_a_node: usize) -> Pair {
    let mut pair = Pair::new(Limits::new(4096, in_a_node));
    for number in 0..300 {
        let len = if number % 10 == 0 { 70_000 } else { 5 };
        pair.append((1, 0), vec![(b"field".to_vec(), vec![7; len])]);
    }
    pair
}

/// Whatever bit of a stream is flipped: a walk ends and reports it, unless the bit means nothing.
#[test]
fn a_flipped_bit_is_named() {
    let fresh = || with_entries(400, 7);
    let known = fresh().memory.blocks();
    let mut random = fastrand::Rng::with_seed(5);
    let mut named = 0;
    for _ in 0..200 {
        let mut pair = fresh();
        let (word, mut blocks) = (pair.stream.word(), Vec::new());
        Stream::salvage_walk(&pair.memory, word, |found| {
            if let WalkItem::Block(at, size) = found {
                blocks.push((at, size));
            }
            true
        });
        let (at, size) = blocks[random.usize(..blocks.len())];
        // Not in a node's length: this store refuses to read past it.
        pair.memory.damage(at.add(random.u64(if size == 16 { 8 } else { 0 }..size as u64)));
        let (mut seen, mut damaged) = (Vec::new(), false);
        Stream::salvage_walk(&pair.memory, word, |found| match found {
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
            pair.check(0, u16::MAX);
        }
    }
    println!("{named} of 200 named");
    assert!(named > 100, "{named}");
}
