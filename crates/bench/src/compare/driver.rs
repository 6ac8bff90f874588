//! Who makes the load: this program, or memtier_benchmark.
//!
//! Both get the same parameters and find the same keys, so that one can be checked against the
//! other. What memtier_benchmark cannot do (YCSB's D, E and F) is left out with it.

use super::launch::stay_on;
use super::options::Driver;
use super::server::Failure;
use super::workloads::{Job, Load};
use crate::histogram;
use crate::load::{self, Command, Commands, Ended, Kind, Outcome, Pattern, Patterns, Ratio, Ycsb};
use crate::results::{Latency, Run};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A share of its cores above which a generator sets the rate.
const SATURATED: f64 = 0.9;

/// What a driver measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) seconds: f64,
    pub(super) operations: u64,
    pub(super) errors: u64,
    /// The text of an error reply, if there was one.
    pub(super) error: Option<String>,
    pub(super) latency: Latency,
    pub(super) writes: Option<Latency>,
    pub(super) reads: Option<Latency>,
    /// CPU time of the generator.
    pub(super) cpu: Duration,
    /// Whether the generator itself says that it had no time to spare.
    pub(super) saturated: bool,
}

/// What a server used for a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerUsed {
    pub(super) cpu: Duration,
    /// Bytes for the disk; none where it has no disk.
    pub(super) written: Option<u64>,
}

impl Measured {
    /// Returns a run of the results.
    pub(super) fn run(&self, job: &Job, system: &str, round: u32, server: ServerUsed) -> Run {
        let cores = job.workload.generator_cores.len().max(1) as f64;
        let busy = self.cpu.as_secs_f64() / (self.seconds * cores).max(f64::MIN_POSITIVE);
        // On one core with the server, neither can be told from the other by how busy the core is.
        let shared = job.workload.generator_cores == job.workload.server_cores;
        Run {
            workload: job.workload.id.clone(),
            system: system.to_owned(),
            round,
            seconds: self.seconds,
            operations: self.operations,
            errors: self.errors,
            latency: self.latency,
            writes: self.writes,
            reads: self.reads,
            server_cpu_seconds: server.cpu.as_secs_f64(),
            generator_busy: busy,
            saturated: !shared && (self.saturated || busy > SATURATED),
            written_bytes: server.written,
        }
    }
}

/// Returns why a driver cannot do this, if it cannot.
pub(super) fn refuses(driver: Driver, load: &Load) -> Option<String> {
    match (driver, load) {
        (Driver::Memtier, Load::Ycsb(Ycsb::D | Ycsb::E | Ycsb::F)) => {
            Some("memtier_benchmark has neither scans nor reads of the latest nor writes of what was read".into())
        }
        _ => None,
    }
}

/// Loads a server with a job for this many seconds. The calling thread stays on the generator's
/// cores afterwards.
pub(super) fn drive(
    driver: Driver,
    job: &Job,
    port: u16,
    seconds: f64,
    cancel: &AtomicBool,
) -> Result<Measured, Failure> {
    stay_on(&job.workload.generator_cores)?;
    let options = options(driver, job, port, seconds);
    let outcome = match driver {
        Driver::Builtin => load::run(&options, cancel),
        Driver::Memtier => load::memtier_driver::run(&options, cancel),
    };
    let outcome = outcome.map_err(|error| match error {
        load::Error::Cancelled => Failure::Cancelled,
        error => Failure::Generator(error.to_string()),
    })?;
    match &outcome.ended {
        Ended::Done => Ok(measured(&outcome)),
        Ended::Cancelled => Err(Failure::Cancelled),
        Ended::Failed(why) => Err(Failure::Generator(why.clone())),
    }
}

fn options(driver: Driver, job: &Job, port: u16, seconds: f64) -> load::Options {
    let workload = &job.workload;
    let mut options = load::Options {
        server: "127.0.0.1".into(),
        port,
        threads: workload.threads as usize,
        clients: (workload.clients / workload.threads.max(1)) as usize,
        pipeline: workload.pipeline as usize,
        test_time: Some(seconds),
        distinct_client_seed: true,
        data_size: Some(workload.value_bytes),
        key_minimum: 1,
        key_maximum: workload.keys,
        quiet: true,
        ..load::Options::default()
    };
    match (&job.load, driver) {
        (Load::Mix, _) => {
            options.ratio = ratio(workload.writes_percent);
            options.key_pattern = Patterns { set: Pattern::Random, get: Pattern::Random };
        }
        (Load::Ycsb(ycsb), Driver::Builtin) => options.ycsb = Some(*ycsb),
        // Its A to C are no more than a ratio and a distribution.
        (Load::Ycsb(_), Driver::Memtier) => {
            options.ratio = ratio(workload.writes_percent);
            options.key_pattern = Patterns { set: Pattern::Zipf, get: Pattern::Zipf };
            options.key_zipf_exp = Some(0.99);
        }
        (Load::Commands(lines), _) => {
            options.commands = Commands(lines.iter().map(|line| Command::new(*line)).collect());
        }
    }
    options
}

/// Returns the share of writes in the smallest numbers: a generator sends this many of one, then
/// this many of the other.
fn ratio(writes_percent: u32) -> Ratio {
    let (writes, reads) = (u64::from(writes_percent), u64::from(100 - writes_percent.min(100)));
    let divides = |by: &u64| writes.is_multiple_of(*by) && reads.is_multiple_of(*by);
    let common = (1..=100).rev().find(divides).unwrap_or(1);
    Ratio(writes / common, reads / common)
}

fn measured(outcome: &Outcome) -> Measured {
    let of = |kind: Kind| {
        let class = outcome.of_kind(kind);
        (class.operations > 0).then(|| latency(&class.latency))
    };
    Measured {
        seconds: outcome.seconds,
        operations: outcome.totals.operations,
        errors: outcome.error_count(),
        error: outcome.errors.keys().next().cloned(),
        latency: latency(&outcome.totals.latency),
        writes: of(Kind::Write),
        reads: of(Kind::Read),
        cpu: Duration::from_secs_f64(outcome.generator.cpu_seconds.max(0.0)),
        saturated: outcome.generator.saturated,
    }
}

fn latency(found: &histogram::Latency) -> Latency {
    Latency {
        mean: found.mean,
        p50: found.p50,
        p90: found.p90,
        p99: found.p99,
        p999: found.p99_9,
        p9999: found.p99_99,
        p99999: found.p99_999,
        max: found.max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_the_shortest_rows() {
        let found = [0, 5, 30, 50, 70, 100].map(|percent| ratio(percent).to_string());
        assert_eq!(found, ["0:1", "1:19", "3:7", "1:1", "7:3", "1:0"]);
    }
}
