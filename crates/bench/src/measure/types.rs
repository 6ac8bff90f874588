//! Commands on lists, hashes, sets, sorted sets and streams: requests a second, CPU time, and bytes
//! of memory per element, compared with redis-server.
//!
//! The small part is redis-benchmark's own set of tests, on the keys that it uses. The large part
//! asks sorted sets of a million members, hashes of as many fields, and so on, for elements that
//! are chosen at random.

use super::Measurement;
use super::bench::Bench;
use super::common::{Common, Numbers, factor, numbers};
use super::large;
use super::print::{Pair, Raw, median, ratio_of, shown};
use super::redis_benchmark::{self, Load};
use super::systems::System;
use crate::server::{Failure, Server, command};
use crate::table::{Table, cells};

pub(super) const PAIRS: [Pair; 3] = [
    ("perdura volatile", "redis none"),
    ("perdura volatile all cores", "redis none"),
    ("perdura pmem emulated", "redis none"),
];
pub(super) const CLIENTS: u64 = 50;

/// redis-benchmark's names of its tests; `lrange` is all of LRANGE_100 to LRANGE_600, which it
/// fills by itself.
const TESTS: &str = "lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,mset,xadd,lrange";

/// Requests of one run at pipeline 1; those with long replies take a tenth, a pipeline takes five
/// times that.
const REQUESTS: f64 = 50_000.0;

/// Random numbers in redis-benchmark's keys are below this.
const KEYS: u64 = 100_000;

/// Requests a second and bytes per element of lists, hashes, sets, sorted sets and streams.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) common: Common,
    /// How often each system has its turn.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// Requests of a run, times this.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    scale: f64,
    /// Requests that a client sends at once, separated by commas; memory alone with an empty list.
    #[arg(long, value_name = "NUMBERS", default_value = "1,16", value_parser = numbers)]
    pub(super) pipelines: Numbers,
    /// Tests of redis-benchmark, separated by commas; none with an empty list.
    #[arg(long, value_name = "NAMES", default_value = TESTS)]
    tests: String,
    /// Elements of large values; 0 leaves them out.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(super) members: u64,
}

impl Options {
    fn tests(&self) -> Vec<&str> {
        self.tests.split(',').filter(|test| !test.is_empty()).collect()
    }

    /// Requests of a run with so long a pipeline.
    pub(super) fn requests(&self, pipeline: u64) -> u64 {
        let scaled = (REQUESTS * self.scale).max(1.0) as u64;
        scaled * if pipeline > 1 { 5 } else { 1 }
    }
}

impl Measurement for Options {
    const SYSTEMS: &[&str] = &["redis none", "perdura volatile", "perdura pmem emulated"];

    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self, _: &[&System]) -> Result<(), String> {
        let unknown = self.tests().into_iter().find(|test| !TESTS.split(',').any(|t| t == *test));
        match unknown {
            Some(test) => Err(format!("no test {test}; there are: {TESTS}")),
            None => Ok(()),
        }
    }

    fn measure(&self, bench: &Bench<'_>, systems: &[&'static System]) -> Result<(), Failure> {
        let head = ["kind", "system", "test", "pipeline", "value", "cpu_us"];
        let mut raw = self.common.raw("types", &head)?;
        if !self.tests().is_empty() {
            for pipeline in &self.pipelines.0 {
                small(self, bench, systems, *pipeline, &mut raw)?;
            }
        }
        if self.members > 0 {
            large::measure(self, bench, systems, &mut raw)?;
        }
        raw.finish();
        Ok(())
    }
}

/// Rates and CPU times of tests, by the position of a system and in the order of the first run.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    tests: Vec<String>,
    systems: usize,
    rates: Vec<Vec<Vec<f64>>>,
    cpu: Vec<Vec<Vec<f64>>>,
}

impl Samples {
    pub(super) fn new(systems: usize) -> Samples {
        Samples { systems, ..Samples::default() }
    }

    pub(super) fn add(&mut self, test: &str, system: usize, rate: f64, cpu: f64) {
        let at = self.tests.iter().position(|known| known == test).unwrap_or_else(|| {
            self.tests.push(test.to_owned());
            self.rates.push(vec![Vec::new(); self.systems]);
            self.cpu.push(vec![Vec::new(); self.systems]);
            self.tests.len() - 1
        });
        self.rates[at][system].push(rate);
        self.cpu[at][system].push(cpu);
    }

