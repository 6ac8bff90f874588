//! The heap as a subject of crashes: random transactions over a few slots and words of some shards.
//!
//! Each shard has slots, which are roots that point to a block or to nothing, and plain root words.
//! A block begins with its length and a word, both logged when they change, and its requested
//! capacity. The state is the content of all of it. Whatever the state, the allocated blocks are
//! those that the slots point to, the counters agree, no damage was found, and what a pin holds is
//! unchanged.
//!
//! The pool is tiny, so that every ring wraps and retires often, and spans run out, are transferred
//! and are found again.

pub(crate) mod snapshot;

use heap::{Detached, Fresh, Geometry, Heap, Pin, Ptr, Savepoint, Shard, View};
use pmem::Region;
use sim::Subject;
use snapshot::{Taken, go_on_with_snapshots};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The number of slots of a shard; the roots after them are its words.
const SLOTS: usize = 10;
const WORDS: usize = 80;
/// Length, word and capacity, before a block's bytes.
const HEAD: usize = 24;
/// Requested capacities of blocks: four classes, among them one that is streamed, and a whole span.
const CAPACITIES: [usize; 5] = [40, 120, 500, 1500, 40_000];

/// The number of words whose record is longer than half a part of the ring, and not longer than the
/// whole part.
const MOST_OF_A_PART: std::ops::RangeInclusive<usize> = 20..=26;

/// The content of a block.
#[derive(Clone, PartialEq)]
pub(crate) struct Content {
    word: u64,
    capacity: usize,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = &self.bytes[..self.bytes.len().min(4)];
        write!(f, "[{} {} of {} {start:x?}]", self.word, self.bytes.len(), self.capacity)
    }
}

/// The content of a shard.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contents {
    slots: Vec<Option<Content>>,
    words: Vec<u64>,
}

impl Contents {
    /// Describes the first differences, a line each.
    fn difference(&self, found: &Contents, whose: &str) -> String {
        let slots = self.slots.iter().zip(&found.slots).enumerate();
        let slots = slots
            .filter(|(_, (expected, found))| expected != found)
            .map(|(n, (expected, found))| format!("slot {n}: {expected:?}, found {found:?}"));
        let words = self.words.iter().zip(&found.words).enumerate();
        let words = words
            .filter(|(_, (expected, found))| expected != found)
            .map(|(n, (expected, found))| format!("word {n}: {expected}, found {found}"));
        slots.chain(words).take(6).map(|place| format!("\n{whose}, {place}")).collect()
    }
}

/// One step of a transaction, on one shard.
#[derive(Clone)]
pub(crate) enum Op {
    /// Stages `count` words from `first` on.
    Words { first: usize, count: usize, value: u64 },
    /// Puts a new block into a slot, and frees its old one; filled without the lock or under it.
    Put { slot: usize, content: Content, detached: bool },
    /// Extends a block within its capacity.
    Append { slot: usize, bytes: Vec<u8> },
    /// Changes a block's logged word.
    Touch { slot: usize, value: u64 },
    /// Frees a block.
    Delete { slot: usize },
    /// Does all this and rolls it back.
    RolledBack(Vec<Op>),
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Op::Words { first, count, value } => write!(f, "words {first}+{count} = {value}.."),
            Op::Put { slot, content, detached } => {
                let how = if *detached { "put, detached" } else { "put" };
                write!(f, "{how} {slot} = {content:?}")
            }
            Op::Append { slot, bytes } => write!(f, "append {} to {slot}", bytes.len()),
            Op::Touch { slot, value } => write!(f, "touch {slot} = {value}"),
            Op::Delete { slot } => write!(f, "delete {slot}"),
            Op::RolledBack(ops) => write!(f, "rolled back {ops:?}"),
        }
    }
}

impl Op {
    /// Returns the same step with nothing filled without the lock.
    pub(crate) fn under_lock(&self) -> Op {
        match self {
            Op::Put { slot, content, .. } => {
                Op::Put { slot: *slot, content: content.clone(), detached: false }
            }
            other => other.clone(),
        }
    }
}

/// One transaction.
#[derive(Debug)]
pub(crate) struct Plan {
    parts: Vec<(usize, Vec<Op>)>,
    other_thread: bool,
    /// Take a pin on this slot of the first shard, before; release older pins, after.
    pin: Option<usize>,
    unpin: bool,
    /// Retire the logs, as at rest, after.
    retire: bool,
    /// Give the space of free spans back, after.
    purge: bool,
    /// Take a snapshot, or read one more shard of the one that was taken, after.
    snapshot: bool,
}

