//! Several threads commit at once on one heap, scheduled by a seed.
//!
//! Some threads prepare values before they take a lock, in blocks of spans that they share with
//! others: they fill them and make them durable, and then adopt them in a transaction, adopt them
//! and roll back, or drop them at any moment.
//!
//! A transaction is under way from its start to its acknowledgement, and holds its shards' locks
//! all the while. So those under way at a crash have no shard in common, and each may be in effect,
//! whole, or not.

use crate::pool::snapshot::read_snapshot;
use crate::pool::{Contents, Open, Pool, Prepared, perform};
use heap::{Detached, Heap};
use pmem::Region;
use sim::{Incarnation, Promise, Promises, Subject, Workload, run_scheduled};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The heap, used by this many threads.
pub(crate) struct Threads {
    pub(crate) pool: Pool,
    pub(crate) threads: usize,
    /// Whether they prepare values.
    pub(crate) prepares: bool,
    /// Whether they sometimes retire the logs, as a pool at rest does, while others commit.
    pub(crate) retires: bool,
    /// How many times a thread prepared a value in a span in which another one had prepared one.
    pub(crate) shared_spans: AtomicU64,
}

impl Threads {
    pub(crate) fn new(pool: Pool, threads: usize, prepares: bool) -> Threads {
        Threads { pool, threads, prepares, retires: false, shared_spans: AtomicU64::new(0) }
    }
}

/// What happens to prepared values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Adopted,
    RolledBack,
    Abandoned,
    AbandonedUnfenced,
}

/// The end of a span: the bytes of a block belong to one span.
const SPAN: u64 = 65536;

/// What a mark in the trace means.
enum Meaning {
    /// A thread is about to commit these contents of these shards.
    Begun(usize, Vec<(usize, Contents)>),
    /// It has committed.
    Acknowledged(usize),
    /// There was no space.
    Refused(usize),
}

/// The threads' shared view: the content of each shard, and the meaning of the marks.
struct Shared<'l> {
    pool: &'l Pool,
    incarnation: &'l Incarnation<'l>,
    shards: Vec<Mutex<Contents>>,
    marks: Mutex<Vec<(usize, Meaning)>>,
    threads: &'l Threads,
    /// The spans in which each thread currently has prepared values.
    preparing: Mutex<BTreeMap<usize, Vec<u64>>>,
}

impl Shared<'_> {
    fn mark(&self, meaning: Meaning) {
        let mut marks = self.marks.lock().unwrap();
        marks.push((self.incarnation.mark(), meaning));
    }

    fn run(&self, heap: &Arc<Heap>, thread: usize, n: usize) -> Result<(), String> {
        if n % 16 == 5 {
            self.read_snapshot(heap)?;
        }
        if self.threads.retires && n % 5 == 3 {
            heap.retire_logs();
        }
        let mut rng = self.incarnation.rng_of(n);
        let mut ids: Vec<usize> = (0..heap.shards()).collect();
        rng.shuffle(&mut ids);
        ids.truncate(1 + rng.usize(..2) * rng.usize(..3));
        ids.sort_unstable();
        let fate = match rng.usize(..8) {
            _ if !self.threads.prepares => Fate::Adopted,
            0 => Fate::AbandonedUnfenced,
            1 => Fate::Abandoned,
            2 => Fate::RolledBack,
            _ => Fate::Adopted,
        };
        let prepared = match self.threads.prepares && rng.usize(..4) > 0 {
            true => self.prepare(heap, (thread, n), ids[0], fate, &mut rng),
            false => Some(Vec::new()),
        };
        let Some(prepared) = prepared else { return Ok(()) };
        let mut shards: Vec<_> = ids.iter().map(|id| heap.lock(*id)).collect();
        let mut after = Vec::new();
        let (puts, blocks): (Vec<_>, Vec<_>) =
            prepared.into_iter().map(|one| (one.op, one.block)).unzip();
        let mut blocks = blocks.into_iter();
        for (at, shard) in shards.iter_mut().enumerate() {
            let mut contents = self.shards[shard.id()].lock().unwrap().clone();
            for put in puts.iter().filter(|_| at == 0) {
                perform(shard, put, &mut blocks)?;
                put.put_into(&mut contents);
            }
            for _ in 0..1 + rng.usize(..3) {
                let op = self.pool.draw(&mut contents, &mut rng).under_lock();
                self.incarnation
                    .record(n, || format!("thread {thread}, shard {}: {op:?}", shard.id()));
                if !perform(shard, &op, &mut std::iter::empty())? {
                    self.incarnation.refused();
                    return Ok(());
                }
            }
            after.push((shard.id(), contents));
        }
        if fate == Fate::RolledBack {
            return Ok(());
        }
        self.mark(Meaning::Begun(thread, after.clone()));
        match heap.commit_all(&mut shards) {
            Ok(()) => {
                for (id, contents) in after {
                    *self.shards[id].lock().unwrap() = contents;
                }
                self.mark(Meaning::Acknowledged(thread));
            }
            Err(heap::CommitError::Full) => self.mark(Meaning::Refused(thread)),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }
}

