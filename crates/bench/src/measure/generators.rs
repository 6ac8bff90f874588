//! The generators themselves: `perdura-bench load`, redis-benchmark and, where it is installed,
//! memtier_benchmark, against the same redis-server. What rate each reaches, and its CPU time per
//! request.
//!
//! On a small machine a generator takes CPU time that the server would need, so a cheap one
//! measures more of the server. Generators take turns on one core with one thread. Their CPU time
//! counts to the end of the process, its start included; the kernel tells it in hundredths of a
//! second. All keys that are read are there.

use super::Measurement;
use super::bench::{Bench, fill};
use super::common::{Common, Numbers, numbers};
use super::print::{Raw, median, shown};
use super::systems::System;
use crate::compare::systems::on_path;
use crate::server::{Failure, Server, ticks};
use crate::stats::ratio;
use crate::table::{Table, cells};
use std::fs;
use std::process::Stdio;
use std::time::Instant;

const CLIENTS: u64 = 50;
const KEYS: u64 = 10_000;

/// The first key of the generators with memtier_benchmark's options, whose keys have twelve digits.
const FIRST: u64 = 100_000_000_000;

/// CPU time per request, and rates, of generators of load: medians of alternating runs.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
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

/// The cost of a run: microseconds of CPU time of a request, and requests a second.
struct Taken {
    user: f64,
    system: f64,
    rate: f64,
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
        let (load, quiet) = match self {
            Generator::Ours => ("load ", "--quiet"),
            _ => ("", "--hide-histogram"),
        };
        let ratio = if is_write { "1:0" } else { "0:1" };
        let (each, last) = (requests / CLIENTS, FIRST + KEYS - 1);
        format!(
            "{load}-s 127.0.0.1 -p {port} -t 1 -c {CLIENTS} -n {each} -d {size} --pipeline {pipeline} \
             --ratio {ratio} --key-prefix key: --key-minimum {FIRST} --key-maximum {last} \
             --distinct-client-seed {quiet}"
        )
    }

    fn run(self, bench: &Bench<'_>, server: &Server, kind: Kind) -> Result<Taken, Failure> {
        let program = match self {
            Generator::Ours => bench.tool.display().to_string(),
            _ => self.name().to_owned(),
        };
        let words = self.words(server.port(), kind);
        let (before, began) = (children(), Instant::now());
        let mut command = bench.on_core(bench.client_core, &program);
        let output = command.args(words.split(' ')).stdin(Stdio::null()).output();
        let output = output.map_err(Failure::of(program))?;
        if !output.status.success() {
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            return Err(Failure::Generator(format!("{} {words}:\n{out}{err}", self.name())));
        }
        let (after, requests) = (children(), kind.requests as f64);
        Ok(Taken {
            user: (after.0 - before.0) / requests * 1e6,
            system: (after.1 - before.1) / requests * 1e6,
            rate: requests / began.elapsed().as_secs_f64(),
        })
    }
}

/// Returns CPU seconds of all children that have ended: user, system.
fn children() -> (f64, f64) {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    (ticks(&text, 13..14).as_secs_f64(), ticks(&text, 14..15).as_secs_f64())
}

impl Measurement for Options {
    const SYSTEMS: &[&str] = &["redis none"];

    fn common(&self) -> &Common {
        &self.common
    }

    fn measure(&self, bench: &Bench<'_>, systems: &[&'static System]) -> Result<(), Failure> {
        let all = [Generator::Ours, Generator::RedisBenchmark, Generator::Memtier];
        let generators: Vec<_> = all.into_iter().filter(|generator| generator.is_there()).collect();
        let head = ["generator", "test", "bytes", "pipeline", "user_us", "system_us", "rate"];
        let mut raw = self.common.raw("generators", &head)?;
        for (size, pipeline) in self
            .sizes
            .0
            .iter()
            .flat_map(|size| self.pipelines.0.iter().map(move |pipeline| (*size, *pipeline)))
        {
            for is_write in [true, false] {
                let requests = self.requests * if pipeline > 1 { 4 } else { 1 };
                let requests = requests / CLIENTS * CLIENTS;
                let kind = Kind { is_write, size, pipeline, requests };
                self.of(bench, systems[0], &generators, kind, &mut raw)?;
            }
        }
        raw.finish();
        Ok(())
    }
}

impl Options {
    /// Lets all generators take turns with one kind of run, and prints their table.
    fn of(
        &self,
        bench: &Bench<'_>,
        system: &System,
        generators: &[Generator],
        kind: Kind,
        raw: &mut Raw,
    ) -> Result<(), Failure> {
        let Kind { is_write, size, pipeline, .. } = kind;
        let test = if is_write { "SET" } else { "GET" };
        let server = bench.start(system, &[bench.server_core], &[])?;
        for first in [0, FIRST] {
            fill(&server, first, KEYS, usize::try_from(size).unwrap_or(0))?;
        }
        let mut found: Vec<Vec<Taken>> = generators.iter().map(|_| Vec::new()).collect();
        bench.rounds(self.rounds, generators.len(), |at| {
            let taken = generators[at].run(bench, &server, kind)?;
            let Taken { user, system, rate } = taken;
            raw.add(cells![generators[at].name(), test, size, pipeline, user, system, rate])?;
            found[at].push(taken);
            Ok(())
        })?;
        println!("\n## {test} of {size} bytes, pipeline {pipeline}, {CLIENTS} clients\n");
        let of = |taken: &[Taken], figure: fn(&Taken) -> f64| -> Vec<f64> {
            taken.iter().map(figure).collect()
        };
        let cpu: fn(&Taken) -> f64 = |taken| taken.user + taken.system;
        let mut table =
            Table::new(["", "us CPU", "user", "system", "to ours", "requests/s", "to ours"]);
        for (generator, taken) in generators.iter().zip(&found) {
            let to_ours = |figure| shown(ratio(&of(taken, figure), &of(&found[0], figure)));
            let middle = |figure| median(&of(taken, figure));
            table.add(cells![
                generator.name(),
                format!("{:.2}", middle(cpu)),
                format!("{:.2}", middle(|taken| taken.user)),
                format!("{:.2}", middle(|taken| taken.system)),
                to_ours(cpu),
                format!("{:.0}", middle(|taken| taken.rate)),
                to_ours(|taken| taken.rate),
            ]);
        }
        println!("{}", table.markdown());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generator_gets_the_same() {
        let kind = Kind { is_write: true, size: 3, pipeline: 16, requests: 1000 };
        let same = "-s 127.0.0.1 -p 7 -t 1 -c 50 -n 20 -d 3 --pipeline 16 --ratio 1:0";
        for generator in [Generator::Ours, Generator::Memtier] {
            let words = generator.words(7, kind);
            assert!(words.trim_start_matches("load ").starts_with(same), "{words}");
        }
        let redis = Generator::RedisBenchmark.words(7, kind);
        assert_eq!(redis, "-p 7 -c 50 -n 1000 -P 16 -r 10000 -q SET key:__rand_int__ xxx");
    }
}
