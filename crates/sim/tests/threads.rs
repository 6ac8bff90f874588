//! Several threads commit at once, on shards of their own choice, and are crashed everywhere.
//!
//! A transaction is under way from its begin to its acknowledgement, and holds its shards' locks all the while. So
//! those under way at a crash have no shard in common, and each may be in effect or not: whole. The threads are
//! shaken: they give way at random stores, flushes and fences. What the scheduler makes of it is not repeatable, unlike
//! everything else here.

#![forbid(unsafe_code)]

mod pool;

use pmem::{Recorder, Region};
use pool::{Contents, Pool, draw, perform};
use sim::{Crash, Durability, Event, Medium, Subject, Trace};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const SHARDS: usize = 4;
const THREADS: usize = 3;
const TRANSACTIONS: usize = 40;

/// Records, and gives way now and then.
struct Shaken {
    medium: Arc<Medium>,
    calls: AtomicU64,
    seed: u64,
}

impl Shaken {
    fn shake(&self) {
        let call = self.calls.fetch_add(1, Relaxed);
        if fastrand::Rng::with_seed(self.seed ^ call).usize(..6) == 0 {
            std::thread::yield_now();
        }
    }
}

impl Recorder for Shaken {
    fn store(&self, off: u64, bytes: &[u8]) {
        self.shake();
        self.medium.store(off, bytes);
    }

    fn flush(&self, line: u64) {
        self.medium.flush(line);
    }

    fn fence(&self) {
        self.shake();
        self.medium.fence();
        self.shake();
    }

    fn grow(&self, len: u64) {
        self.medium.grow(len);
    }
}

/// What a mark in the trace means.
enum Mark {
    /// A thread is about to commit these contents of these shards.
    Begun(usize, Vec<(usize, Contents)>),
    /// It has.
    Acknowledged(usize),
    /// There was no room.
    Refused(usize),
}

/// The threads' common view: what each shard holds, and what the marks mean.
struct Shared {
    shards: Vec<Mutex<Contents>>,
    marks: Mutex<Vec<Mark>>,
    medium: Arc<Medium>,
}

impl Shared {
    fn mark(&self, mark: Mark) {
        let mut marks = self.marks.lock().unwrap();
        self.medium.mark(marks.len());
        marks.push(mark);
    }
}

fn run_thread(heap: &heap::Heap, shared: &Shared, thread: usize, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed * 64 + thread as u64);
    for _ in 0..TRANSACTIONS {
        let mut ids: Vec<usize> = (0..SHARDS).collect();
        rng.shuffle(&mut ids);
        ids.truncate(1 + rng.usize(..2) * rng.usize(..3));
        ids.sort_unstable();
        let mut shards: Vec<_> = ids.iter().map(|id| heap.lock(*id)).collect();
        let mut after = Vec::new();
        let mut room = true;
        for shard in &mut shards {
            let mut contents = shared.shards[shard.id()].lock().unwrap().clone();
            for _ in 0..1 + rng.usize(..3) {
                let op = draw(&mut contents, &mut rng, true).under_lock();
                room = room && perform(shard, &op, &mut std::iter::empty()).unwrap();
            }
            after.push((shard.id(), contents));
        }
        if !room {
            continue;
        }
        shared.mark(Mark::Begun(thread, after.clone()));
        match heap.commit_all(&mut shards) {
            Ok(()) => {
                for (id, contents) in after {
                    *shared.shards[id].lock().unwrap() = contents;
                }
                shared.mark(Mark::Acknowledged(thread));
            }
            Err(heap::CommitError::Full) => shared.mark(Mark::Refused(thread)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// What may be found now: what was acknowledged, and who is under way with what.
struct Expected {
    acknowledged: Vec<Contents>,
    under_way: BTreeMap<usize, Vec<(usize, Contents)>>,
}

impl Expected {
    fn learn(&mut self, mark: &Mark) {
        match mark {
            Mark::Begun(thread, after) => {
                self.under_way.insert(*thread, after.clone());
            }
            Mark::Acknowledged(thread) => {
                for (id, contents) in self.under_way.remove(thread).unwrap() {
                    self.acknowledged[id] = contents;
                }
            }
            Mark::Refused(thread) => drop(self.under_way.remove(thread)),
        }
    }

    fn allows(&self, found: &[Contents]) -> bool {
        let mut settled: Vec<bool> = (0..SHARDS).map(|_| false).collect();
        for after in self.under_way.values() {
            let before = after.iter().all(|(id, _)| found[*id] == self.acknowledged[*id]);
            let whole = after.iter().all(|(id, contents)| found[*id] == *contents);
            if !before && !whole {
                return false;
            }
            after.iter().for_each(|(id, _)| settled[*id] = true);
        }
        (0..SHARDS).all(|id| settled[id] || found[id] == self.acknowledged[id])
    }
}

/// How many images were looked at, and how many of them with several transactions under way.
fn crash_everywhere(
    pool: &Pool,
    trace: &Trace,
    marks: &[Mark],
    crash: Crash,
    seed: u64,
) -> (u64, u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut medium = Durability::new(Vec::new());
    let mut expected = Expected { acknowledged: pool.empty(), under_way: BTreeMap::new() };
    let (mut images, mut several) = (0, 0);
    for (at, &event) in trace.events.iter().enumerate() {
        if matches!(event, Event::Fence { .. }) || rng.usize(..40) == 0 {
            let mut choices = rng.fork();
            medium.images(crash, 20, &mut choices, |image| {
                images += 1;
                several += u64::from(expected.under_way.len() > 1);
                let dead = Medium::new();
                dead.take();
                let region = Region::simulated_from(image, pool.reserve(), dead);
                let mut store = pool.open(region).unwrap_or_else(|what| panic!("{at}: {what}"));
                let found = pool.read(&mut store).unwrap_or_else(|what| panic!("{at}: {what}"));
                assert!(expected.allows(&found), "event {at}, seed {seed}: found {found:?}");
                true
            });
        }
        medium.apply(trace, event);
        if let Event::Mark(mark) = event {
            expected.learn(&marks[mark]);
        }
    }
    (images, several)
}

/// Runs the threads and crashes them; in how many images several transactions were under way.
fn check(seed: u64, crash: Crash, zones: u64) -> u64 {
    let pool = Pool::of(SHARDS, zones);
    let medium = Medium::new();
    let shaken = Shaken { medium: medium.clone(), calls: AtomicU64::new(0), seed };
    let region = Region::simulated_growing(pool.reserve(), Arc::new(shaken));
    let store = pool.open(region).unwrap();
    let shared = Shared {
        shards: pool.empty().into_iter().map(Mutex::new).collect(),
        marks: Mutex::default(),
        medium: medium.clone(),
    };
    let (heap, shared) = (&store.heap, &shared);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || run_thread(heap, shared, thread, seed));
        }
    });
    let trace = medium.take();
    let marks = shared.marks.lock().unwrap();
    let (images, several) = crash_everywhere(&pool, &trace, &marks, crash, seed);
    println!("seed {seed} {crash:?}: {} marks, {images} images, {several} of several", marks.len());
    assert!(images > 500 && marks.len() > TRANSACTIONS);
    several
}

#[test]
fn every_crash_of_several_threads_leaves_each_transaction_whole_or_not_at_all() {
    let several: u64 = (0..4)
        .map(|seed| check(seed, Crash::Strict, 4) + check(seed, Crash::X86, 1 + seed % 2))
        .sum();
    assert!(several > 0, "the threads never met");
}