impl Shared<'_> {
    /// Takes a snapshot, unless another thread is reading one, and reads all of it while others
    /// continue.
    fn read_snapshot(&self, heap: &Arc<Heap>) -> Result<(), String> {
        // The contents change under the locks that the cut takes.
        let contents = || self.shards.iter().map(|shard| shard.lock().unwrap().clone()).collect();
        let Ok((snapshot, state)) = heap.snapshot::<Vec<Contents>>(contents) else { return Ok(()) };
        for (shard, expected) in state.iter().enumerate() {
            if !read_snapshot(&snapshot, shard, expected)? {
                break;
            }
        }
        Ok(())
    }

    /// Prepares a few values in a shard; returns none if they are dropped, or if there is no space.
    fn prepare<'h>(
        &self,
        heap: &'h Heap,
        (thread, n): (usize, usize),
        shard: usize,
        fate: Fate,
        rng: &mut fastrand::Rng,
    ) -> Option<Vec<Prepared<'h>>> {
        let mut puts = Vec::new();
        let mut blocks = Vec::new();
        for _ in 0..1 + rng.usize(..3) {
            let Some(Prepared { op, block }) = Prepared::new(heap, shard, rng) else {
                self.incarnation.refused();
                break;
            };
            self.incarnation
                .record(n, || format!("thread {thread} prepares in {shard}: {op:?}, {fate:?}"));
            self.wait_for_other(thread, block.ptr().raw() / SPAN);
            puts.push(op);
            blocks.push(block);
        }
        if fate != Fate::AbandonedUnfenced {
            Detached::persist(&blocks);
        }
        self.preparing.lock().unwrap().remove(&thread);
        if fate == Fate::Abandoned || fate == Fate::AbandonedUnfenced {
            return None;
        }
        Some(puts.into_iter().zip(blocks).map(|(op, block)| Prepared { op, block }).collect())
    }

    fn wait_for_other(&self, thread: usize, span: u64) {
        let mut preparing = self.preparing.lock().unwrap();
        let others = preparing.iter().filter(|(other, _)| **other != thread);
        let concurrent = others.filter(|(_, spans)| spans.contains(&span)).count();
        self.threads.shared_spans.fetch_add(concurrent as u64, Relaxed);
        preparing.entry(thread).or_default().push(span);
    }
}

impl Workload for Threads {
    type State = Vec<Contents>;
    type Store = Open;

    fn reserve(&self) -> usize {
        Subject::reserve(&self.pool)
    }

    fn empty(&self) -> Vec<Contents> {
        Subject::empty(&self.pool)
    }

    fn open(&self, region: Region) -> Result<Open, String> {
        Subject::open(&self.pool, region)
    }

    fn read(&self, store: &mut Open) -> Result<Vec<Contents>, String> {
        Subject::read(&self.pool, store)
    }

    fn accept(&self, found: &Vec<Contents>, promised: &Vec<Contents>) -> Option<Vec<Contents>> {
        (found == promised).then(|| found.clone())
    }

    fn difference(&self, found: &Vec<Contents>, allowed: &[Vec<Contents>]) -> String {
        Subject::difference(&self.pool, found, allowed)
    }

    fn run_incarnation(
        &self,
        store: &mut Open,
        state: Vec<Contents>,
        incarnation: &Incarnation<'_>,
    ) -> Result<Promises<Vec<Contents>>, String> {
        let shards = state.iter().cloned().map(Mutex::new).collect();
        let shared = Shared {
            pool: &self.pool,
            incarnation,
            shards,
            marks: Mutex::default(),
            threads: self,
            preparing: Mutex::default(),
        };
        let failed = Mutex::new(None);
        let (shared, heap, failure) = (&shared, &store.heap, &failed);
        let of_thread = |thread| {
            move || {
                let own = (0..incarnation.actions).filter(|n| n % self.threads == thread);
                let mut done =
                    own.filter(|n| incarnation.has(*n)).map(|n| shared.run(heap, thread, n));
                if let Some(error) = done.find_map(Result::err) {
                    *failure.lock().unwrap() = Some(error);
                }
            }
        };
        run_scheduled(incarnation.rng.clone().u64(..), (0..self.threads).map(of_thread).collect());
        match failed.into_inner().unwrap() {
            Some(error) => Err(error),
            None => Ok(promises(state, &shared.marks.lock().unwrap())),
        }
    }
}

/// Returns what may be found from each mark on: what was acknowledged, with any of those under way.
fn promises(
    mut acknowledged: Vec<Contents>,
    marks: &[(usize, Meaning)],
) -> Promises<Vec<Contents>> {
    let mut under_way: BTreeMap<usize, &Vec<(usize, Contents)>> = BTreeMap::new();
    let mut promises = Vec::new();
    for (mark, meaning) in marks {
        match meaning {
            Meaning::Begun(thread, after) => drop(under_way.insert(*thread, after)),
            Meaning::Acknowledged(thread) => {
                for (id, contents) in under_way.remove(thread).into_iter().flatten() {
                    acknowledged[*id] = contents.clone();
                }
            }
            Meaning::Refused(thread) => drop(under_way.remove(thread)),
        }
        let mut allowed = vec![acknowledged.clone()];
        for after in under_way.values() {
            for before in allowed.clone() {
                let mut with = before;
                after.iter().for_each(|(id, contents)| with[*id] = contents.clone());
                allowed.push(with);
            }
        }
        let doing = if under_way.len() > 1 { vec!["several threads"] } else { Vec::new() };
        promises.push((*mark, Promise { allowed, doing }));
    }
    promises
}
