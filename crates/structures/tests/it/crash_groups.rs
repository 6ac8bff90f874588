//! Consumer groups on a simulated medium, crashed everywhere: each transaction is whole or absent,
//! both trees of a pending entry lead to it or neither does, and the allocated blocks are the
//! reachable ones, including the free queue.

use crate::pool;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use heap::{CommitError, Full, Heap, Ptr, Shard, View};
use pmem::Region;
use sim::{Crash, Effort, Subject, explore};
use structures::reclaim::{Owned, Part, Queue};
use structures::stream::{self, Consumer, Error, Group, Id, Owners, Pending, Stream};

const QUEUE: usize = 0;
const STREAM: usize = 1;
const OWNERS: Owners = Owners { nodes: 1, groups: 2, consumers: 3, pending: 4, nothing: 5 };
const GROUPS: u8 = 3;
const CONSUMERS: u8 = 4;

/// When an entry was delivered, and to whom.
type Delivery = (u64, u8);

/// A group's consumers, and its pending entries.
#[derive(Clone, Debug, Default, PartialEq)]
struct Held {
    last: u64,
    /// When each was last seen, and last active.
    consumers: BTreeMap<u8, (u64, Option<u64>)>,
    pending: BTreeMap<u64, Delivery>,
}

#[derive(Clone, Default, PartialEq)]
struct State(BTreeMap<u8, Held>);

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reported = |held: &Held| (held.last, held.consumers.clone(), held.pending.len());
        f.debug_map().entries(self.0.iter().map(|(name, held)| (name, reported(held)))).finish()
    }
}

/// One transaction.
#[derive(Debug)]
enum Plan {
    Create(u8),
    Deliver { group: u8, consumer: u8, ids: Vec<u64>, now: u64 },
    Acknowledge { group: u8, ids: Vec<u64> },
    DropConsumer(u8, u8),
    DropGroup(u8),
    DropAll,
    Relocate(u64),
    Reclaim(usize),
}

