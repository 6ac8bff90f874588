//! Structures on a simulated medium, crashed everywhere: each transaction is whole or absent, every checksum
//! holds, and what is allocated is what is reachable, the free queue included.

use std::collections::BTreeMap;

use heap::{CommitError, CreateOptions, Full, Geometry, Heap, Ptr, Shard, View};
use pmem::Region;
use sim::{Crash, Effort, Subject, explore};
use structures::blob::{Blob, Reservation};
use structures::index::{Index, Part};
use structures::reclaim::Queue;

const BLOBS: usize = 4;
const QUEUE: usize = 0;
const INDEX: usize = 1;
const FIRST_BLOB: usize = 2;

/// What the store holds: keys with values, and some byte strings.
#[derive(Clone, Default, PartialEq)]
struct State {
    keys: BTreeMap<u64, u64>,
    blobs: [Vec<u8>; BLOBS],
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sum: u64 =
            self.keys.iter().map(|(key, value)| key ^ value << 32).fold(0, u64::wrapping_add);
        write!(f, "{} keys ({sum:x})", self.keys.len())?;
        let blobs = self.blobs.iter().map(|blob| (blob.len(), crc32c::crc32c(blob)));
        f.debug_list().entries(blobs).finish()
    }
}

/// One transaction.
#[derive(Debug)]
enum Plan {
    Put { keys: Vec<u64>, value: u64 },
    Remove(Vec<u64>),
    RemoveAll,
    Defragment(u64),
    Create { blob: usize, len: usize, seed: u64, detached: bool },
    Append { blob: usize, len: usize, seed: u64 },
    SetRange { blob: usize, at: usize, len: usize, seed: u64 },
    Drop(usize),
    Reclaim(usize),
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
        Plan::Defragment(_) | Plan::Reclaim(_) => {}
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
            let free_entry = |shard: &mut Shard<'_>, _, entry| {
                shard.free(entry);
                Ok(1)
            };
            queue.step(shard, budget, free_entry).map(|_| ())
        }
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
        if !Heap::is_blank(&region) {
            let opened = Heap::open(region, [0; 16]);
            return opened.map(|(heap, _)| heap).map_err(|error| error.to_string());
        }
        let geometry = Geometry { shards: 1, ring_parts: 4, ring_part: 4096, zone_spans: 16 };
        let options = CreateOptions { geometry, ..CreateOptions::default() };
        Heap::create(region, &options).map_err(|error| error.to_string())
    }

    fn read(&self, heap: &mut Heap) -> Result<State, String> {
        let (state, mut reachable) = read(&heap.lock(0))?;
        reachable.sort();
        let allocated = heap.allocated().map_err(|error| error.to_string())?;
        let allocated: Vec<Ptr> = allocated.into_iter().map(|block| block.ptr).collect();
        match (reachable == allocated, heap.damaged()) {
            (true, 0) => Ok(state),
            (true, damaged) => Err(format!("{damaged} references to nothing")),
            (false, _) => {
                Err(format!("{} blocks allocated, {} reachable", allocated.len(), reachable.len()))
            }
        }
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
        let few_keys = state.keys.len() < 450 && random.bool();
        let plan = match random.u32(..20) {
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
            _ => Plan::Reclaim(1 + random.usize(..30)),
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
        Part::Block(block) => reachable.push(block),
        Part::Entry(entry) => entries.push(entry),
    };
    index.check(shard, rehash, visit).map_err(|damage| damage.to_string())?;
    state.keys.extend(entries.iter().map(|&at| (shard.word(at), shard.word(at.add(8)))));
    reachable.extend(entries);
    let visit = |_, part| match part {
        Part::Block(block) | Part::Entry(block) => reachable.push(block),
    };
    let queue = Queue::at(shard.root(QUEUE));
    queue.check(shard, |_, entry| rehash(entry), visit).map_err(|damage| damage.to_string())?;
    for number in 0..BLOBS {
        let blob = Blob::from_word(shard.word(shard.root(FIRST_BLOB + number)));
        blob.check(shard).map_err(|damage| damage.to_string())?;
        blob.blocks(shard, |block| reachable.push(block));
        state.blobs[number] = blob.to_vec(shard);
    }
    Ok((state, reachable))
}

fn check(seed: u64, crash: Crash) {
    let effort = Effort { transactions: 16, images: 4, depth: 1, ..Effort::new(crash, seed) };
    match explore(&ROOMY, effort) {
        Ok(counts) => {
            println!("seed {seed} {crash:?}: {counts:?}");
            assert!(counts.images > 200, "{counts:?}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_crash_leaves_each_structure_whole_when_words_arrive_in_any_order() {
    (0..2).for_each(|seed| check(seed, Crash::Strict));
}

#[test]
fn a_crash_leaves_each_structure_whole_when_lines_arrive_in_store_order() {
    (0..2).for_each(|seed| check(seed, Crash::X86));
}

#[test]
fn a_crash_leaves_each_structure_whole_in_a_full_pool() {
    let effort = Effort { transactions: 40, images: 4, depth: 1, ..Effort::new(Crash::X86, 7) };
    let counts = explore(&TIGHT, effort).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{counts:?}");
    assert!(counts.refused > 3, "{counts:?}");
}

#[test]
#[ignore = "takes minutes"]
fn a_longer_search_finds_nothing() {
    for seed in 100..120 {
        for crash in [Crash::Strict, Crash::X86] {
            let effort = Effort { transactions: 40, images: 8, ..Effort::new(crash, seed) };
            let counts = explore(&ROOMY, effort).unwrap_or_else(|failure| panic!("{failure}"));
            println!("seed {seed} {crash:?}: {counts:?}");
        }
    }
}
