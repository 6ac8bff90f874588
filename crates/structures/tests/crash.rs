//! Structures on a simulated medium, crashed everywhere: each transaction is whole or absent, every checksum
//! holds, and what is allocated is what is reachable, the free queue included.

mod pool;

use std::collections::BTreeMap;

use heap::{CommitError, Full, Heap, Ptr, Shard, View};
use pmem::Region;
use sim::{Crash, Effort, Subject, explore};
use structures::blob::{Blob, Reservation};
use structures::index::{self, Index};
use structures::list::{self, Element, Limits, List, Side, Sift};
use structures::packed;
use structures::reclaim::{Owned, Part, Queue};
use structures::tree::{self, Item, Kind, Tree};

const BLOBS: usize = 4;
const QUEUE: usize = 0;
const INDEX: usize = 1;
const FIRST_BLOB: usize = 2;
const TREE: usize = FIRST_BLOB + BLOBS;
const LIST: usize = TREE + 1;
const OWNER_TREE: u16 = 2;
const OWNER_LIST: u16 = 3;

/// Items of (key, block of key and value), by key.
#[derive(Clone, Copy)]
struct ByKey;

impl Kind for ByKey {
    const SORTED: bool = true;

    fn weight(_: Item) -> u64 {
        1
    }
}

/// What the store holds: keys with values in an index and in a tree, some byte strings, a list of
/// others.
#[derive(Clone, Default, PartialEq)]
struct State {
    keys: BTreeMap<u64, u64>,
    blobs: [Vec<u8>; BLOBS],
    items: BTreeMap<u64, u64>,
    list: Vec<Vec<u8>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sum = |of: &BTreeMap<u64, u64>| {
            of.iter().map(|(key, value)| key ^ value << 32).fold(0, u64::wrapping_add)
        };
        write!(f, "{} keys ({:x})", self.keys.len(), sum(&self.keys))?;
        write!(f, "{} items ({:x})", self.items.len(), sum(&self.items))?;
        write!(f, "{} elements ({:x})", self.list.len(), crc32c::crc32c(&self.list.concat()))?;
        let blobs = self.blobs.iter().map(|blob| (blob.len(), crc32c::crc32c(blob)));
        f.debug_list().entries(blobs).finish()
    }
}