    /// Prints a table of rates and CPU times, and the ratios of both.
    pub(super) fn print(&self, title: &str, systems: &[&System]) {
        println!("\n## {title}\n");
        let is_there = |name: &str| systems.iter().any(|system| system.name == name);
        let pairs: Vec<Pair> =
            PAIRS.into_iter().filter(|(one, other)| is_there(one) && is_there(other)).collect();
        let mut head = cells!["test"];
        head.extend(
            systems.iter().flat_map(|s| [format!("{}, a second", s.name), "us CPU".into()]),
        );
        for (one, other) in &pairs {
            head.extend([format!("{one} to {other}"), "the same of CPU time".into()]);
        }
        let mut table = Table::new(head);
        for (at, test) in self.tests.iter().enumerate() {
            let mut row = vec![test.clone()];
            for system in 0..systems.len() {
                row.push(format!("{:.0}", median(&self.rates[at][system])));
                row.push(format!("{:.2}", median(&self.cpu[at][system])));
            }
            for pair in &pairs {
                for values in [&self.rates[at], &self.cpu[at]] {
                    row.push(shown(ratio_of(systems, values, *pair)));
                }
            }
            table.add(row);
        }
        println!("{}", table.markdown());
    }
}

/// Returns the command that fills what a test pops, so that it finds as much as it takes.
fn filling(test: &str) -> Option<fn(u64) -> String> {
    match test {
        "lpop" | "rpop" => Some(|n| format!("RPUSH mylist element:{n:012}")),
        "spop" => Some(|n| format!("SADD myset element:{n:012}")),
        "zpopmin" => Some(|n| format!("ZADD myzset {n} element:{n:012}")),
        _ => None,
    }
}

/// Runs redis-benchmark's own tests.
fn small(
    options: &Options,
    bench: &Bench<'_>,
    systems: &[&System],
    pipeline: u64,
    raw: &mut Raw,
) -> Result<(), Failure> {
    let requests = options.requests(pipeline);
    let mut found = Samples::new(systems.len());
    bench.take_turns(systems, options.rounds, |at, server| {
        for test in options.tests() {
            for (label, rate, cpu) in one(bench, server, test, requests, pipeline)? {
                raw.add(cells!["small", systems[at].name, label, pipeline, rate, cpu])?;
                found.add(&label, at, rate, cpu);
            }
        }
        Ok(())
    })?;
    let title = format!(
        "redis-benchmark's tests, pipeline {pipeline}, {CLIENTS} clients, {requests} requests a run"
    );
    found.print(&title, systems);
    Ok(())
}

/// Returns one of redis-benchmark's tests: label, rate and CPU time of each of its lines.
fn one(
    bench: &Bench<'_>,
    server: &Server,
    test: &str,
    requests: u64,
    pipeline: u64,
) -> Result<Vec<(String, f64, f64)>, Failure> {
    let filling = filling(test);
    if let Some(line) = filling {
        server.send(requests, |n| command(&line(n)))?;
    }
    let is_range = test == "lrange";
    let requests = if is_range { (requests / 10).max(1000) } else { requests };
    let load = Load { requests, clients: CLIENTS, pipeline, keys: KEYS };
    // redis-benchmark 7.0 has no test of XADD: this is that of its later versions.
    let (what, name): (&[&str], _) = match test {
        "xadd" => (&["XADD", "mystream", "*", "myfield", "xxx"], Some("XADD")),
        _ => (&["-t", test], None),
    };
    let (rows, cpu) = redis_benchmark::run(bench, server, bench.client_core, load, what)?;
    if filling.is_some() || is_range {
        server.ask::<()>("FLUSHALL")?;
    }
    let rows = rows.into_iter().filter(|row| !is_range || row.test.starts_with("LRANGE"));
    let label = |test: &str| test.split(" (").next().unwrap_or_default().to_owned();
    Ok(rows
        .map(|row| (name.map_or_else(|| label(&row.test), str::to_owned), row.rate, cpu))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_kept_by_test_and_system() {
        let mut samples = Samples::new(2);
        samples.add("SET", 0, 1.0, 0.5);
        samples.add("GET", 0, 3.0, 0.5);
        samples.add("SET", 1, 2.0, 0.25);
        assert_eq!(samples.tests, ["SET", "GET"]);
        assert_eq!(samples.rates[0], [vec![1.0], vec![2.0]]);
        assert_eq!(samples.cpu[1], [vec![0.5], vec![]]);
    }
}
