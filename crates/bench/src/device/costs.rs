//! The costs of single steps: a fence, a flush, an append to a log.
//!
//! A log append is the heap's way to commit: a record of one line, flushed, and one fence for all
//! records of a batch. The same append is measured with three other methods too. Each figure of an
//! append is the median of several rounds, with the lowest and the highest; the others are medians
//! alone.

use super::medium::Medium;
use super::method::Method;
use super::pattern::Operation;
use super::target::{self, Buffer, Refusal, Target};
use crate::results::{AppendCost, DeviceCosts, FileError};
use crate::stats::Summary;
use pmem::{LINE, Partition};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The numbers of records that share a fence.
pub(crate) const BATCHES: [u32; 4] = [1, 4, 16, 64];

/// The number of rounds of each figure.
const ROUNDS: usize = 7;

/// The duration of a round.
const ROUND: Duration = Duration::from_millis(3);

/// The number of pairs of readings that measure the cost of the clock.
const CLOCK_READINGS: usize = 10_001;

/// The size of the file: larger than most caches, so that they do not hold the log's lines.
const SIZE: u64 = 64 << 20;

/// The number of lines stored before a fence, to measure the flush of one.
const LINES: u64 = 64;

/// Returns the costs of steps on a medium, or only those measured so far if `stop` is set.
pub(crate) fn measure(medium: &Medium, stop: &AtomicBool) -> Result<DeviceCosts, FileError> {
    let mut costs = DeviceCosts { clock_ns: Some(clock()), ..DeviceCosts::default() };
    if let Some(partition) = target::map(medium, Method::Clwb, SIZE)?.into_partitions(1).pop() {
        let mut log = Log::new(partition);
        costs.fence_ns = median(|| per_step(1, || log.partition.fence()));
        // The two alternate, so that any slowdown affects both.
        costs.flush_ns = median(|| {
            let flushed = per_step(LINES, || log.lines(true));
            let stored = per_step(LINES, || log.lines(false));
            (flushed - stored).max(0.0)
        });
    }
    for method in [Method::Clwb, Method::Nt, Method::Msync, Method::Fdatasync] {
        let mut target = match target::open(medium, method, SIZE, 1) {
            Ok(mut targets) => targets.remove(0),
            Err(Refusal::NotHere(_)) => continue,
            Err(Refusal::Failed(error)) => return Err(error),
        };
        for batch in BATCHES {
            if stop.load(Relaxed) {
                return Ok(costs);
            }
            let failed = FileError::step(&medium.dir, "append to a log");
            let found = append(&mut target, method, batch).map_err(failed)?;
            costs.appends.push(found);
        }
    }
    Ok(costs)
}

/// Returns the nanoseconds that reading the clock before and after an operation adds to its time:
/// the time measured for no operation.
fn clock() -> f64 {
    let pair = || {
        let before = Instant::now();
        Instant::now().duration_since(before).as_nanos() as f64
    };
    Summary::of(&(0..CLOCK_READINGS).map(|_| pair()).collect::<Vec<_>>()).map_or(0.0, |f| f.median)
}

fn median(mut round: impl FnMut() -> f64) -> f64 {
    Summary::of(&(0..ROUNDS).map(|_| round()).collect::<Vec<_>>()).map_or(0.0, |found| found.median)
}

/// Returns the nanoseconds per step if `work` makes `steps` steps, measured over one round.
fn per_step(steps: u64, mut work: impl FnMut()) -> f64 {
    let (start, mut done) = (Instant::now(), 0u64);
    loop {
        for _ in 0..16 {
            work();
        }
        done += 16;
        let elapsed = start.elapsed();
        if elapsed >= ROUND {
            return elapsed.as_nanos() as f64 / (done * steps) as f64;
        }
    }
}

/// A partition whose lines are written in sequence, starting over at the end.
struct Log {
    partition: Partition,
    next: u64,
}

impl Log {
    fn new(partition: Partition) -> Log {
        Log { partition, next: 0 }
    }

    /// Stores lines, flushes them if asked to, and fences.
    fn lines(&mut self, flush: bool) {
        for _ in 0..LINES {
            self.partition.store(self.next, &[7; LINE as usize]);
            if flush {
                self.partition.flush(self.next, LINE as usize);
            }
            self.next = (self.next + LINE) % self.partition.len();
        }
        self.partition.fence();
    }
}

/// Returns the cost of a record by one method, when `batch` records are written at once.
fn append(target: &mut Target, method: Method, batch: u32) -> std::io::Result<AppendCost> {
    let mut at = 0;
    let record = u64::from(batch) * LINE;
    let mut buffer = Buffer::new(record as usize);
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let (start, mut done) = (Instant::now(), 0);
        let elapsed = loop {
            if at + record > target.len() {
                at = 0;
            }
            let op = Operation { write: true, offset: at, len: record as usize };
            target.carry_out(op, buffer.as_mut())?;
            at += record;
            done += 1;
            // The clock is read once in eight operations, so that its cost matters little.
            if done % 8 == 0 && start.elapsed() >= ROUND {
                break start.elapsed();
            }
        };
        rounds.push(elapsed.as_nanos() as f64 / (f64::from(done) * f64::from(batch)));
    }
    let found = Summary::of(&rounds);
    Ok(AppendCost {
        method: method.title().into(),
        batch,
        ns_per_record: found.map_or(0.0, |f| f.median),
        low: found.map_or(0.0, |f| f.lowest),
        high: found.map_or(0.0, |f| f.highest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_found_and_a_shared_fence_is_never_dearer_by_far() {
        let dir = tempfile::tempdir().expect("a directory");
        let medium = Medium::of(dir.path()).expect("a medium");
        let costs = measure(&medium, &AtomicBool::new(false)).expect("measured");
        assert!(costs.fence_ns > 0.0 && costs.flush_ns >= 0.0);
        let clock = costs.clock_ns.expect("measured");
        assert!((1.0..100_000.0).contains(&clock), "{clock}");
        assert_eq!(costs.appends.len(), 4 * BATCHES.len());
        for cost in &costs.appends {
            assert!(
                0.0 < cost.low && cost.low <= cost.ns_per_record && cost.ns_per_record <= cost.high
            );
        }
        let of = |batch| {
            let mut rows = costs.appends.iter();
            rows.find(|row| row.method == Method::Fdatasync.title() && row.batch == batch)
        };
        let (one, many) = (of(1).expect("a row"), of(64).expect("a row"));
        assert!(many.ns_per_record < one.ns_per_record, "{one:?} {many:?}");
    }
}