/// One transaction.
#[derive(Debug)]
enum Plan {
    Put {
        keys: Vec<u64>,
        value: u64,
    },
    Remove(Vec<u64>),
    RemoveAll,
    Defragment(u64),
    Create {
        blob: usize,
        len: usize,
        seed: u64,
        detached: bool,
    },
    Append {
        blob: usize,
        len: usize,
        seed: u64,
    },
    SetRange {
        blob: usize,
        at: usize,
        len: usize,
        seed: u64,
    },
    Drop(usize),
    Reclaim(usize),
    Add {
        keys: Vec<u64>,
        value: u64,
    },
    Take(Vec<u64>),
    TakeRun {
        from: usize,
        most: usize,
    },
    TakeAll,
    Relocate(u64),
    Push {
        side: Side,
        count: usize,
        len: usize,
        seed: u64,
    },
    Pop {
        side: Side,
        count: usize,
    },
    Trim {
        side: Side,
        count: usize,
    },
    Change {
        at: usize,
        len: usize,
        seed: u64,
        insert: bool,
    },
    /// Takes out every other element from one side.
    Thin(Side),
    MoveNode(u64),
    DropList,
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

/// Bad enough that home buckets overflow now and then.
fn hash(key: u64) -> u64 {
    let mixed = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mixed ^ mixed >> 29;
    if key.is_multiple_of(8) { mixed | 0xffff } else { mixed.rotate_left(23) }
}

fn apply(state: &mut State, plan: &Plan) {
    match *plan {
        Plan::Put { ref keys, value } => state.keys.extend(keys.iter().map(|&key| (key, value))),
        Plan::Remove(ref keys) => state.keys.retain(|key, _| !keys.contains(key)),
        Plan::RemoveAll => state.keys.clear(),
        Plan::Create { blob, len, seed, .. } => state.blobs[blob] = bytes(seed, len),
        Plan::Append { blob, len, seed } => state.blobs[blob].extend(bytes(seed, len)),
        Plan::SetRange { blob, at, len, seed } => {
            let content = &mut state.blobs[blob];
            content.resize(content.len().max(at + len), 0);
            content[at..at + len].copy_from_slice(&bytes(seed, len));
        }
        Plan::Drop(blob) => state.blobs[blob].clear(),
        Plan::Add { ref keys, value } => state.items.extend(keys.iter().map(|&key| (key, value))),
        Plan::Take(ref keys) => state.items.retain(|key, _| !keys.contains(key)),
        Plan::TakeRun { from, most } => {
            let keys: Vec<u64> = state.items.keys().copied().skip(from).take(most).collect();
            state.items.retain(|key, _| !keys.contains(key));
        }
        Plan::TakeAll => state.items.clear(),
        Plan::Push { side, count, len, seed } => {
            for number in 0..count {
                let at = if side == Side::Head { 0 } else { state.list.len() };
                state.list.insert(at, bytes(seed + number as u64, len));
            }
        }
        Plan::Pop { side, count } | Plan::Trim { side, count } => {
            let (count, len) = (count.min(state.list.len()), state.list.len());
            let gone = if side == Side::Head { 0..count } else { len - count..len };
            state.list.drain(gone);
        }
        Plan::Change { at, len, seed, insert: true } => state.list.insert(at, bytes(seed, len)),
        Plan::Change { at, len, seed, insert: false } => state.list[at] = bytes(seed, len),
        Plan::Thin(from) => {
            let len = state.list.len();
            let mut number = 0;
            state.list.retain(|_| {
                number += 1;
                let place = if from == Side::Head { number - 1 } else { len - number };
                place % 2 == 1
            });
        }
        Plan::DropList => state.list.clear(),
        Plan::Defragment(_) | Plan::Reclaim(_) | Plan::Relocate(_) | Plan::MoveNode(_) => {}
    }
}

fn run(shard: &mut Shard<'_>, plan: &Plan) -> Result<(), Full> {
    let queue = Queue::at(shard.root(QUEUE));
    let index = Index::at(shard.root(INDEX));
    match *plan {
        Plan::Put { ref keys, value } => {
            keys.iter().try_for_each(|&key| put(shard, index, key, value))
        }
        Plan::Remove(ref keys) => {
            keys.iter().for_each(|&key| remove(shard, index, key));
            Ok(())
        }
        Plan::RemoveAll => queue.push_index(shard, shard.root(INDEX), 1),
        Plan::Defragment(cursor) => {
            let moved = |shard: &mut Shard<'_>, old: Ptr| {
                let new = write_entry(shard, shard.word(old), shard.word(old.add(8)))?;
                shard.free(old);
                Ok(Some(new))
            };
            index.defragment(shard, cursor, 10, moved).map(|_| ())
        }
        Plan::Create { blob, len, seed, detached } => {
            let content = bytes(seed, len);
            let new = if detached {
                create_detached(shard, &content)?
            } else {
                Blob::create(shard, &content)?
            };
            replace(shard, blob, |shard, old| {
                if old.is_large() {
                    queue.push_blob(shard, old)?;
                } else {
                    old.free_step(shard, 1);
                }
                Ok(new)
            })
        }
        Plan::Append { blob, len, seed } => {
            replace(shard, blob, |shard, old| old.append(shard, &bytes(seed, len)))
        }
        Plan::SetRange { blob, at, len, seed } => {
            replace(shard, blob, |shard, old| old.set_range(shard, at as u64, &bytes(seed, len)))
        }
        Plan::Drop(blob) => {
            replace(shard, blob, |shard, old| queue.push_blob(shard, old).map(|()| Blob::EMPTY))
        }
        Plan::Reclaim(budget) => {
            let free_owned = |shard: &mut Shard<'_>, owner, owned| {
                match owned {
                    Owned::Item(item) if owner == OWNER_LIST => {
                        return List::free_item(shard, queue, item);
                    }
                    Owned::Item(item) => shard.free(Ptr::from_raw(item.second)),
                    Owned::Entry(entry) => shard.free(entry),
                }
                Ok(1)
            };
            queue.step(shard, budget, free_owned).map(|_| ())
        }
        Plan::Add { ref keys, value } => keys.iter().try_for_each(|&key| add(shard, key, value)),
        Plan::Take(ref keys) => {
            keys.iter().for_each(|&key| take(shard, key));
            Ok(())
        }
        Plan::TakeRun { from, most } => {
            take_run(shard, from, most);
            Ok(())
        }
        Plan::TakeAll => queue.push_tree(shard, shard.root(TREE), OWNER_TREE),
        Plan::Relocate(at) => {
            let moved = |shard: &mut Shard<'_>, item: Item| {
                let old = Ptr::from_raw(item.second);
                let new = write_entry(shard, shard.word(old), shard.word(old.add(8)))?;
                shard.free(old);
                Ok(Some(Item { second: new.raw(), ..item }))
            };
            tree(shard).relocate(shard, at, moved).map(|_| ())
        }
        ref of_list => change_list(shard, queue, of_list),
    }
}