impl Plan {
    /// Returns the transaction without its other thread: run by the thread that asks.
    #[allow(dead_code, reason = "not every test that draws plans needs it")]
    pub(crate) fn on_this_thread(self) -> Plan {
        Plan { other_thread: false, snapshot: false, ..self }
    }
}

/// A heap in use, with the pins that a test holds.
pub(crate) struct Open {
    pub(crate) heap: Arc<Heap>,
    pins: Vec<(Pin, Ptr, Vec<u8>)>,
    snapshots: Vec<Taken>,
}

/// The heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) geometry: Geometry,
    pub(crate) zones: u64,
    /// Many blocks are whole spans with few bytes in them, and transactions are longer.
    pub(crate) spacious: bool,
    /// Each record takes most of a part of the ring.
    pub(crate) long_records: bool,
    /// The space of free spans is sometimes given back.
    pub(crate) purges: bool,
}

impl Pool {
    /// Returns the usual kind, with rings of three parts of eight lines.
    pub(crate) fn of(shards: usize, zones: u64) -> Pool {
        let geometry = Geometry { shards, ring_parts: 3, ring_part: 512, zone_spans: 8 };
        Pool { geometry, zones, spacious: false, long_records: false, purges: false }
    }
}

impl Subject for Pool {
    type State = Vec<Contents>;
    type Plan = Plan;
    type Store = Open;

    fn reserve(&self) -> usize {
        let zone = self.geometry.zone_spans * 65536;
        // The part before the zones takes less than a zone.
        zone * (self.zones as usize + 1) - 1
    }

    fn empty(&self) -> Vec<Contents> {
        let empty = Contents { slots: vec![None; SLOTS], words: vec![0; WORDS] };
        vec![empty; self.geometry.shards]
    }

    fn open(&self, region: Region) -> Result<Open, String> {
        let heap = if Heap::is_blank(&region) {
            let options = heap::CreateOptions { geometry: self.geometry, ..Default::default() };
            Heap::create(region, &options).map_err(|error| error.to_string())?
        } else {
            Heap::open(region, [0; 16]).map_err(|error| error.to_string())?.0
        };
        Ok(Open { heap: Arc::new(heap), pins: Vec::new(), snapshots: Vec::new() })
    }

    fn read(&self, store: &mut Open) -> Result<Vec<Contents>, String> {
        let mut reachable = BTreeSet::new();
        let state = (0..store.heap.shards())
            .map(|shard| read_shard(&store.heap.lock(shard), &mut reachable))
            .collect::<Result<Vec<_>, _>>()?;
        let blocks = store.heap.allocated().map_err(|error| error.to_string())?;
        let allocated: BTreeSet<_> = blocks.iter().map(|block| (block.shard, block.ptr)).collect();
        if allocated != reachable {
            let (lost, wild) = (&allocated - &reachable, &reachable - &allocated);
            return Err(format!("allocated but not reachable {lost:?}; the other way {wild:?}"));
        }
        if store.heap.damaged() != 0 {
            return Err(format!("{} damaged references met", store.heap.damaged()));
        }
        Ok(state)
    }

    fn plan(&self, state: &Vec<Contents>, rng: &mut fastrand::Rng) -> (Plan, Vec<Contents>) {
        let mut after = state.clone();
        let mut shards: Vec<usize> = (0..state.len()).collect();
        rng.shuffle(&mut shards);
        shards.truncate(if rng.usize(..3) == 0 { rng.usize(1..=state.len()) } else { 1 });
        shards.sort_unstable();
        let parts = shards
            .into_iter()
            .map(|shard| {
                let state = &mut after[shard];
                if self.long_records {
                    return (shard, vec![many_words(state, rng, MOST_OF_A_PART)]);
                }
                if self.spacious && rng.usize(..4) == 0 {
                    return (shard, (0..8).map(|slot| put_whole(state, slot, rng)).collect());
                }
                let count = 1 + rng.usize(..if self.spacious { 7 } else { 3 });
                (shard, (0..count).map(|_| self.draw(state, rng)).collect())
            })
            .collect();
        let other_thread = rng.usize(..4) == 0;
        let drawn = rng.usize(..8);
        let plan = Plan {
            parts,
            other_thread,
            pin: (drawn == 0).then(|| rng.usize(..SLOTS)),
            unpin: rng.usize(..4) == 0,
            retire: drawn == 1,
            purge: self.purges && rng.usize(..3) == 0,
            snapshot: rng.usize(..4) == 0,
        };
        (plan, after)
    }

