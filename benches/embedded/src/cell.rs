//! One measurement: threads that read or write for a given time, and what they got done.
//!
//! A store is filled first; then every operation meets a key that is there, chosen uniformly at
//! random, so that a store neither grows nor is easier to read in one measurement than in the next.
//! Reads come first, before there is anything that a store might still be tidying after writes.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::data::{Key, Values, key, value};
use crate::store::{Result, Store};

/// Values in a batch.
pub const BATCH: usize = 100;

/// Rows of a range.
pub const RANGE: usize = 100;
/// Values that are read or written while one snapshot is open.
pub const SNAPSHOT: usize = 1000;

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// One value is read.
    Read,
    /// One value is read or written, as a coin falls.
    Mixed,
    /// One value is overwritten.
    Write,
    /// [`BATCH`] values are overwritten in one transaction; each counts.
    Batch,
    /// As mixed, but what is read is from a snapshot, of which another is taken after
    /// [`SNAPSHOT`] values.
    Snapshot,
    /// [`RANGE`] rows are read in the order of their keys, from one on; each counts.
    Range,
    /// All rows are read in the order of their keys; each counts.
    Iterate,
}

impl Workload {
    /// All, in the order in which they are measured.
    pub const ALL: [Workload; 7] = [
        Workload::Read,
        Workload::Range,
        Workload::Iterate,
        Workload::Mixed,
        Workload::Snapshot,
        Workload::Write,
        Workload::Batch,
    ];

    /// As a heading.
    pub fn title(self) -> &'static str {
        match self {
            Workload::Read => "read",
            Workload::Mixed => "mixed",
            Workload::Write => "write",
            Workload::Batch => "batch",
            Workload::Snapshot => "snapshot",
            Workload::Range => "range",
            Workload::Iterate => "iterate",
        }
    }
}

/// How many threads.
pub const THREADS: [usize; 2] = [1, 2];

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// What the threads did.
    pub workload: Workload,
    /// How many they were.
    pub threads: usize,
    /// Values read or written.
    pub operations: u64,
    /// The same per second.
    pub rate: f64,
    /// CPU time of the whole process for each, the store's own threads included, in microseconds.
    pub cpu: f64,
}

/// A filled store and what is needed to use it.
pub struct Bench<'a> {
    store: &'a dyn Store,
    keys: u64,
    values: Values,
    seed: u64,
}

