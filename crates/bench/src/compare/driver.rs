//! One run: fills a server with the data of a job, sends the job's requests, and records the
//! results.

use super::workloads::{Data, Job, Load};
use crate::load::{self, Ended, Kind, Outcome, Ratio, Size};
use crate::results::{Run, WorkloadKind};
use crate::server::launch::stay_on;
use crate::server::{Failure, Server, command};
use std::sync::atomic::AtomicBool;

/// The prefix of the keys of strings.
const PREFIX: &str = "memtier-";

/// Fills a new server with the data of a job. Returns the bytes of memory that the data takes.
pub(super) fn fill(server: &Server, job: &Job) -> Result<Option<u64>, Failure> {
    let before = server.used_memory()?;
    let (keys, value) = (job.workload.keys, vec![b'x'; job.workload.value_bytes]);
    match job.data {
        Data::Nothing => return Ok(None),
        Data::Strings => server.send(keys, |number| {
            let mut set = redis::cmd("SET");
            set.arg(format!("{PREFIX}{}", number + 1)).arg(&value);
            set
        })?,
        Data::Elements(line) => server
            .send(keys, |number| command(&line.replace("__key__", &(number + 1).to_string())))?,
    }
    Ok(Some(server.used_memory()?.saturating_sub(before)))
}

/// Runs a job's load against a server for this many seconds. The calling thread stays pinned to the
/// generator's cores afterwards.
pub(super) fn drive(
    job: &Job,
    server: &Server,
    seconds: f64,
    cancel: &AtomicBool,
) -> Result<Outcome, Failure> {
    stay_on(&job.workload.generator_cores)?;
    let options = options(job, server, seconds)?;
    let outcome = load::run(&options, cancel).map_err(|error| match error {
        load::Error::Cancelled => Failure::Cancelled,
        error => Failure::Generator(error.to_string()),
    })?;
    match &outcome.ended {
        Ended::Done => Ok(outcome),
        Ended::Cancelled => Err(Failure::Cancelled),
        Ended::Failed(why) => Err(Failure::Generator(why.clone())),
    }
}

/// Returns the run as a row of the results. The caller sets the round and the server's resources.
pub(super) fn run_of(outcome: &Outcome, job: &Job, system: &str) -> Run {
    let cores = job.workload.generator_cores.len().max(1) as f64;
    let generator = &outcome.generator;
    let busy = generator.cpu_seconds / (outcome.seconds * cores).max(f64::MIN_POSITIVE);
    // Where the server and the generator share a core, its load does not show which of them is the
    // limit.
    let shared = job.workload.generator_cores == job.workload.server_cores;
    let of = |kind: Kind| {
        let class = outcome.of_kind(kind);
        (class.operations > 0).then_some(class.latency)
    };
    Run {
        workload: job.workload.id.clone(),
        system: system.to_owned(),
        seconds: outcome.seconds,
        operations: outcome.totals.operations,
        errors: outcome.error_count(),
        latency: outcome.totals.latency,
        writes: of(Kind::Write),
        reads: of(Kind::Read),
        generator_busy: busy,
        saturated: !shared && (generator.saturated || busy > load::SATURATED),
        ..Run::default()
    }
}

fn options(job: &Job, server: &Server, seconds: f64) -> Result<load::Options, Failure> {
    let workload = &job.workload;
    let mut options = load::Options {
        server: "127.0.0.1".into(),
        port: server.port(),
        threads: workload.threads as usize,
        clients: (workload.clients / workload.threads.max(1)) as usize,
        pipeline: workload.pipeline as usize,
        test_time: Some(seconds),
        distinct_client_seed: true,
        // A server could skip logging a value that equals the previous one.
        random_data: workload.kind == WorkloadKind::Durable,
        data_size: Size::fixed(workload.value_bytes),
        key_prefix: if job.data == Data::Strings { PREFIX } else { "" }.into(),
        key_minimum: 1,
        key_maximum: workload.keys,
        ..load::Options::default()
    };
    match &job.load {
        // The shares of a mix are tenths: short rows of writes and reads.
        Load::Mix => {
            let tenths = u64::from(workload.writes_percent / 10);
            options.ratio = Ratio(tenths, 10 - tenths);
        }
        Load::Ycsb(ycsb) => options.ycsb = Some(*ycsb),
        Load::Commands(lines) => options.commands.clone_from(lines),
        Load::Script(text) => {
            let mut load = redis::cmd("SCRIPT");
            let name: String = load.arg("LOAD").arg(*text).query(&mut server.connect()?)?;
            options.commands = vec![format!("EVALSHA {name} 1 __key__ __data__")];
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With one client, the server and the generator share a core, whose load then shows nothing.
    #[test]
    fn a_generator_at_its_limit_is_named_where_it_has_cores_of_its_own() {
        let cores = super::super::workloads::Cores::divide(&[0, 1]);
        let jobs = super::super::workloads::all(&cores, Some(10));
        let mut outcome = Outcome { seconds: 1.0, ..Outcome::default() };
        for (cpu_seconds, shared, expected) in
            [(0.95, false, true), (0.95, true, false), (0.5, false, false)]
        {
            outcome.generator.cpu_seconds = cpu_seconds;
            let job = jobs.iter().find(|job| (job.workload.clients == 1) == shared).expect("a job");
            assert_eq!(run_of(&outcome, job, "x").saturated, expected, "{cpu_seconds}");
        }
    }
}