    fn difference(&self, found: &Vec<Contents>, allowed: &[Vec<Contents>]) -> String {
        let mut text = String::from("what was found is none of what may be:");
        for (n, state) in allowed.iter().enumerate() {
            let name = if n == 0 { "acknowledged" } else { "under way" };
            for (shard, (found, state)) in found.iter().zip(state).enumerate() {
                text += &state.difference(found, &format!("  {name}, shard {shard}"));
            }
        }
        text
    }

    fn close(&self, store: &mut Open) -> Result<(), String> {
        store.heap.close().map_err(|error| error.to_string())
    }

    fn run(&self, store: &mut Open, plan: &Plan) -> Result<bool, String> {
        let Open { heap, pins, .. } = store;
        if let Some(slot) = plan.pin {
            pin(heap, plan.parts[0].0, slot, pins);
        }
        // A thread that the scheduler does not know would wait in the kernel for one that the
        // scheduler keeps waiting.
        let done = if plan.other_thread && !pmem::is_scheduled() {
            std::thread::scope(|scope| scope.spawn(|| transact(heap, plan)).join())
                .map_err(|_| "the other thread panicked".to_owned())??
        } else {
            transact(heap, plan)?
        };
        for (pin, ptr, bytes) in pins.iter() {
            if heap.pinned(pin, *ptr, bytes.len()) != bytes {
                return Err(format!("pinned bytes at {ptr:?} changed"));
            }
        }
        if plan.unpin {
            pins.clear();
        }
        if plan.retire {
            heap.retire_logs();
        }
        if plan.purge {
            heap.purge();
        }
        if plan.snapshot {
            go_on_with_snapshots(store)?;
        }
        Ok(done)
    }
}

impl Pool {
    /// Draws a step that is possible in `state`, and changes `state` by it.
    pub(crate) fn draw(&self, state: &mut Contents, rng: &mut fastrand::Rng) -> Op {
        if !self.spacious || rng.bool() {
            return draw(state, rng, true);
        }
        let slot = rng.usize(..4);
        match (rng.usize(..8), &state.slots[slot]) {
            (0, _) => words(state, rng, WORDS),
            (1 | 2, Some(_)) => {
                state.slots[slot] = None;
                Op::Delete { slot }
            }
            _ => put_whole(state, slot, rng),
        }
    }
}

/// Draws a block of a whole span with few bytes in it. Several of them in one transaction need more
/// spans than are kept in reserve, so that the pool grows at the moment of need.
fn put_whole(state: &mut Contents, slot: usize, rng: &mut fastrand::Rng) -> Op {
    let capacity = CAPACITIES[CAPACITIES.len() - 1] - HEAD;
    let content = Content { word: rng.u64(..), capacity, bytes: filled(rng.usize(..20), rng) };
    state.slots[slot] = Some(content.clone());
    Op::Put { slot, content, detached: false }
}

/// Draws a step that is possible in `state`, and changes `state` by it.
fn draw(state: &mut Contents, rng: &mut fastrand::Rng, nested: bool) -> Op {
    // Some slots are used often, so that one transaction changes a block twice.
    let slots = if rng.bool() { 2 } else { SLOTS };
    let slot = rng.usize(..slots);
    match rng.usize(..if nested { 13 } else { 12 }) {
        0 | 1 => words(state, rng, 3),
        2 if rng.bool() => words(state, rng, WORDS),
        2..=5 => put(state, slot, rng),
        6 | 7 => match &mut state.slots[slot] {
            Some(content) if content.bytes.len() < content.capacity => {
                let len = rng.usize(1..=content.capacity - content.bytes.len());
                let bytes = filled(len.min(200), rng);
                content.bytes.extend_from_slice(&bytes);
                Op::Append { slot, bytes }
            }
            _ => put(state, slot, rng),
        },
        8 | 9 => match &mut state.slots[slot] {
            Some(content) => {
                content.word = rng.u64(..);
                Op::Touch { slot, value: content.word }
            }
            None => put(state, slot, rng),
        },
        12 => {
            let mut dropped = state.clone();
            Op::RolledBack(
                (0..1 + rng.usize(..3)).map(|_| draw(&mut dropped, rng, false)).collect(),
            )
        }
        _ => {
            state.slots[slot] = None;
            Op::Delete { slot }
        }
    }
}

fn words(state: &mut Contents, rng: &mut fastrand::Rng, most: usize) -> Op {
    many_words(state, rng, 1..=most)
}