fn write_entry(shard: &mut Shard<'_>, key: u64, value: u64) -> Result<Ptr, Full> {
    let fresh = shard.reserve(16)?;
    shard.write_word(&fresh, 0, key);
    shard.write_word(&fresh, 8, value);
    Ok(shard.publish(fresh, 16))
}

fn put(shard: &mut Shard<'_>, index: Index, key: u64, value: u64) -> Result<(), Full> {
    let entry = write_entry(shard, key, value)?;
    match index.find(shard, hash(key), |entry| shard.word(entry) == key) {
        Some(slot) => {
            shard.free(slot.entry());
            index.replace(shard, slot, entry);
            Ok(())
        }
        None => index.insert(shard, hash(key), entry, |shard, entry| hash(shard.word(entry))),
    }
}

fn remove(shard: &mut Shard<'_>, index: Index, key: u64) {
    if let Some(slot) = index.find(shard, hash(key), |entry| shard.word(entry) == key) {
        shard.free(slot.entry());
        index.remove(shard, slot);
    }
}

fn tree(shard: &Shard<'_>) -> Tree<ByKey> {
    Tree::at(shard.root(TREE))
}

/// The place of a key in the tree, and the item if it is there.
fn find(shard: &Shard<'_>, key: u64) -> (tree::Cursor, Option<Item>) {
    let at = tree(shard).seek(shard, |item| item.first < key);
    let item = at.item(shard).filter(|item| item.first == key);
    (at, item)
}

fn add(shard: &mut Shard<'_>, key: u64, value: u64) -> Result<(), Full> {
    let entry = write_entry(shard, key, value)?;
    let item = Item { first: key, second: entry.raw() };
    match find(shard, key) {
        (at, Some(old)) => {
            shard.free(Ptr::from_raw(old.second));
            tree(shard).replace(shard, &at, item);
            Ok(())
        }
        (at, None) => tree(shard).insert(shard, &at, item),
    }
}

fn take(shard: &mut Shard<'_>, key: u64) {
    if let (at, Some(item)) = find(shard, key) {
        shard.free(Ptr::from_raw(item.second));
        tree(shard).remove(shard, &at);
    }
}

fn take_run(shard: &mut Shard<'_>, from: usize, most: usize) {
    let mut left = most;
    while left > 0 {
        let (at, _) = tree(shard).seek_weight(shard, from as u64);
        let mut taken = Vec::new();
        left -= match tree(shard).remove_run(shard, &at, left, |item| taken.push(item)) {
            0 => break,
            some => some,
        };
        taken.into_iter().for_each(|item| shard.free(Ptr::from_raw(item.second)));
    }
}

