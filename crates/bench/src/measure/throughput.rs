//! Throughput, CPU time and latency of SET and GET, compared with redis-server.
//!
//! Each run has a fresh server, filled before. Only the latency of one client is measured with both
//! processes on one core: on two it would be the time that the machine takes to wake a core up.

use super::Measurement;
use super::bench::{Bench, fill};
use super::common::{Common, Numbers, factor, numbers};
use super::print::{Pair, Raw, median, ratios, spread};
use super::redis_benchmark::{self, Load};
use super::systems::System;
use crate::server::{Failure, Server};
use crate::table::{Table, cells};

const PAIRS: [Pair; 10] = [
    ("perdura volatile", "redis none"),
    ("perdura pmem emulated", "perdura volatile"),
    ("perdura pmem emulated", "redis always"),
    ("perdura aof always", "redis always"),
    ("perdura aof everysec", "redis everysec"),
    ("perdura journal always", "redis always"),
    ("perdura journal always", "perdura aof always"),
    ("perdura journal everysec", "redis everysec"),
    ("perdura journal everysec", "perdura aof everysec"),
    ("perdura journal everysec", "perdura volatile"),
];
const CLIENTS: u64 = 50;
const LATENCY_OPERATIONS: f64 = 50_000.0;

/// Throughput, CPU time per operation and latency of SET and GET: medians of alternating runs.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// How often each system has its turn.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Operations of a run, times this.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    scale: f64,
    /// Bytes of values, separated by commas.
    #[arg(long, value_name = "BYTES", default_value = "32,4096", value_parser = numbers)]
    sizes: Numbers,
    /// Requests that a client sends at once, separated by commas; none with an empty list.
    #[arg(long, value_name = "NUMBERS", default_value = "1,16", value_parser = numbers)]
    pipelines: Numbers,
    /// Leave the latency of one client out.
    #[arg(long)]
    no_latency: bool,
}

/// Returns how many keys are filled, by the size of their values.
fn keys(size: u64) -> u64 {
    if size <= 1024 { 100_000 } else { 20_000 }
}

/// Operations of one run: about a second or two.
fn operations(size: u64, pipeline: u64) -> f64 {
    match (size <= 1024, pipeline > 1) {
        (true, false) => 150_000.0,
        (true, true) => 1_000_000.0,
        (false, false) => 100_000.0,
        (false, true) => 250_000.0,
    }
}

fn scaled(operations: f64, scale: f64) -> u64 {
    (operations * scale).max(1000.0) as u64
}

impl Measurement for Options {
    const SYSTEMS: &[&str] = &[
        "redis none",
        "redis everysec",
        "redis always",
        "perdura volatile",
        "perdura pmem emulated",
        "perdura aof everysec",
        "perdura aof always",
    ];

    fn common(&self) -> &Common {
        &self.common
    }

    fn measure(&self, bench: &Bench<'_>, systems: &[&'static System]) -> Result<(), Failure> {
        let head = "kind system test bytes pipeline clients rps p50_ms p99_ms cpu_us";
        let head: Vec<&str> = head.split(' ').collect();
        let mut raw = self.common.raw("throughput", &head)?;
        for size in &self.sizes.0 {
            for pipeline in &self.pipelines.0 {
                throughput(self, bench, systems, &mut raw, *size, *pipeline)?;
            }
        }
        if !self.no_latency {
            for size in &self.sizes.0 {
                latency(self, bench, systems, &mut raw, *size)?;
            }
        }
        raw.finish();
        Ok(())
    }
}

/// The samples of one system: rates, times, CPU microseconds.
#[derive(Clone, Debug, Default)]
struct Samples {
    rate: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    cpu: Vec<f64>,
}

/// One run of SET or GET by this many clients, added to the samples and the raw figures.
struct Run<'r> {
    bench: &'r Bench<'r>,
    kind: &'static str,
    system: &'static str,
    size: u64,
    load: Load,
    core: usize,
}

impl Run<'_> {
    fn of(
        &self,
        test: &str,
        server: &Server,
        samples: &mut Samples,
        raw: &mut Raw,
    ) -> Result<(), Failure> {
        let bytes = self.size.to_string();
        let what = ["-t", test, "-d", &bytes];
        let (rows, cpu) = redis_benchmark::run(self.bench, server, self.core, self.load, &what)?;
        let row = &rows[rows.len() - 1];
        let Load { pipeline, clients, .. } = self.load;
        raw.add(cells![
            self.kind,
            self.system,
            test,
            self.size,
            pipeline,
            clients,
            row.rate,
            row.p50_ms,
            row.p99_ms,
            cpu
        ])?;
        samples.rate.push(row.rate);
        samples.p50.push(row.p50_ms * 1000.0);
        samples.p99.push(row.p99_ms);
        samples.cpu.push(cpu);
        Ok(())
    }
}

