//! One cell of the study: a number of threads, one method and one pattern, for a given time.
//!
//! Reading the clock costs as much as copying a small block, and makes the processor finish earlier
//! operations first, which it would otherwise overlap with later ones. So the time of a cell is
//! divided into slices. In three of them operations are only counted: the rates come from there,
//! with the slowest and the fastest slice as their spread, and so does the mean time of an
//! operation, which is the time of all threads divided by the number of operations and therefore
//! agrees with the rate. In the two slices between them each operation is timed, and the
//! percentiles come from there, less the time to read the clock. They describe isolated operations:
//! where the processor overlaps operations, the mean is below the median.
//!
//! A thread that fails still arrives at every barrier, so that no other thread waits for it
//! forever.

use super::options::Cell;
use super::pattern::Generator;
use super::target::{Buffer, Target};
use crate::histogram::Histogram;
use crate::results::DeviceRow;
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The number of slices of a cell: rates, latencies, rates, latencies, rates.
const SLICES: usize = 5;

/// The maximum number of operations between two readings of the clock.
const LONGEST_GROUP: u64 = 256;

/// The number of operations between two readings grows until they take this long.
const GROUP: Duration = Duration::from_micros(20);

/// The timing of each cell.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    /// The duration of a cell in seconds.
    pub(crate) seconds: f64,
    /// Nanoseconds that reading the clock adds to a timed operation.
    pub(crate) clock: u64,
}

#[derive(Clone, Copy, Default)]
struct Slice {
    counted: u64,
    /// Operations per second.
    rate: f64,
}

/// Runs a cell, with a thread for each target, until its time is over or `stop` is set. Returns the
/// figures of its row.
pub(crate) fn run(
    targets: &mut [Target],
    cell: Cell,
    timing: Timing,
    stop: &AtomicBool,
) -> io::Result<DeviceRow> {
    let barrier = Barrier::new(targets.len());
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let start = |(n, target)| {
            let barrier = &barrier;
            scope.spawn(move || Worker::new(target, cell, n).run(barrier, timing, stop))
        };
        let threads: Vec<_> = targets.iter_mut().enumerate().map(start).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    let mut slices = [Slice::default(); SLICES.div_ceil(2)];
    let mut histogram = Histogram::default();
    for outcome in outcomes {
        let (its_slices, its_histogram) = outcome?;
        for (slice, its) in slices.iter_mut().zip(its_slices) {
            slice.counted += its.counted;
            slice.rate += its.rate;
        }
        histogram.add(&its_histogram);
    }
    Ok(DeviceRow { seconds: timing.seconds, ..figures(&slices, cell, &histogram) })
}

fn figures(slices: &[Slice], cell: Cell, histogram: &Histogram) -> DeviceRow {
    let rates = || slices.iter().map(|slice| slice.rate);
    let counted: u64 = slices.iter().map(|slice| slice.counted).sum();
    let iops = rates().sum::<f64>() / slices.len() as f64;
    let bytes = |rate: f64| rate * cell.block as f64;
    let nanos = |micros: f64| (micros * 1e3).round() as u64;
    let at = |percent| nanos(histogram.percentile(percent));
    DeviceRow {
        ops: counted + histogram.count(),
        bytes_per_second: bytes(iops),
        low: bytes(rates().fold(f64::INFINITY, f64::min)),
        high: bytes(rates().fold(0.0, f64::max)),
        iops,
        mean_ns: f64::from(cell.threads) * 1e9 / iops.max(f64::MIN_POSITIVE),
        p50_ns: at(50.0),
        p99_ns: at(99.0),
        p99_999_ns: at(99.999),
        max_ns: nanos(histogram.highest()),
        ..DeviceRow::default()
    }
}

/// One thread of a cell.
struct Worker<'a> {
    target: &'a mut Target,
    generator: Generator,
    buffer: Buffer,
    histogram: Histogram,
}

