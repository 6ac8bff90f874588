//! The entries of a stream on a simulated medium, crashed everywhere: each transaction is whole or
//! absent, and the allocated blocks are the reachable ones, including the free queue.

use crate::pool;
use std::collections::BTreeMap;

use heap::{CommitError, Full, Heap, Ptr, Shard, View};
use pmem::Region;
use sim::{Crash, Effort, Subject, explore};
use structures::listpack::Item;
use structures::reclaim::{Owned, Part, Queue};
use structures::stream::{self, Bound, Entry, Error, Id, Limits, Owners, Stream, Trim};

const QUEUE: usize = 0;
const STREAM: usize = 1;
const OWNERS: Owners = Owners { nodes: 1, groups: 2, consumers: 3, pending: 4, nothing: 5 };

/// The length of each entry's value, by its ID, and the last ID.
#[derive(Clone, Default, PartialEq)]
struct State {
    entries: BTreeMap<u64, usize>,
    last: u64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let first = self.entries.first_key_value();
        write!(f, "{} entries from {first:?} to {}", self.entries.len(), self.last)
    }
}

/// One transaction.
#[derive(Debug)]
enum Plan {
    Append(Vec<usize>),
    Delete(Vec<u64>),
    Len(u64),
    Least(u64),
    Drop,
    Relocate(u64),
    Reclaim(usize),
}

fn apply(state: &mut State, plan: &Plan) {
    let State { entries, last } = state;
    match plan {
        Plan::Append(lens) => {
            for &len in lens {
                *last += 1;
                entries.insert(*last, len);
            }
        }
        Plan::Delete(ids) => ids.iter().for_each(|id| _ = entries.remove(id)),
        Plan::Len(most) => {
            while entries.len() as u64 > *most {
                entries.pop_first();
            }
        }
        Plan::Least(least) => entries.retain(|id, _| id >= least),
        Plan::Drop => *state = State::default(),
        Plan::Relocate(_) | Plan::Reclaim(_) => {}
    }
}

const fn id(number: u64) -> Id {
    Id { ms: number, seq: 0 }
}

fn value(number: u64, len: usize) -> Vec<u8> {
    vec![number as u8 | 1; len]
}

/// Returns the stream; creates it on first use.
fn open(shard: &mut Shard<'_>) -> Result<Stream, Error> {
    let root = shard.root(STREAM);
    if shard.word(root) == 0 {
        let stream = Stream::create(shard)?;
        shard.set(root, stream.word());
    }
    Ok(Stream::open(shard, shard.word(root))?)
}

fn run(shard: &mut Shard<'_>, plan: &Plan) -> Result<(), Error> {
    let queue = Queue::at(shard.root(QUEUE));
    if let Plan::Reclaim(budget) = plan {
        let free = |shard: &mut Shard<'_>, owner, owned| match owned {
            Owned::Item(item) => Stream::free_item(shard, queue, OWNERS, owner, item),
            Owned::Entry(_) => Ok(0),
        };
        return Ok(queue.step(shard, *budget, free).map(drop)?);
    }
    let root = shard.root(STREAM);
    let mut stream = open(shard)?;
    let trim = |bound| Trim { bound, whole_nodes: false, most: 0 };
    match plan {
        Plan::Append(lens) => {
            for &len in lens {
                let number = stream.head.last.ms + 1;
                let pairs = [(Item::Bytes(b"field"), Item::Bytes(&value(number, len)))];
                stream.append(shard, id(number), &pairs, Limits::new(1024, 3))?;
            }
        }
        Plan::Delete(ids) => {
            let ids: Vec<Id> = ids.iter().map(|&number| id(number)).collect();
            stream.delete(shard, queue, &ids, true)?;
        }
        Plan::Len(most) => {
            stream.trim(shard, queue, OWNERS.nodes, trim(Bound::Len(*most)), true)?;
        }
        Plan::Least(least) => {
            stream.trim(shard, queue, OWNERS.nodes, trim(Bound::Id(id(*least))), true)?;
        }
        Plan::Relocate(number) => {
            let (word, _) = stream.relocate(shard, *number)?;
            shard.set(root, word);
            return Ok(());
        }
        Plan::Drop => {
            let word = shard.word(root);
            shard.set(root, 0);
            return Ok(Stream::release(shard, queue, word, OWNERS)?);
        }
        Plan::Reclaim(_) => {}
    }
    stream.save(shard);
    Ok(())
}

