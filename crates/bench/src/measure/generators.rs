//! CPU time per request of the generators themselves: `perdura-bench load`, redis-benchmark and,
//! where it is installed, memtier_benchmark, against the same redis-server.
//!
//! On a small machine a generator takes CPU time that the server would need, so a cheap one
//! measures more of the server. Generators take turns on one core with one thread. Their CPU time
//! counts to the end of the process, its start included; the kernel tells it in hundredths of a
//! second. All keys that are read are there.

use super::bench::{Bench, Host};
use super::common::{Common, Numbers, numbers};
use super::print::{Raw, cells, median, table};
use crate::Verdict;
use crate::compare::server::{Failure, ticks};
use crate::compare::systems::on_path;
use crate::stats::ratio;
use std::fs;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;

const CLIENTS: u64 = 50;
const KEYS: u64 = 10_000;

/// The first key of the generators with memtier_benchmark's options, whose keys have twelve digits.
const FIRST: u64 = 100_000_000_000;

/// CPU time per request of generators of load: medians of alternating runs.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// How often each generator has its turn.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Requests of a run; four times that when pipelined.
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(50..))]
    requests: u64,
    /// Bytes of values, separated by commas.
    #[arg(long, value_name = "BYTES", default_value = "32,4096", value_parser = numbers)]
    sizes: Numbers,
    /// Requests that a client sends at once, separated by commas.
    #[arg(long, value_name = "NUMBERS", default_value = "1,16", value_parser = numbers)]
    pipelines: Numbers,
}

/// A generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Generator {
    Ours,
    RedisBenchmark,
    Memtier,
}

/// A kind of run.
#[derive(Clone, Copy, Debug)]
struct Kind {
    is_write: bool,
    size: u64,
    pipeline: u64,
    requests: u64,
}

impl Generator {
    fn name(self) -> &'static str {
        match self {
            Generator::Ours => "perdura-bench load",
            Generator::RedisBenchmark => "redis-benchmark",
            Generator::Memtier => "memtier_benchmark",
        }
    }

    fn is_there(self) -> bool {
        self == Generator::Ours || on_path(self.name()).is_some()
    }

    /// Returns its command line.
    fn words(self, port: u16, kind: Kind) -> String {
        let Kind { is_write, size, pipeline, requests } = kind;
        if self == Generator::RedisBenchmark {
            let key = "key:__rand_int__";
            let value = "x".repeat(usize::try_from(size).unwrap_or(0));
            let what = if is_write { format!("SET {key} {value}") } else { format!("GET {key}") };
            return format!(
                "-p {port} -c {CLIENTS} -n {requests} -P {pipeline} -r {KEYS} -q {what}"
            );
        }
        let load = if self == Generator::Ours { "load " } else { "" };
        let ratio = if is_write { "1:0" } else { "0:1" };
        let (each, last) = (requests / CLIENTS, FIRST + KEYS - 1);
        format!(
            "{load}-s 127.0.0.1 -p {port} -t 1 -c {CLIENTS} -n {each} -d {size} --pipeline {pipeline} \
             --ratio {ratio} --key-prefix key: --key-minimum {FIRST} --key-maximum {last} \
             --distinct-client-seed --hide-histogram"
        )
    }

    /// Returns CPU microseconds of a request: user, system.
    fn run(self, bench: &Bench<'_>, host: &Host, kind: Kind) -> Result<(f64, f64), Failure> {
        let program = match self {
            Generator::Ours => bench.tool.display().to_string(),
            _ => self.name().to_owned(),
        };
        let words = self.words(host.server.port(), kind);
        let before = children();
        let mut command = bench.on_core(bench.client_core, &program);
        let output = command.args(words.split(' ')).stdin(Stdio::null()).output();
        let output = output.map_err(|cause| Failure::Start { what: program, cause })?;
        if !output.status.success() {
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            return Err(Failure::Generator(format!("{} {words}:\n{out}{err}", self.name())));
        }
        let after = children();
        let each = |after: f64, before: f64| (after - before) / kind.requests as f64 * 1e6;
        Ok((each(after.0, before.0), each(after.1, before.1)))
    }
}