impl<'a> Bench<'a> {
    /// Fills `store` with `keys` values of `len` bytes, in batches.
    pub fn fill(store: &'a dyn Store, keys: u64, len: usize, seed: u64) -> Result<Bench<'a>> {
        fill(store, keys, len)?;
        batches(keys, len, |entries| store.put_rows(entries))?;
        Ok(Bench { store, keys, values: Values::new(len), seed })
    }

    /// Returns true if the store can do what a workload asks for.
    pub fn can(&self, workload: Workload) -> Result<bool> {
        Ok(workload != Workload::Snapshot || self.store.snapshot()?.is_some())
    }

    /// Runs a workload for `time`, after a fifth of that to warm up.
    pub fn measure(&self, workload: Workload, threads: usize, time: Duration) -> Result<Figure> {
        self.run(workload, threads, time / 5)?;
        let before = cpu();
        let (operations, rate) = self.run(workload, threads, time)?;
        let cpu = (cpu() - before).as_secs_f64() * 1e6 / operations.max(1) as f64;
        Ok(Figure { workload, threads, operations, rate, cpu })
    }

    /// Operations done, and per second: a thread that ends late is measured by its own time.
    fn run(&self, workload: Workload, threads: usize, time: Duration) -> Result<(u64, f64)> {
        let barrier = Barrier::new(threads);
        std::thread::scope(|scope| {
            let work = |n| {
                let mut worker = Worker { bench: self, rng: Rng::with_seed(self.seed + n) };
                barrier.wait();
                worker.work(workload, time)
            };
            let spawned: Vec<_> =
                (1..threads as u64).map(|n| scope.spawn(move || work(n))).collect();
            let mut sum = work(0)?;
            for thread in spawned {
                let (operations, rate) = thread.join().map_err(|_| "a thread panicked")??;
                sum = (sum.0 + operations, sum.1 + rate);
            }
            Ok(sum)
        })
    }
}

/// Sets values number 0 to `keys`, each under the key of its number.
pub fn fill(store: &dyn Store, keys: u64, len: usize) -> Result<()> {
    batches(keys, len, |entries| store.put_all(entries))
}

fn batches(keys: u64, len: usize, put: impl Fn(&[(Key, &[u8])]) -> Result<()>) -> Result<()> {
    for first in (0..keys).step_by(1000) {
        let numbers = first..(first + 1000).min(keys);
        let values: Vec<Vec<u8>> = numbers.clone().map(|n| value(n, len)).collect();
        let entries: Vec<(Key, &[u8])> =
            numbers.zip(&values).map(|(n, value)| (key(n), value.as_slice())).collect();
        put(&entries)?;
    }
    Ok(())
}

/// Returns CPU time that the process has used.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Looks at each cache line of a value.
fn look(value: &[u8]) {
    black_box(value.iter().step_by(64).fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
}

fn check(is_there: bool) -> Result<u64> {
    if is_there { Ok(1) } else { Err("a value that was written is not there".into()) }
}

struct Worker<'a> {
    bench: &'a Bench<'a>,
    rng: Rng,
}

impl<'a> Worker<'a> {
    fn work(&mut self, workload: Workload, time: Duration) -> Result<(u64, f64)> {
        let mut batch = Vec::with_capacity(BATCH);
        let start = Instant::now();
        let mut operations = 0;
        loop {
            // The clock is not asked after each of the fast ones.
            let is_fast = matches!(workload, Workload::Read | Workload::Mixed | Workload::Write);
            let round = if is_fast { 8 } else { 1 };
            for _ in 0..round {
                operations += match workload {
                    Workload::Read => self.read()?,
                    Workload::Mixed if self.rng.bool() => self.read()?,
                    Workload::Mixed | Workload::Write => self.write()?,
                    Workload::Batch => self.write_batch(&mut batch)?,
                    Workload::Snapshot => self.use_snapshot()?,
                    Workload::Range => self.read_range(RANGE)?,
                    Workload::Iterate => self.read_range(usize::MAX)?,
                };
            }
            let passed = start.elapsed();
            if passed >= time {
                return Ok((operations, operations as f64 / passed.as_secs_f64()));
            }
        }
    }

    fn key(&mut self) -> Key {
        key(self.rng.u64(..self.bench.keys))
    }

    /// Reads a value.
    fn read(&mut self) -> Result<u64> {
        let key = self.key();
        check(self.bench.store.get(&key, &mut look)?)
    }

    /// Takes a snapshot, reads from it as often as it writes to the store, and drops it.
    fn use_snapshot(&mut self) -> Result<u64> {
        let Some(snapshot) = self.bench.store.snapshot()? else {
            return Err("the store has no snapshots".into());
        };
        for _ in 0..SNAPSHOT {
            if self.rng.bool() {
                let key = self.key();
                check(snapshot.get(&key, &mut look)?)?;
            } else {
                self.write()?;
            }
        }
        Ok(SNAPSHOT as u64)
    }

    /// Reads rows from a random one on, or all.
    fn read_range(&mut self, count: usize) -> Result<u64> {
        let from = if count == usize::MAX { Key::default() } else { self.key() };
        let shown = self.bench.store.range(&from, count, &mut look)?;
        let expected = if count == usize::MAX { self.bench.keys } else { 1 };
        if shown < expected {
            return Err(format!("{shown} rows of {expected} are there").into());
        }
        Ok(shown)
    }

    fn write(&mut self) -> Result<u64> {
        let key = self.key();
        self.bench.store.put(&key, self.bench.values.any(&mut self.rng))?;
        Ok(1)
    }

    fn write_batch(&mut self, batch: &mut Vec<(Key, &'a [u8])>) -> Result<u64> {
        batch.clear();
        for _ in 0..BATCH {
            let key = self.key();
            batch.push((key, self.bench.values.any(&mut self.rng)));
        }
        self.bench.store.put_all(batch)?;
        Ok(BATCH as u64)
    }
}
