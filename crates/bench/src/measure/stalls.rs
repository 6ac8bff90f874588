//! How long others wait while one client sends long commands.
//!
//! Each scenario gets a fresh server with data, a client that repeats one long command, and probes
//! (`probes`): PING, GET of a key in another shard, and GET of one in the shard that the
//! command needs. Servers are not pinned to cores, and a machine with fewer cores than busy threads
//! adds the time that its scheduler takes. What that was is known for each scenario: the same
//! probes ask, at the same time, an *echo*, threads of this program that do nothing else. Two
//! scenarios have no long command.
//!
//! **Invariant:** every wait is bounded, so that a server which hangs costs a row and not the run.

mod long;
mod probes;
mod scenarios;

use super::Measurement;
use super::bench::Bench;
use super::common::{Common, Numbers, numbers};
use super::print::{Raw, median};
use super::systems::{self, Program, System};
use crate::compare::options::{absolute, peer};
use crate::machine;
use crate::server::{Failure, Server};
use crate::table::{Table, cells};
use crate::units::parse_seconds;
use long::Long;
use probes::{Found, Group};
use scenarios::{Act, Scenario};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server is left alone after its data was loaded, and how long the probes have to
/// connect.
const REST: Duration = Duration::from_millis(300);
const CONNECT: Duration = Duration::from_millis(50);
/// The requests of the probes, in the order of the columns.
const PROBES: [&str; 4] = ["PING", "GET elsewhere", "GET there", "echo"];

/// PING and GET next to long commands: p50, p99, p99.9, maximum, by number of threads.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = scenarios::help())]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Numbers of threads of Perdura, separated by commas.
    #[arg(long, value_name = "NUMBERS", default_value = "1,2,8", value_parser = numbers)]
    threads: Numbers,
    /// Other servers that take redis-server's arguments, separated by commas.
    #[arg(long, value_name = "NAME=PATH", value_delimiter = ',', env = "BENCH_PEERS")]
    #[arg(value_parser = peer)]
    peer: Vec<(String, PathBuf)>,
    /// Scenarios, separated by commas [default: all].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Members of each large value.
    #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    members: u64,
    /// Seconds in which a long command is repeated; it runs at least once.
    #[arg(long, value_name = "S", default_value = "3", value_parser = parse_seconds)]
    seconds: f64,
    /// Seconds after which a command without a reply counts as stalled.
    #[arg(long, value_name = "S", default_value = "20", value_parser = parse_seconds)]
    patience: f64,
    /// Connections of each kind of probe.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,
    /// Requests a second of each of these connections.
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
}

/// A system, as it is run.
struct Subject {
    name: String,
    system: &'static System,
    /// Another program in the place of redis-server.
    program: Option<PathBuf>,
    threads: Option<u64>,
}

/// The figures of one scenario.
struct Row {
    scenario: &'static Scenario,
    found: Vec<Found>,
    times: Vec<f64>,
    remark: String,
}

impl Measurement for Options {
    const SYSTEMS: &[&str] = &["perdura volatile"];

    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self, _: &[&System]) -> Result<(), String> {
        scenarios::chosen(&self.scenarios).map(drop)
    }

    fn measure(&self, bench: &Bench<'_>, systems: &[&'static System]) -> Result<(), Failure> {
        for (name, path) in &self.peer {
            println!("{}", machine::version(name, path).text);
        }
        let scenarios = scenarios::chosen(&self.scenarios).map_err(Failure::Generator)?;
        let head = "system scenario probe count unanswered errors p50_us p99_us p99.9_us max_us commands command_ms remark";
        let mut raw = self.common.raw("stalls", &head.split(' ').collect::<Vec<_>>())?;
        let mut tables = Vec::new();
        for subject in self.subjects(systems) {
            let redis = subject.program.as_ref().unwrap_or(&bench.redis).clone();
            let bench = Bench { redis, ..bench.clone() };
            let mut rows = Vec::new();
            let result: Result<(), Failure> = scenarios.iter().try_for_each(|scenario| {
                bench.go_on()?;
                let row = one(self, &bench, &subject, scenario)?;
                eprintln!("{}: {}: longest {} ms", subject.name, scenario.name, row.longest());
                row.keep(&subject, &mut raw)?;
                rows.push(row);
                Ok(())
            });
            print(self, &subject, &rows);
            result?;
            tables.push((subject.name, rows));
        }
        print_all(&tables);
        raw.finish();
        Ok(())
    }
}