fn many_words(
    state: &mut Contents,
    rng: &mut fastrand::Rng,
    count: std::ops::RangeInclusive<usize>,
) -> Op {
    let count = rng.usize(count);
    let first = rng.usize(..=WORDS - count);
    let value = rng.u64(..);
    for (n, word) in state.words[first..first + count].iter_mut().enumerate() {
        *word = value + n as u64;
    }
    Op::Words { first, count, value }
}

fn put(state: &mut Contents, slot: usize, rng: &mut fastrand::Rng) -> Op {
    let at = if rng.usize(..60) == 0 { 4 } else { rng.usize(..CAPACITIES.len() - 1) };
    let capacity = CAPACITIES[at] - HEAD;
    let len = if rng.bool() { capacity } else { rng.usize(..=capacity) };
    let content = Content { word: rng.u64(..), capacity, bytes: filled(len, rng) };
    state.slots[slot] = Some(content.clone());
    Op::Put { slot, content, detached: rng.usize(..4) == 0 }
}

/// Returns bytes that differ from those of any other call, as far as their number allows.
fn filled(len: usize, rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut fill = fastrand::Rng::with_seed(rng.u64(..));
    let mut bytes = vec![0; len];
    fill.fill(&mut bytes);
    bytes
}

fn read_shard(
    shard: &Shard<'_>,
    reachable: &mut BTreeSet<(usize, Ptr)>,
) -> Result<Contents, String> {
    read_contents(shard, shard.id(), |n| shard.root(n), reachable)
}

fn read_contents<V: View>(
    shard: &V,
    id: usize,
    root: impl Fn(usize) -> Ptr,
    reachable: &mut BTreeSet<(usize, Ptr)>,
) -> Result<Contents, String> {
    let words = (SLOTS..SLOTS + WORDS).map(|n| shard.word(root(n))).collect();
    let mut slots = Vec::with_capacity(SLOTS);
    for slot in 0..SLOTS {
        let block = Ptr::from_raw(shard.word(root(slot)));
        if block.is_null() {
            slots.push(None);
            continue;
        }
        if !reachable.insert((id, block)) {
            return Err(format!("{block:?} is reached twice"));
        }
        let [len, word, capacity] = [0, 8, 16].map(|at| shard.word(block.add(at)));
        if capacity as usize > CAPACITIES[CAPACITIES.len() - 1] || len > capacity {
            return Err(format!("slot {slot}: {len} bytes of {capacity} in {block:?}"));
        }
        let bytes = shard.bytes(block.add(HEAD as u64), len as usize).to_vec();
        slots.push(Some(Content { word, capacity: capacity as usize, bytes }));
    }
    Ok(Contents { slots, words })
}

/// Pins a slot's block and remembers the bytes that never change: those after its logged words.
fn pin(heap: &Heap, shard: usize, slot: usize, pins: &mut Vec<(Pin, Ptr, Vec<u8>)>) {
    let shard = heap.lock(shard);
    let block = Ptr::from_raw(shard.word(shard.root(slot)));
    if !block.is_null() {
        let (len, at) = (shard.word(block) as usize, block.add(HEAD as u64));
        let bytes = shard.bytes(at, len).to_vec();
        pins.push((shard.pin(), at, bytes));
    }
}

/// Runs a transaction; returns `false`, with nothing changed, if there was no space.
fn transact(heap: &Heap, plan: &Plan) -> Result<bool, String> {
    let Some(detached) = detach(heap, plan) else { return Ok(false) };
    let mut detached = detached.into_iter();
    let mut shards: Vec<Shard<'_>> = plan.parts.iter().map(|(id, _)| heap.lock(*id)).collect();
    for (shard, (_, ops)) in shards.iter_mut().zip(&plan.parts) {
        for op in ops {
            if !perform(shard, op, &mut detached)? {
                return Ok(false);
            }
        }
    }
    let committed = match shards.as_mut_slice() {
        [only] => only.commit(),
        many => heap.commit_all(many),
    };
    match committed {
        Ok(()) => Ok(true),
        Err(heap::CommitError::Full) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// Fills the blocks that are to be filled without the lock.
fn detach<'h>(heap: &'h Heap, plan: &Plan) -> Option<Vec<Detached<'h>>> {
    let mut blocks = Vec::new();
    for (id, ops) in &plan.parts {
        for op in ops {
            if let Op::Put { content, detached: true, .. } = op {
                blocks.push(detach_one(heap, *id, content)?);
            }
        }
    }
    Detached::persist(&blocks);
    Some(blocks)
}