fn apply(state: &mut State, plan: &Plan) {
    let State(groups) = state;
    match plan {
        Plan::Create(group) => drop(groups.entry(*group).or_default()),
        Plan::Deliver { group, consumer, ids, now } => {
            let held = groups.entry(*group).or_default();
            held.last = held.last.max(*now);
            let before = held.consumers.get(consumer).and_then(|(_, active)| *active);
            let active = if ids.is_empty() { before } else { Some(*now) };
            held.consumers.insert(*consumer, (*now, active));
            held.pending.extend(ids.iter().map(|id| (*id, (*now, *consumer))));
        }
        Plan::Acknowledge { group, ids } => {
            if let Some(held) = groups.get_mut(group) {
                held.pending.retain(|id, _| !ids.contains(id));
            }
        }
        Plan::DropConsumer(group, consumer) => {
            if let Some(held) = groups.get_mut(group) {
                held.consumers.remove(consumer);
                held.pending.retain(|_, (_, of)| of != consumer);
            }
        }
        Plan::DropGroup(group) => drop(groups.remove(group)),
        Plan::DropAll => groups.clear(),
        Plan::Relocate(_) | Plan::Reclaim(_) => {}
    }
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

/// A name longer than the prefix by which the tree sorts first.
fn name(number: u8) -> String {
    format!("consumer {number}")
}

fn group(shard: &mut Shard<'_>, stream: &Stream, number: u8) -> Result<Group, Error> {
    let name = name(number);
    match stream.group(shard, name.as_bytes())? {
        Some(group) => Ok(group),
        None => stream.create_group(shard, name.as_bytes(), Id::MIN, Some(0)),
    }
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
    let mut stream = open(shard)?;
    match plan {
        Plan::Create(number) => group(shard, &stream, *number).map(drop),
        Plan::Deliver { group: number, consumer, ids, now } => {
            let mut group = group(shard, &stream, *number)?;
            group.last.ms = group.last.ms.max(*now);
            group.save(shard);
            deliver(shard, &group, *consumer, ids, *now)
        }
        Plan::Acknowledge { group, ids } => {
            let Some(group) = stream.group(shard, name(*group).as_bytes())? else { return Ok(()) };
            ids.iter().try_for_each(|id| match group.pending(shard, Id { ms: *id, seq: 0 })? {
                Some(pending) => group.acknowledge(shard, &pending),
                None => Ok(()),
            })
        }
        Plan::DropConsumer(group, consumer) => {
            let Some(group) = stream.group(shard, name(*group).as_bytes())? else { return Ok(()) };
            let consumer = group.consumer(shard, name(*consumer).as_bytes())?;
            let Some(consumer) = consumer else { return Ok(()) };
            group.drop_consumer(shard, queue, OWNERS, &consumer).map(drop)
        }
        Plan::DropGroup(group) => {
            stream.drop_group(shard, queue, OWNERS, name(*group).as_bytes()).map(drop)
        }
        Plan::DropAll => {
            Stream::release(shard, queue, stream.word(), OWNERS)?;
            shard.set(shard.root(STREAM), 0);
            Ok(())
        }
        Plan::Relocate(place) => {
            let (word, _) = stream.relocate(shard, *place)?;
            shard.set(shard.root(STREAM), word);
            Ok(())
        }
        Plan::Reclaim(_) => Ok(()),
    }
}

fn deliver(
    shard: &mut Shard<'_>,
    group: &Group,
    consumer: u8,
    ids: &[u64],
    now: u64,
) -> Result<(), Error> {
    let name = name(consumer);
    let consumer = match group.consumer(shard, name.as_bytes())? {
        Some(mut consumer) => {
            consumer.see(shard, now, !ids.is_empty());
            consumer
        }
        None => {
            let active = (!ids.is_empty()).then_some(now);
            group.create_consumer(shard, name.as_bytes(), now, active)?
        }
    };
    for id in ids {
        let id = Id { ms: *id, seq: 0 };
        match group.pending(shard, id)? {
            Some(pending) => group.redeliver(
                shard,
                &pending,
                &consumer,
                structures::stream::Delivery { at_ms: now, count: 2 },
            )?,
            None => group.deliver(
                shard,
                &consumer,
                id,
                structures::stream::Delivery { at_ms: now, count: 1 },
            )?,
        }
    }
    Ok(())
}

fn number(name: &[u8]) -> u8 {
    name.last().map_or(0, |digit| digit - b'0')
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
    let mut groups: Vec<Group> = Vec::new();
    let all = stream.groups(shard, |group| {
        groups.push(group);
        ControlFlow::<()>::Continue(())
    });
    all.map_err(|damage| damage.to_string())?;
    for group in groups {
        let name = group.name(shard).map_err(|damage| damage.to_string())?;
        let held = read_group(shard, &group).map_err(|damage| damage.to_string())?;
        state.0.insert(number(&name), held);
    }
    Ok((state, reachable))
}

fn read_group(shard: &Shard<'_>, group: &Group) -> Result<Held, structures::Damaged> {
    let mut held = Held { last: group.last.ms, ..Held::default() };
    let mut consumers: Vec<Consumer> = Vec::new();
    group.consumers(shard, |consumer| {
        consumers.push(consumer);
        ControlFlow::<()>::Continue(())
    })?;
    for consumer in consumers {
        let name = number(&consumer.name(shard)?);
        held.consumers.insert(name, (consumer.seen, consumer.active));
        consumer.visit_pending(shard, Id::MIN, |pending: &Pending| {
            held.pending.insert(pending.id.ms, (pending.delivered, name));
            true
        })?;
    }
    Ok(held)
}

struct Groups;

impl Subject for Groups {
    type State = State;
    type Plan = Plan;
    type Store = Heap;

    fn reserve(&self) -> usize {
        2 << 20
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
        let (group, consumer) = (random.u8(..GROUPS), random.u8(..CONSUMERS));
        let some = |random: &mut fastrand::Rng, most: usize| -> Vec<u64> {
            (0..1 + random.usize(..most)).map(|_| random.u64(..500)).collect()
        };
        let plan = match random.u8(..20) {
            0 => Plan::Create(group),
            1 => Plan::DropConsumer(group, consumer),
            2 => Plan::DropGroup(group),
            3 if random.u8(..3) == 0 => Plan::DropAll,
            3..6 => Plan::Relocate((1 + random.u64(..3)) << 36 | random.u64(..200)),
            6..9 => Plan::Reclaim(1 + random.usize(..20)),
            9..12 => Plan::Acknowledge { group, ids: some(random, 60) },
            _ => {
                let most = [3, 90][random.usize(..2)];
                let ids = some(random, most);
                Plan::Deliver { group, consumer, ids, now: random.u64(1..1000) }
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
fn a_crash_leaves_groups_whole() {
    for (seed, crash) in [(0, Crash::Strict), (1, Crash::Strict), (2, Crash::X86), (3, Crash::X86)]
    {
        let effort = Effort { transactions: 30, images: 4, depth: 1, ..Effort::new(crash, seed) };
        let counts = explore(&Groups, effort).unwrap_or_else(|failure| panic!("{failure}"));
        println!("seed {seed} {crash:?}: {counts:?}");
        assert!(counts.images > 200, "{counts:?}");
    }
}