/// Returns the state and every reachable block; runs all checks that a stream has.
fn read(shard: &Shard<'_>) -> Result<(State, Vec<Ptr>), String> {
    let (mut state, mut reachable, mut first) = (State::default(), Vec::new(), None);
    let visit = |owner, part| match part {
        Part::Owned(Owned::Item(item)) => {
            Stream::item_blocks(shard, OWNERS, owner, item, |block| reachable.push(block));
        }
        Part::Block(block) | Part::Owned(Owned::Entry(block)) => reachable.push(block),
    };
    let queue = Queue::at(shard.root(QUEUE));
    queue.check(shard, |_, _| 0, visit).map_err(|damage| damage.to_string())?;
    let word = shard.word(shard.root(STREAM));
    if word == 0 {
        return Ok((state, reachable));
    }
    Stream::salvage_walk(shard, word, |found| {
        match found {
            stream::WalkItem::Block(at, _) => reachable.push(at),
            stream::WalkItem::Damage(damage) => first = first.take().or(Some(damage)),
        }
        true
    });
    if let Some(damage) = first {
        return Err(damage.to_string());
    }
    let stream = Stream::open(shard, word).map_err(|damage| damage.to_string())?;
    state.last = stream.head.last.ms;
    let mut wrong = None;
    let show = |entry: &Entry<'_>| {
        let number = entry.id.ms;
        let len = entry.pairs().next().map_or(0, |(_, found)| match found {
            Item::Bytes(bytes) => {
                if *bytes != value(number, bytes.len()) {
                    wrong = Some(format!("entry {number} has another value"));
                }
                bytes.len()
            }
            Item::Int(_) => 0,
        });
        state.entries.insert(number, len);
        true
    };
    let shown = stream.visit(shard, Id::MIN..=Id::MAX, true, show);
    shown.map_err(|damage| damage.to_string())?;
    match wrong {
        Some(wrong) => Err(wrong),
        None => Ok((state, reachable)),
    }
}

struct Entries;

impl Subject for Entries {
    type State = State;
    type Plan = Plan;
    type Store = Heap;

    fn reserve(&self) -> usize {
        3 << 20
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
        let len = |random: &mut fastrand::Rng| match random.u8(..80) {
            0 => 70_000,
            1..20 => random.usize(100..900),
            _ => random.usize(2..30),
        };
        let held: Vec<u64> = state.entries.keys().copied().collect();
        let some = |random: &mut fastrand::Rng| -> Vec<u64> {
            held.iter().copied().filter(|_| random.u8(..6) == 0).collect()
        };
        let plan = match random.u8(..20) {
            0 if random.u8(..3) == 0 => Plan::Drop,
            1..4 => Plan::Relocate(random.u64(..60)),
            4..6 => Plan::Reclaim(1 + random.usize(..20)),
            6..8 => Plan::Delete(some(random)),
            8 => Plan::Len(random.u64(..=held.len() as u64)),
            9 => Plan::Least(random.u64(..=state.last + 1)),
            _ => {
                let most = [3, 60][random.usize(..2)];
                Plan::Append((0..1 + random.usize(..most)).map(|_| len(random)).collect())
            }
        };
        let mut after = state.clone();
        apply(&mut after, &plan);
        (plan, after)
    }

    fn close(&self, heap: &mut Heap) -> Result<(), String> {
        heap.close().map_err(|error| error.to_string())
    }

    fn run(&self, heap: &mut Heap, plan: &Plan) -> Result<bool, String> {
        let mut shard = heap.lock(0);
        let done = match run(&mut shard, plan) {
            Ok(()) => shard.commit(),
            Err(Error::Full(Full)) => Err(CommitError::Full),
            Err(Error::Damaged(damage)) => return Err(damage.to_string()),
        };
        match done {
            Ok(()) => Ok(true),
            Err(CommitError::Full) => {
                shard.rollback();
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

#[test]
fn a_crash_leaves_entries_whole() {
    for (seed, crash) in [(0, Crash::Strict), (1, Crash::Strict), (2, Crash::X86), (3, Crash::X86)]
    {
        let effort = Effort { transactions: 40, images: 4, depth: 1, ..Effort::new(crash, seed) };
        let counts = explore(&Entries, effort).unwrap_or_else(|failure| panic!("{failure}"));
        println!("seed {seed} {crash:?}: {counts:?}");
        assert!(counts.images > 200, "{counts:?}");
    }
}