/// Fills a block without the lock.
fn detach_one<'h>(heap: &'h Heap, shard: usize, content: &Content) -> Option<Detached<'h>> {
    let mut block = heap.lock(shard).reserve_detached(HEAD + content.capacity).ok()?;
    // In two pieces, as they arrive from a client: the second begins inside a line.
    let image = image(content);
    let (first, rest) = image.split_at(image.len() / 3);
    block.write(0, first);
    block.write(first.len(), rest);
    Some(block)
}

/// A value that is prepared for a slot of a shard.
#[allow(dead_code, reason = "not every test prepares values apart from their transaction")]
pub(crate) struct Prepared<'h> {
    pub(crate) op: Op,
    pub(crate) block: Detached<'h>,
}

#[allow(dead_code, reason = "not every test prepares values apart from their transaction")]
impl<'h> Prepared<'h> {
    /// Draws a value and writes it, but does not make it durable; `None` if there is no space.
    pub(crate) fn new(
        heap: &'h Heap,
        shard: usize,
        rng: &mut fastrand::Rng,
    ) -> Option<Prepared<'h>> {
        let slot = rng.usize(..SLOTS);
        // Few sizes, so that threads share spans.
        let sizes = if rng.usize(..20) == 0 { 4 } else { 3 };
        let capacity = [500, 1500, 1500, 40_000][rng.usize(..sizes)] - HEAD;
        let bytes = filled(if rng.bool() { capacity } else { rng.usize(..=capacity) }, rng);
        let content = Content { word: rng.u64(..), capacity, bytes };
        let block = detach_one(heap, shard, &content)?;
        Some(Prepared { op: Op::Put { slot, content, detached: true }, block })
    }
}

#[allow(dead_code, reason = "not every test prepares values apart from their transaction")]
impl Op {
    /// Updates the content of a shard for a put.
    pub(crate) fn put_into(&self, contents: &mut Contents) {
        if let Op::Put { slot, content, .. } = self {
            contents.slots[*slot] = Some(content.clone());
        }
    }
}

/// Returns a block's head and bytes.
fn image(content: &Content) -> Vec<u8> {
    let words = [content.bytes.len() as u64, content.word, content.capacity as u64];
    let mut image: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    image.extend_from_slice(&content.bytes);
    image
}

pub(crate) fn perform<'h>(
    shard: &mut Shard<'h>,
    op: &Op,
    detached: &mut impl Iterator<Item = Detached<'h>>,
) -> Result<bool, String> {
    match op {
        Op::Words { first, count, value } => {
            for n in 0..*count {
                shard.set(shard.root(SLOTS + first + n), value + n as u64);
            }
        }
        Op::Put { slot, content, detached: apart } => {
            let fresh = if *apart {
                shard.adopt(detached.next().ok_or("a block was not filled")?)
            } else {
                match filled_fresh(shard, content) {
                    Some(fresh) => fresh,
                    None => return Ok(false),
                }
            };
            let block = shard.publish(fresh, HEAD + content.bytes.len());
            replace(shard, *slot, block);
        }
        Op::Append { slot, bytes } => {
            let block = Ptr::from_raw(shard.word(shard.root(*slot)));
            let len = shard.word(block);
            shard.append(block, HEAD + len as usize, bytes);
            shard.set(block, len + bytes.len() as u64);
        }
        Op::Touch { slot, value } => {
            let block = Ptr::from_raw(shard.word(shard.root(*slot)));
            shard.set(block.add(8), *value);
        }
        Op::Delete { slot } => replace(shard, *slot, Ptr::NULL),
        Op::RolledBack(ops) => {
            let before: Savepoint = shard.savepoint();
            for op in ops {
                // Without space it is rolled back a little earlier.
                if !perform(shard, &op.under_lock(), &mut std::iter::empty())? {
                    break;
                }
            }
            shard.rollback_to(before);
        }
    }
    Ok(true)
}

fn filled_fresh(shard: &mut Shard<'_>, content: &Content) -> Option<Fresh> {
    let fresh = shard.reserve(HEAD + content.capacity).ok()?;
    let image = image(content);
    shard.write(&fresh, 0, &image[..HEAD]);
    shard.write(&fresh, HEAD, &image[HEAD..]);
    Some(fresh)
}

fn replace(shard: &mut Shard<'_>, slot: usize, block: Ptr) {
    let root = shard.root(slot);
    let old = Ptr::from_raw(shard.word(root));
    shard.set(root, block.raw());
    if !old.is_null() {
        shard.free(old);
    }
}