impl<'a> Worker<'a> {
    fn new(target: &'a mut Target, cell: Cell, n: usize) -> Worker<'a> {
        let seed = u64::from(cell.threads) + n as u64;
        Worker {
            generator: Generator::new(cell.access, cell.block, target.len(), seed),
            target,
            buffer: Buffer::new(cell.block as usize),
            histogram: Histogram::default(),
        }
    }

    fn run(
        mut self,
        barrier: &Barrier,
        timing: Timing,
        stop: &AtomicBool,
    ) -> io::Result<([Slice; SLICES.div_ceil(2)], Histogram)> {
        let time = Duration::from_secs_f64(timing.seconds / SLICES as f64);
        let mut slices = [Slice::default(); SLICES.div_ceil(2)];
        let mut failed = None;
        for n in 0..SLICES {
            barrier.wait();
            if failed.is_some() {
                continue;
            }
            let done = match n % 2 {
                0 => self.count(time, stop).map(|slice| slices[n / 2] = slice),
                _ => self.time_each(time, timing.clock, stop),
            };
            failed = done.err();
        }
        failed.map_or(Ok((slices, self.histogram)), Err)
    }

    /// Runs and counts operations for this long.
    fn count(&mut self, time: Duration, stop: &AtomicBool) -> io::Result<Slice> {
        let (mut counted, mut group) = (0, 1);
        let start = Instant::now();
        let mut before = Duration::ZERO;
        loop {
            for _ in 0..group {
                let op = self.generator.next();
                self.target.carry_out(op, self.buffer.as_mut())?;
            }
            counted += group;
            let now = start.elapsed();
            if now - before < GROUP {
                group = (group * 2).min(LONGEST_GROUP);
            }
            before = now;
            if now >= time || stop.load(Relaxed) {
                return Ok(Slice { counted, rate: counted as f64 / now.as_secs_f64() });
            }
        }
    }

    /// Runs operations for this long and times each of them.
    fn time_each(&mut self, time: Duration, clock: u64, stop: &AtomicBool) -> io::Result<()> {
        let end = Instant::now() + time;
        loop {
            let op = self.generator.next();
            let before = Instant::now();
            self.target.carry_out(op, self.buffer.as_mut())?;
            let after = Instant::now();
            let clock = Duration::from_nanos(clock);
            self.histogram.record((after - before).saturating_sub(clock));
            if after >= end || stop.load(Relaxed) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::medium::Medium;
    use super::super::method::Method;
    use super::super::pattern::Access;
    use super::super::target;
    use super::*;

    /// Runs a cell of half reads at random, on a file of 1 MiB.
    fn measured_by(method: Method, threads: u32, timing: Timing, stop: bool) -> DeviceRow {
        let dir = tempfile::tempdir().expect("a directory");
        let medium = Medium::of(dir.path()).expect("a medium");
        let mut targets = target::open(&medium, method, 1 << 20, threads as usize).expect("a file");
        let access = Access { random: true, reads_percent: 50 };
        let cell = Cell { threads, access, block: 4096 };
        run(&mut targets, cell, timing, &AtomicBool::new(stop)).expect("measured")
    }

    #[test]
    fn rates_are_means_of_slices_with_their_range() {
        let slices = [10.0, 40.0, 10.0].map(|rate| Slice { counted: 7, rate });
        let access = Access { random: true, reads_percent: 50 };
        let cell = Cell { threads: 3, access, block: 10 };
        let found = figures(&slices, cell, &Histogram::default());
        assert_eq!((found.bytes_per_second, found.low, found.high), (200.0, 100.0, 400.0));
        assert_eq!((found.iops, found.ops), (20.0, 21));
        assert!((found.mean_ns - 1.5e8).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn what_the_clock_costs_is_taken_from_what_is_timed() {
        let timing = Timing { seconds: 0.02, clock: 1 << 40 };
        let found = measured_by(Method::Memcpy, 1, timing, false);
        assert!(found.ops > 10 && found.max_ns <= 1, "{found:?}");
        assert!(found.mean_ns > 1.0, "nothing is taken from the mean");
    }

    #[test]
    fn a_cell_ends_when_asked_to() {
        let start = Instant::now();
        measured_by(Method::Memcpy, 1, Timing { seconds: 600.0, clock: 0 }, true);
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
