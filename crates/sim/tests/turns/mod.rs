//! Several threads commit at once on one heap, taking turns by a seed.
//!
//! A transaction is under way from its begin to its acknowledgement, and holds its shards' locks all the while. So
//! those under way at a crash have no shard in common, and each may be in effect or not: whole.

use crate::pool::{Contents, Open, Pool, perform};
use heap::Heap;
use pmem::Region;
use sim::{Life, Promise, Promises, Subject, Workload, take_turns};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The heap, used by so many threads.
pub(crate) struct Threads {
    pub(crate) pool: Pool,
    pub(crate) threads: usize,
}

/// What a mark in the trace means.
enum Meaning {
    /// A thread is about to commit these contents of these shards.
    Begun(usize, Vec<(usize, Contents)>),
    /// It has.
    Acknowledged(usize),
    /// There was no room.
    Refused(usize),
}

/// The threads' common view: what each shard holds, and what the marks mean.
struct Shared<'l> {
    pool: &'l Pool,
    life: &'l Life<'l>,
    shards: Vec<Mutex<Contents>>,
    marks: Mutex<Vec<(usize, Meaning)>>,
}

impl Shared<'_> {
    fn mark(&self, meaning: Meaning) {
        let mut marks = self.marks.lock().unwrap();
        marks.push((self.life.mark(), meaning));
    }

    fn run(&self, heap: &Heap, thread: usize, n: usize) -> Result<(), String> {
        let mut rng = self.life.rng_of(n);
        let mut ids: Vec<usize> = (0..heap.shards()).collect();
        rng.shuffle(&mut ids);
        ids.truncate(1 + rng.usize(..2) * rng.usize(..3));
        ids.sort_unstable();
        let mut shards: Vec<_> = ids.iter().map(|id| heap.lock(*id)).collect();
        let mut after = Vec::new();
        for shard in &mut shards {
            let mut contents = self.shards[shard.id()].lock().unwrap().clone();
            for _ in 0..1 + rng.usize(..3) {
                let op = self.pool.draw(&mut contents, &mut rng).under_lock();
                self.life.note(n, || format!("thread {thread}, shard {}: {op:?}", shard.id()));
                if !perform(shard, &op, &mut std::iter::empty())? {
                    self.life.refused();
                    return Ok(());
                }
            }
            after.push((shard.id(), contents));
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

    fn settle(&self, found: &Vec<Contents>, promised: &Vec<Contents>) -> Option<Vec<Contents>> {
        (found == promised).then(|| found.clone())
    }

    fn live(
        &self,
        store: &mut Open,
        state: Vec<Contents>,
        life: &Life<'_>,
    ) -> Result<Promises<Vec<Contents>>, String> {
        let shards = state.iter().cloned().map(Mutex::new).collect();
        let shared = Shared { pool: &self.pool, life, shards, marks: Mutex::default() };
        let failed = Mutex::new(None);
        let (shared, heap, failure) = (&shared, &store.heap, &failed);
        let of_thread = |thread| {
            move || {
                let own = (0..life.actions).filter(|n| n % self.threads == thread);
                let mut done = own.filter(|n| life.has(*n)).map(|n| shared.run(heap, thread, n));
                if let Some(error) = done.find_map(Result::err) {
                    *failure.lock().unwrap() = Some(error);
                }
            }
        };
        take_turns(life.rng.clone().u64(..), (0..self.threads).map(of_thread).collect());
        match failed.into_inner().unwrap() {
            Some(error) => Err(error),
            None => Ok(promises(state, &shared.marks.lock().unwrap())),
        }
    }
}

/// What may be found from each mark on: what was acknowledged, with any of those under way.
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
