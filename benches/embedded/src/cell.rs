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
}

impl Workload {
    /// All, in the order in which they are measured.
    pub const ALL: [Workload; 4] =
        [Workload::Read, Workload::Mixed, Workload::Write, Workload::Batch];

    /// As a heading.
    pub fn title(self) -> &'static str {
        match self {
            Workload::Read => "read",
            Workload::Mixed => "mixed",
            Workload::Write => "write",
            Workload::Batch => "batch",
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
        Ok(Bench { store, keys, values: Values::new(len), seed })
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
    for first in (0..keys).step_by(1000) {
        let numbers = first..(first + 1000).min(keys);
        let values: Vec<Vec<u8>> = numbers.clone().map(|n| value(n, len)).collect();
        let entries: Vec<(Key, &[u8])> =
            numbers.zip(&values).map(|(n, value)| (key(n), value.as_slice())).collect();
        store.put_all(&entries)?;
    }
    Ok(())
}

/// Returns CPU time that the process has used.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
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
            let round = if workload == Workload::Batch { 1 } else { 8 };
            for _ in 0..round {
                operations += match workload {
                    Workload::Read => self.read()?,
                    Workload::Mixed if self.rng.bool() => self.read()?,
                    Workload::Mixed | Workload::Write => self.write()?,
                    Workload::Batch => self.write_batch(&mut batch)?,
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

    /// Reads a value, and looks at each of its cache lines.
    fn read(&mut self) -> Result<u64> {
        let key = self.key();
        let mut sum = 0u8;
        let look = &mut |value: &[u8]| {
            sum = value.iter().step_by(64).fold(0, |sum, byte| sum.wrapping_add(*byte));
        };
        if !self.bench.store.get(&key, look)? {
            return Err("a value that was written is not there".into());
        }
        black_box(sum);
        Ok(1)
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