fn change_list(shard: &mut Shard<'_>, queue: Queue, plan: &Plan) -> Result<(), Full> {
    let root = shard.root(LIST);
    let old = List::from_word(shard.word(root));
    match run_list(shard, queue, old, plan) {
        Ok(new) => {
            shard.set(root, new.word());
            Ok(())
        }
        Err(list::Error::Full(full)) => Err(full),
        Err(list::Error::Damaged(damage)) => panic!("{damage}"),
    }
}

fn run_list(
    shard: &mut Shard<'_>,
    queue: Queue,
    list: List,
    plan: &Plan,
) -> Result<List, list::Error> {
    let limits = Limits::new(2048, 100);
    match *plan {
        Plan::Push { side, count, len, seed } => (0..count as u64).try_fold(list, |list, n| {
            let element = bytes(seed + n, len);
            list.push(shard, side, packed::Item::Bytes(&element), limits)
        }),
        Plan::Pop { side, count } => {
            (0..count).try_fold(list, |list, _| list.pop(shard, queue, side, true, |_, _| {}))
        }
        Plan::Trim { side, count } => list.trim(shard, queue, side, count as u64),
        Plan::Change { at, len, seed, insert } => {
            let element = bytes(seed, len);
            let item = packed::Item::Bytes(&element);
            if insert {
                return list.insert(shard, at as u64, item, limits);
            }
            list.set(shard, queue, at as u64, item, limits).map(|(list, _)| list)
        }
        Plan::Thin(from) => {
            let mut number = 0;
            list.sift(shard, queue, from, limits, |_, _| {
                number += 1;
                if number % 2 == 1 { Sift::Drop } else { Sift::Keep }
            })
        }
        Plan::MoveNode(at) => Ok(list.relocate(shard, at)?.0.unwrap_or(list)),
        Plan::DropList => {
            list.release(shard, queue, OWNER_LIST)?;
            Ok(List::EMPTY)
        }
        _ => Ok(list),
    }
}

fn read_list(shard: &Shard<'_>, reachable: &mut Vec<Ptr>) -> Result<Vec<Vec<u8>>, String> {
    let list = List::from_word(shard.word(shard.root(LIST)));
    list.check(shard).map_err(|damage| damage.to_string())?;
    list.blocks(shard, |block| reachable.push(block));
    let mut elements = Vec::new();
    let visit = |element: Element<'_>| {
        elements.push(match element {
            Element::Item(packed::Item::Bytes(bytes)) => bytes.to_vec(),
            Element::Item(packed::Item::Int(int)) => int.to_string().into_bytes(),
            Element::Blob(blob) => blob.to_vec(shard),
        });
        true
    };
    list.visit(shard, 0, Side::Head, true, visit).map_err(|damage| damage.to_string())?;
    Ok(elements)
}