/// Returns CPU seconds of all children that have ended: user, system.
fn children() -> (f64, f64) {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    (ticks(&text, 13..14).as_secs_f64(), ticks(&text, 14..15).as_secs_f64())
}

/// Measures and prints.
pub fn run(options: &Options, cancel: &AtomicBool) -> Verdict {
    super::verdict(measure(options, cancel))
}

fn measure(options: &Options, cancel: &AtomicBool) -> Result<(), Failure> {
    let bench = options.common.bench(cancel)?;
    let all = [Generator::Ours, Generator::RedisBenchmark, Generator::Memtier];
    let generators: Vec<_> = all.into_iter().filter(|generator| generator.is_there()).collect();
    let head = ["generator", "test", "bytes", "pipeline", "user_us", "system_us"];
    let mut raw = options.common.raw("generators", &head)?;
    for size in &options.sizes.0 {
        for pipeline in &options.pipelines.0 {
            for is_write in [true, false] {
                let requests = options.requests * if *pipeline > 1 { 4 } else { 1 };
                let requests = requests / CLIENTS * CLIENTS;
                let kind = Kind { is_write, size: *size, pipeline: *pipeline, requests };
                of(&bench, &generators, options.rounds, kind, &mut raw)?;
            }
        }
    }
    raw.finish();
    Ok(())
}

/// Returns all generators in turn, round by round, and their table.
fn of(
    bench: &Bench<'_>,
    generators: &[Generator],
    rounds: u32,
    kind: Kind,
    raw: &mut Raw,
) -> Result<(), Failure> {
    let Kind { is_write, size, pipeline, .. } = kind;
    let test = if is_write { "SET" } else { "GET" };
    let server = super::systems::named("redis none").expect("it is in the table");
    let host = bench.start(server, &[bench.server_core])?;
    for first in [0, FIRST] {
        host.fill(first, KEYS, usize::try_from(size).unwrap_or(0))?;
    }
    let mut found = vec![(Vec::new(), Vec::new()); generators.len()];
    for round in 0..rounds as usize {
        for turn in 0..generators.len() {
            let at = (round + turn) % generators.len();
            let (user, system) = generators[at].run(bench, &host, kind)?;
            raw.add(cells![generators[at].name(), test, size, pipeline, user, system])?;
            found[at].0.push(user);
            found[at].1.push(system);
            bench.go_on()?;
        }
    }
    let both = |(user, system): &(Vec<f64>, Vec<f64>)| -> Vec<f64> {
        user.iter().zip(system).map(|(user, system)| user + system).collect()
    };
    let ours = both(&found[0]);
    let row = |(generator, times): (&Generator, &(Vec<f64>, Vec<f64>))| {
        let ratio = ratio(&both(times), &ours).map_or("-".into(), |ratio| {
            format!("{:.2} ({:.2} to {:.2})", ratio.median, ratio.lowest, ratio.highest)
        });
        cells![
            generator.name(),
            format!("{:.2}", median(&both(times))),
            format!("{:.2}", median(&times.0)),
            format!("{:.2}", median(&times.1)),
            ratio,
        ]
    };
    println!("\n## {test} of {size} bytes, pipeline {pipeline}, {CLIENTS} clients\n");
    let rows: Vec<_> = generators.iter().zip(&found).map(row).collect();
    println!("{}", table(cells!["", "us CPU", "user", "system", "to ours"], &rows));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generator_gets_the_same() {
        let kind = Kind { is_write: true, size: 3, pipeline: 16, requests: 1000 };
        let ours = Generator::Ours.words(7, kind);
        assert!(
            ours.starts_with("load -s 127.0.0.1 -p 7 -t 1 -c 50 -n 20 -d 3 --pipeline 16"),
            "{ours}"
        );
        assert_eq!(Generator::Memtier.words(7, kind), ours.replace("load -s", "-s"));
        let redis = Generator::RedisBenchmark.words(7, kind);
        assert_eq!(redis, "-p 7 -c 50 -n 1000 -P 16 -r 10000 -q SET key:__rand_int__ xxx");
    }
}