impl Options {
    /// Returns each system with each number of threads, and the peers.
    fn subjects(&self, systems: &[&'static System]) -> Vec<Subject> {
        let mut subjects = Vec::new();
        for system in systems {
            let is_ours = system.program == Program::Perdura;
            let threads =
                if is_ours { self.threads.0.iter().map(Some).collect() } else { vec![None] };
            subjects.extend(threads.into_iter().map(|threads| {
                let name = match threads {
                    Some(threads) => format!("{}, --threads {threads}", system.name),
                    None => system.name.to_owned(),
                };
                Subject { name, system, program: None, threads: threads.copied() }
            }));
        }
        let system = systems::named("redis none").expect("it is in the table");
        subjects.extend(self.peer.iter().map(|(name, path)| {
            let program = Some(absolute(path));
            Subject { name: name.clone(), system, program, threads: None }
        }));
        subjects
    }
}

/// Runs a scenario with a server of its own.
fn one(
    options: &Options,
    bench: &Bench<'_>,
    subject: &Subject,
    scenario: &'static Scenario,
) -> Result<Row, Failure> {
    let threads = subject.threads.map(|threads| ["--threads".into(), threads.to_string()]);
    let server = bench.start(subject.system, &[], threads.as_ref().map_or(&[], |t| t))?;
    for (count, make) in scenario.data {
        server.send(count(options.members), |number| make(options.members, number))?;
    }
    for key in [scenarios::THERE, scenarios::ELSEWHERE] {
        server.ask::<()>(&format!("SET {key} 0123456789abcdef"))?;
    }
    let groups = groups(options, &server, scenario)?;
    thread::sleep(REST);
    let stop = AtomicBool::new(false);
    let (found, times, mut remark) = thread::scope(|scope| {
        let stop = &stop;
        let probing = groups.each_ref().map(|group| scope.spawn(move || group.probe(stop)));
        thread::sleep(CONNECT);
        let (times, remark) = disturb(options, bench, &server, scenario);
        stop.store(true, Ordering::Relaxed);
        let panicked = |_| Failure::Generator("a probe panicked".into());
        let found = probing.into_iter().map(|probe| probe.join().map_err(panicked)?);
        Ok::<_, Failure>((found.collect::<Result<Vec<_>, _>>()?, times, remark))
    })?;
    for (name, found) in PROBES.iter().zip(&found) {
        if found.unanswered > 0 {
            remark += &format!("; {} {name} unanswered", found.unanswered);
        }
        if found.errors > 0 {
            remark += &format!("; {} {name} refused", found.errors);
        }
    }
    let remark = remark.trim_start_matches("; ").to_owned();
    Ok(Row { scenario, found, times, remark })
}

fn groups(options: &Options, server: &Server, scenario: &Scenario) -> Result<[Group; 4], Failure> {
    let (all, rate, server) = (options.connections, options.rate, server.port());
    let group = |port, request: &str, connections, rate| Group {
        port,
        request: request.into(),
        connections,
        rate,
    };
    let get = |key| format!("GET {key}");
    // Many readers ask less each: all of them together ask as often.
    let (readers, slower) = match scenario.readers {
        0 => (all, rate),
        readers => (readers, (rate * all / readers).max(1)),
    };
    let echo = probes::echo(all).map_err(Failure::of("a thread that answers"))?;
    Ok([
        group(server, "PING", all, rate),
        group(server, &get(scenarios::ELSEWHERE), all, rate),
        group(server, &get(scenarios::THERE), readers, slower),
        group(echo, "PING", all, rate),
    ])
}

/// Repeats the long command: how long each took, and what is to be said of it.
fn disturb(
    options: &Options,
    bench: &Bench<'_>,
    server: &Server,
    scenario: &Scenario,
) -> (Vec<f64>, String) {
    let end = Instant::now() + Duration::from_secs_f64(options.seconds);
    let patience = Duration::from_secs_f64(options.patience);
    let (mut times, mut remark) = (Vec::new(), String::new());
    let mut repeat = || {
        let mut long = Long::connect(server.port(), patience)?;
        for number in 0..scenario.times {
            if bench.go_on().is_err() || number > 0 && Instant::now() >= end {
                break;
            }
            let time = match scenario.act {
                Act::Nothing => break,
                Act::Compute => compute(end),
                Act::Ask(make) => long.ask(&make(options.members, number))?,
                Act::Kill(make) => long.kill(&make(options.members, number))?,
            };
            times.push(time.as_secs_f64() * 1e3);
            if let Some(error) = long.take_error() {
                remark = format!("; error: {error}");
            }
        }
        Ok(())
    };
    let result: std::io::Result<()> = repeat();
    match result {
        Ok(()) => thread::sleep(end.saturating_duration_since(Instant::now())),
        Err(error) if long::is_timeout(&error) => {
            remark = format!("; **stalled**: no reply within {} s ({error})", options.patience);
        }
        Err(error) => remark = format!("; **failed**: {error}"),
    }
    (times, remark)
}

fn compute(end: Instant) -> Duration {
    let began = Instant::now();
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    began.elapsed()
}

fn millis(micros: f64) -> String {
    format!("{:.2}", micros / 1e3)
}

const PERCENTILES: [f64; 4] = [50.0, 99.0, 99.9, 100.0];

impl Row {
    fn median(&self) -> String {
        if self.times.is_empty() { String::new() } else { format!("{:.1}", median(&self.times)) }
    }