fn replace(
    shard: &mut Shard<'_>,
    blob: usize,
    change: impl FnOnce(&mut Shard<'_>, Blob) -> Result<Blob, Full>,
) -> Result<(), Full> {
    let root = shard.root(FIRST_BLOB + blob);
    let old = Blob::from_word(shard.word(root));
    let new = change(shard, old)?;
    if new != old {
        shard.set(root, new.word());
    }
    Ok(())
}

fn create_detached(shard: &mut Shard<'_>, content: &[u8]) -> Result<Blob, Full> {
    let mut reservation = Reservation::new(content.len() as u64);
    while !reservation.reserve(shard, 2)? {}
    let blob = reservation.fill(|at, room| {
        room.copy_from_slice(&content[at as usize..at as usize + room.len()]);
    })?;
    reservation.adopt(shard);
    Ok(blob)
}

/// The structures in a pool of at most this many bytes.
struct Structures {
    limit: usize,
}

const ROOMY: Structures = Structures { limit: 4 << 20 };
const TIGHT: Structures = Structures { limit: 3 << 19 };

impl Subject for Structures {
    type State = State;
    type Plan = Plan;
    type Store = Heap;

    fn reserve(&self) -> usize {
        self.limit
    }

    fn empty(&self) -> State {
        State::default()
    }

    fn open(&self, region: Region) -> Result<Heap, String> {
        pool::open(region)
    }

    fn read(&self, heap: &mut Heap) -> Result<State, String> {
        let (state, reached) = read(&heap.lock(0))?;
        pool::check_reached(heap, reached)?;
        Ok(state)
    }

    fn plan(&self, state: &State, random: &mut fastrand::Rng) -> (Plan, State) {
        let some_keys = |random: &mut fastrand::Rng, count: usize| {
            let count = 1 + random.usize(..count);
            (0..count).map(|_| random.u64(..2000)).collect::<Vec<_>>()
        };
        let blob = random.usize(..BLOBS);
        let seed = random.u64(..);
        let room = 200_000usize.saturating_sub(state.blobs[blob].len()).max(1);
        let most = [50, 5000, 70_000][random.usize(..3)];
        let len = 1 + random.usize(..most.min(room));
        let (items, elements) = (state.items.len(), state.list.len());
        let side = if random.bool() { Side::Head } else { Side::Tail };
        let element = [20, 200, 3000, 70_000][random.usize(..100) / 30];
        let few_keys = state.keys.len() < 450 && random.bool();
        let plan = match random.u32(..44) {
            _ if few_keys => {
                Plan::Put { keys: (0..150).map(|_| random.u64(..2000)).collect(), value: seed }
            }
            0..7 => Plan::Put { keys: some_keys(random, 60), value: seed },
            7..10 => Plan::Remove(some_keys(random, 60)),
            10 if random.u32(..6) == 0 => Plan::RemoveAll,
            10 | 11 => Plan::Defragment(random.u64(..)),
            12 | 13 => Plan::Create { blob, len, seed, detached: random.bool() },
            14 | 15 => Plan::Append { blob, len, seed },
            16 | 17 => Plan::SetRange { blob, at: random.usize(..room), len, seed },
            18 => Plan::Drop(blob),
            19 | 20 => Plan::Reclaim(1 + random.usize(..30)),
            21 if items > 300 && random.u32(..3) == 0 => Plan::TakeAll,
            21 | 22 => Plan::Take(some_keys(random, 120)),
            23 => Plan::TakeRun { from: random.usize(..=items), most: random.usize(..150) },
            24 => Plan::Relocate(random.u64(..=items as u64)),
            25 if elements > 100 && random.bool() => Plan::DropList,
            25 => Plan::Thin(side),
            26..29 => Plan::Pop { side, count: random.usize(..60) },
            29 => Plan::Trim { side, count: random.usize(..=elements) },
            30 => Plan::MoveNode(random.u64(..=elements as u64)),
            31..33 if elements > 0 => {
                let (at, insert) = (random.usize(..elements), random.bool());
                Plan::Change { at, len: random.usize(..element), seed, insert }
            }
            31..38 => {
                let count = if element > 1000 { 2 } else { 1 + random.usize(..80) };
                Plan::Push { side, count, len: random.usize(..element), seed: seed >> 1 }
            }
            _ => Plan::Add { keys: some_keys(random, 120), value: seed },
        };
        let mut after = state.clone();
        apply(&mut after, &plan);
        (plan, after)
    }

    fn close(&self, heap: &mut Heap) -> Result<(), String> {
        heap.close().map_err(|error| error.to_string())
    }

    fn run(&self, heap: &mut Heap, plan: &Plan) -> Result<bool, String> {
        transaction(heap, plan)
    }
}

/// `false` if the heap was full.
fn transaction(heap: &Heap, plan: &Plan) -> Result<bool, String> {
    let mut shard = heap.lock(0);
    let done =
        run(&mut shard, plan).map_err(|Full| CommitError::Full).and_then(|()| shard.commit());
    match done {
        Ok(()) => Ok(true),
        Err(CommitError::Full) => {
            shard.rollback();
            Ok(false)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The state, and every block that is reachable; checks all that the structures can check of themselves.
fn read(shard: &Shard<'_>) -> Result<(State, Vec<Ptr>), String> {
    let mut state = State::default();
    let mut reachable = Vec::new();
    let mut entries = Vec::new();
    let rehash = |entry| hash(shard.word(entry));
    let index = Index::at(shard.root(INDEX));
    let visit = |part| match part {
        index::Part::Block(block) => reachable.push(block),
        index::Part::Entry(entry) => entries.push(entry),
    };
    index.check(shard, rehash, visit).map_err(|damage| damage.to_string())?;
    state.keys.extend(entries.iter().map(|&at| (shard.word(at), shard.word(at.add(8)))));
    reachable.extend(entries);
    let visit = |owner, part| match part {
        Part::Owned(Owned::Item(item)) if owner == OWNER_LIST => {
            List::item_blocks(shard, item, |block| reachable.push(block));
        }
        Part::Block(block) | Part::Owned(Owned::Entry(block)) => reachable.push(block),
        Part::Owned(Owned::Item(item)) => reachable.push(Ptr::from_raw(item.second)),
    };
    let queue = Queue::at(shard.root(QUEUE));
    queue.check(shard, |_, entry| rehash(entry), visit).map_err(|damage| damage.to_string())?;
    let rises = |a: Item, b: Item| a.first < b.first;
    let visit = |part| match part {
        tree::Part::Block(block) => reachable.push(block),
        tree::Part::Item(item) => {
            let entry = Ptr::from_raw(item.second);
            state.items.insert(shard.word(entry), shard.word(entry.add(8)));
            reachable.push(entry);
        }
    };
    tree(shard).check(shard, rises, visit).map_err(|damage| damage.to_string())?;
    state.list = read_list(shard, &mut reachable)?;
    for number in 0..BLOBS {
        let blob = Blob::from_word(shard.word(shard.root(FIRST_BLOB + number)));
        blob.check(shard).map_err(|damage| damage.to_string())?;
        blob.blocks(shard, |block| reachable.push(block));
        state.blobs[number] = blob.to_vec(shard);
    }
    Ok((state, reachable))
}

fn check(seed: u64, crash: Crash) {
    let effort = Effort { transactions: 24, images: 4, depth: 1, ..Effort::new(crash, seed) };
    match explore(&ROOMY, effort) {
        Ok(counts) => {
            println!("seed {seed} {crash:?}: {counts:?}");
            assert!(counts.images > 200, "{counts:?}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

/// Two seeds, or those that are asked for: `CRASH_SEEDS=100..120 cargo test -p perdura-structures --test crash`.
fn seeds() -> std::ops::Range<u64> {
    let asked = std::env::var("CRASH_SEEDS").unwrap_or_else(|_| "0..2".into());
    let (from, to) = asked.split_once("..").expect("CRASH_SEEDS=FROM..TO");
    let number = |text: &str| text.parse().expect("CRASH_SEEDS=FROM..TO");
    number(from)..number(to)
}

#[test]
fn a_crash_leaves_each_structure_whole_when_words_arrive_in_any_order() {
    seeds().for_each(|seed| check(seed, Crash::Strict));
}

#[test]
fn a_crash_leaves_each_structure_whole_when_lines_arrive_in_store_order() {
    seeds().for_each(|seed| check(seed, Crash::X86));
}

#[test]
fn a_crash_leaves_each_structure_whole_in_a_full_pool() {
    let effort = Effort { transactions: 40, images: 4, depth: 1, ..Effort::new(Crash::X86, 7) };
    let counts = explore(&TIGHT, effort).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{counts:?}");
    assert!(counts.refused > 3, "{counts:?}");
}