/// Measures SET and GET by fifty clients.
fn throughput(
    options: &Options,
    bench: &Bench<'_>,
    systems: &[&System],
    raw: &mut Raw,
    size: u64,
    pipeline: u64,
) -> Result<(), Failure> {
    let requests = scaled(operations(size, pipeline), options.scale);
    let load = Load { requests, clients: CLIENTS, pipeline, keys: keys(size) };
    let mut found =
        [vec![Samples::default(); systems.len()], vec![Samples::default(); systems.len()]];
    bench.take_turns(systems, options.rounds, |at, server| {
        fill(server, 0, keys(size), size as usize)?;
        let (kind, system, core) = ("throughput", systems[at].name, bench.client_core);
        let run = Run { bench, kind, system, size, load, core };
        for (test, samples) in ["set", "get"].into_iter().zip(&mut found) {
            run.of(test, server, &mut samples[at], raw)?;
        }
        Ok(())
    })?;
    println!(
        "\n## {size} bytes, pipeline {pipeline}, {CLIENTS} clients, {requests} operations a run\n"
    );
    let mut table = Table::new([
        "", "SET/s", "spread %", "us CPU", "p99 ms", "GET/s", "spread %", "us CPU", "p99 ms",
    ]);
    for (at, system) in systems.iter().enumerate() {
        let mut row = cells![system.name];
        for Samples { rate, cpu, p99, .. } in found.iter().map(|samples| &samples[at]) {
            row.extend([format!("{:.0}", median(rate)), format!("{:.0}", spread(rate))]);
            row.extend([format!("{:.2}", median(cpu)), format!("{:.3}", median(p99))]);
        }
        table.add(row);
    }
    println!("{}", table.markdown());
    for (test, (samples, pairs)) in
        ["SET", "GET"].into_iter().zip(found.iter().zip([&PAIRS[..], &PAIRS[..1]]))
    {
        let rates: Vec<_> = samples.iter().map(|samples| samples.rate.clone()).collect();
        let cpu: Vec<_> = samples.iter().map(|samples| samples.cpu.clone()).collect();
        ratios(&format!("{test} a second"), pairs, systems, &rates);
        ratios(&format!("CPU time of a {test}"), pairs, systems, &cpu);
    }
    Ok(())
}

/// Measures SET by one client, one command at a time, on the server's core.
fn latency(
    options: &Options,
    bench: &Bench<'_>,
    systems: &[&System],
    raw: &mut Raw,
    size: u64,
) -> Result<(), Failure> {
    let requests = scaled(LATENCY_OPERATIONS, options.scale);
    let load = Load { requests, clients: 1, pipeline: 1, keys: keys(size) };
    let mut found = vec![Samples::default(); systems.len()];
    bench.take_turns(systems, options.rounds, |at, server| {
        fill(server, 0, keys(size), size as usize)?;
        let (kind, system, core) = ("latency", systems[at].name, bench.server_core);
        Run { bench, kind, system, size, load, core }.of("set", server, &mut found[at], raw)
    })?;
    println!(
        "\n## Latency of SET of {size} bytes, one client, both on one core, {requests} operations\n"
    );
    let mut table = Table::new(["", "p50 us", "p99 us", "SET/s", "spread %", "us CPU"]);
    for (system, Samples { rate, p50, p99, cpu }) in systems.iter().zip(&found) {
        table.add(cells![
            system.name,
            format!("{:.0}", median(p50)),
            format!("{:.0}", median(p99) * 1000.0),
            format!("{:.0}", median(rate)),
            format!("{:.0}", spread(rate)),
            format!("{:.2}", median(cpu)),
        ]);
    }
    println!("{}", table.markdown());
    let p50: Vec<_> = found.iter().map(|samples| samples.p50.clone()).collect();
    let p99: Vec<_> = found.iter().map(|samples| samples.p99.clone()).collect();
    ratios("p50", &PAIRS, systems, &p50);
    ratios("p99", &PAIRS, systems, &p99);
    Ok(())
}