    fn longest(&self) -> String {
        let all = PROBES.iter().zip(&self.found);
        let all = all.map(|(name, found)| format!("{name} {}", millis(found.latency.highest())));
        all.collect::<Vec<_>>().join(", ")
    }

    /// Returns the row of the table.
    fn cells(&self) -> Vec<String> {
        let mut row = cells![self.scenario.name, self.scenario.needs.name(), self.times.len()];
        row.push(self.median());
        for Found { latency, .. } in &self.found {
            row.extend(PERCENTILES.map(|percent| millis(latency.percentile(percent))));
        }
        row
    }

    /// Writes the raw figures.
    fn keep(&self, subject: &Subject, raw: &mut Raw) -> Result<(), Failure> {
        for (probe, Found { latency, unanswered, errors }) in PROBES.iter().zip(&self.found) {
            let mut line = cells![subject.name, self.scenario.name, probe, latency.count()];
            line.extend(cells![unanswered, errors]);
            line.extend(PERCENTILES.map(|percent| latency.percentile(percent).to_string()));
            line.extend(cells![self.times.len(), self.median(), self.remark]);
            raw.add(line)?;
        }
        Ok(())
    }
}

fn print(options: &Options, subject: &Subject, rows: &[Row]) {
    let Options { members, connections, rate, .. } = options;
    let probes = format!("{connections} probes of each kind, {rate} requests a second each");
    println!("\n## {}: {members} members, {probes}, in ms\n", subject.name);
    let mut head = cells!["", "needs", "commands", "median"];
    for probe in PROBES {
        head.extend([format!("{probe} p50"), "p99".into(), "p99.9".into(), "max".into()]);
    }
    let mut table = Table::new(head);
    rows.iter().for_each(|row| table.add(row.cells()));
    println!("{}", table.markdown());
    for row in rows.iter().filter(|row| !row.remark.is_empty()) {
        println!("- {}: {}", row.scenario.name, row.remark);
    }
}

/// Prints what those had to wait who need nothing of the long command, of all systems, and the
/// echo's clients.
fn print_all(tables: &[(String, Vec<Row>)]) {
    let Some((_, first)) = tables.first() else { return };
    for (at, probe) in PROBES.iter().enumerate().filter(|(_, probe)| **probe != "GET there") {
        println!("\n## {probe}: p99.9 / maximum, in ms\n");
        let systems = tables.iter().map(|(name, _)| name.clone());
        let mut table = Table::new(cells![""].into_iter().chain(systems));
        for (number, row) in first.iter().enumerate() {
            let of = |(_, rows): &(String, Vec<Row>)| {
                let latency = &rows[number].found[at].latency;
                format!("{} / {}", millis(latency.percentile(99.9)), millis(latency.highest()))
            };
            table.add(cells![row.scenario.name].into_iter().chain(tables.iter().map(of)).collect());
        }
        println!("{}", table.markdown());
    }
}
