//! Measures how long other clients wait while one client sends long commands.
//!
//! Each scenario gets a fresh server with data, a client that repeats one long command, and probes
//! (`probes`): PING, GET of a key in another shard, and GET of a key in the shard that the command
//! needs. Servers are not pinned to cores, and on a machine with fewer cores than busy threads the
//! scheduler adds to the waiting times. To show how much, further probes send their requests at the
//! same time to an *echo*: threads of this program that only reply. Two scenarios have no long
//! command.
//!
//! **Invariant:** every wait is bounded, so that a server that hangs costs one row, not the whole
//! run.

mod long;
mod probes;
mod scenarios;

use crate::Verdict;
use crate::compare::options::{Programs, Variants};
use crate::compare::systems::{Candidate, Catalogue, Ground, versions};
use crate::machine;
use crate::report::tables;
use crate::results::{Family, Machine};
use crate::server::{Failure, Server, remove_orphans};
use crate::stats::Summary;
use crate::table::{Table, cells};
use crate::units::parse_seconds;
use long::Long;
use probes::{Found, Group};
use scenarios::{Act, Scenario};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server rests after its data was loaded, and how long the probes have to connect.
const REST: Duration = Duration::from_millis(300);
const CONNECT: Duration = Duration::from_millis(50);
/// The requests of the probes, in the order of the columns.
const PROBES: [&str; 4] = ["PING", "GET elsewhere", "GET there", "echo"];

/// Measure PING and GET while another client sends long commands: p50, p99, p99.9, maximum, by
/// number of threads.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = scenarios::help())]
pub(crate) struct Options {
    /// Directory for the servers' logs and for the raw figures, stalls.tsv.
    #[arg(long, value_name = "DIR", default_value = "target/stalls")]
    out: PathBuf,
    /// Systems, separated by commas, named as in `perdura-bench compare`. Peers without a log are
    /// added.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "perdura-volatile")]
    systems: Vec<String>,
    #[command(flatten)]
    programs: Programs,
    /// Perdura's numbers of threads, separated by commas.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,2,8")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// Scenarios, separated by commas [default: all].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Members of each large value.
    #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    members: u64,
    /// Seconds for which a long command is repeated; it runs at least once.
    #[arg(long, value_name = "S", default_value = "3", value_parser = parse_seconds)]
    seconds: f64,
    /// Seconds after which a command without a reply is reported as stalled.
    #[arg(long, value_name = "S", default_value = "20", value_parser = parse_seconds)]
    patience: f64,
    /// Connections of each kind of probe.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,
    /// Requests a second of each of these connections.
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
}

/// The figures of one scenario on one system.
struct Row {
    system: String,
    scenario: &'static Scenario,
    found: Vec<Found>,
    times: Vec<f64>,
    /// Whether the long command was not answered, or with an error.
    failed: bool,
    /// The failures; empty if there were none.
    remark: String,
}

/// Runs the scenarios that the options select, until `cancel` is set.
pub(crate) fn run(options: &Options, cancel: &AtomicBool) -> Verdict {
    let asked = options.subjects().and_then(|subjects| {
        let scenarios = scenarios::chosen(&options.scenarios)?;
        Ok((subjects, scenarios))
    });
    let (subjects, scenarios) = match asked {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("perdura-bench: {why}");
            return Verdict::Refused;
        }
    };
    match options.measure(&subjects, &scenarios, cancel) {
        Ok(rows) if !rows.iter().any(|row| row.failed) => Verdict::Done,
        Ok(_) => Verdict::Partly,
        Err(failure) => {
            eprintln!("perdura-bench: {failure}");
            Verdict::Partly
        }
    }
}

impl Options {
    /// Returns each system; those of Perdura once for each number of threads.
    fn subjects(&self) -> Result<Vec<Candidate>, String> {
        let grounds = [
            Ground { id: "disk", path: self.out.clone() },
            Ground { id: "memory", path: "/dev/shm".into() },
        ];
        let mut catalogue = Catalogue::new(&self.programs, &Variants::default(), &grounds);
        let peers = self.programs.peer.iter().map(|(name, _)| format!("{name}-off"));
        catalogue.choose(&self.systems.iter().cloned().chain(peers).collect::<Vec<_>>())?;
        let mut subjects = Vec::new();
        for candidate in catalogue.candidates {
            if matches!(candidate.system.family, Family::Redis | Family::Peer) {
                subjects.push(candidate);
                continue;
            }
            for threads in &self.threads {
                let option = ["--threads".to_owned(), threads.to_string()];
                let mut subject = candidate.clone();
                subject.system.title += &format!(", {}", option.join(" "));
                subject.system.command.extend(option);
                subjects.push(subject);
            }
        }
        Ok(subjects)
    }

    fn measure(
        &self,
        subjects: &[Candidate],
        scenarios: &[&'static Scenario],
        cancel: &AtomicBool,
    ) -> Result<Vec<Row>, Failure> {
        let path = self.out.join("stalls.tsv");
        let unwritten = || Failure::of(path.display());
        fs::create_dir_all(&self.out).map_err(unwritten())?;
        [&self.out, &"/dev/shm".into()].into_iter().for_each(|place| remove_orphans(place));
        let mut raw = File::create(&path).map_err(unwritten())?;
        writeln!(raw, "{}", HEAD.replace(' ', "\t")).map_err(unwritten())?;
        self.print_head(subjects);
        let mut rows = Vec::new();
        let mut runs =
            subjects.iter().flat_map(|subject| scenarios.iter().map(move |s| (subject, *s)));
        let end = runs.try_for_each(|(subject, scenario)| {
            let row = one(self, subject, scenario, cancel)?;
            eprintln!("{}: {}: longest {} ms", row.system, scenario.name, row.longest());
            raw.write_all(row.raw().as_bytes()).map_err(unwritten())?;
            rows.push(row);
            Ok(())
        });
        print(subjects, scenarios, &rows);
        println!("\nraw figures: {}", path.display());
        end.map(|()| rows)
    }

    /// Prints the machine, the programs' versions and the load of the probes.
    fn print_head(&self, subjects: &[Candidate]) {
        let versions = versions(subjects);
        println!("{}", tables::machine(&Machine { versions, ..machine::here() }).markdown());
        let Options { members, connections, rate, .. } = self;
        let probes = format!("{connections} probes of each kind, {rate} requests a second each");
        println!("{members} members, {probes}");
    }
}

/// The columns of the raw figures.
const HEAD: &str = "system scenario probe count unanswered errors p50_us p99_us p99.9_us max_us commands command_ms remark";

/// Runs a scenario on a server of its own.
fn one(
    options: &Options,
    subject: &Candidate,
    scenario: &'static Scenario,
    cancel: &AtomicBool,
) -> Result<Row, Failure> {
    if cancel.load(Ordering::Relaxed) {
        return Err(Failure::Cancelled);
    }
    let server = Server::start(subject.launch(&[]), cancel)?;
    for (count, make) in scenario.data {
        server.send(count(options.members), |number| make(options.members, number))?;
    }
    for key in [scenarios::THERE, scenarios::ELSEWHERE] {
        server.ask::<()>(&format!("SET {key} 0123456789abcdef"))?;
    }
    let groups = groups(options, &server, scenario)?;
    thread::sleep(REST);
    let stop = AtomicBool::new(false);
    let (found, times, end) = thread::scope(|scope| {
        let stop = &stop;
        let probing = groups.each_ref().map(|group| scope.spawn(move || group.probe(stop)));
        thread::sleep(CONNECT);
        let (times, end) = disturb(options, &server, scenario, cancel);
        stop.store(true, Ordering::Relaxed);
        let panicked = |_| Failure::Generator("a probe panicked".into());
        let found = probing.into_iter().map(|probe| probe.join().map_err(panicked)?);
        Ok::<_, Failure>((found.collect::<Result<Vec<_>, _>>()?, times, end))
    })?;
    let failed = end.is_err();
    let mut remarks = Vec::new();
    remarks.extend(end.err().map(|error| match long::is_timeout(&error) {
        true => format!("**stalled**: no reply within {} s ({error})", options.patience),
        false => format!("**failed**: {error}"),
    }));
    for (name, found) in PROBES.iter().zip(&found) {
        if found.unanswered > 0 {
            remarks.push(format!("{} {name} unanswered", found.unanswered));
        }
        if found.errors > 0 {
            remarks.push(format!("{} {name} refused", found.errors));
        }
    }
    let system = subject.system.title.clone();
    Ok(Row { system, scenario, found, times, failed, remark: remarks.join("; ") })
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
    // More readers send fewer requests each, so that the total rate stays the same.
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

/// Repeats the long command. Returns the time of each repetition in milliseconds, and the error
/// that ended them.
fn disturb(
    options: &Options,
    server: &Server,
    scenario: &Scenario,
    cancel: &AtomicBool,
) -> (Vec<f64>, io::Result<()>) {
    let end = Instant::now() + Duration::from_secs_f64(options.seconds);
    let patience = Duration::from_secs_f64(options.patience);
    let mut times = Vec::new();
    let mut repeat = || {
        let mut long = Long::connect(server.port(), patience)?;
        for number in 0..scenario.times {
            if cancel.load(Ordering::Relaxed) || number > 0 && Instant::now() >= end {
                break;
            }
            let time = match scenario.act {
                Act::Nothing => break,
                Act::Compute => compute(end),
                Act::Ask(make) => long.ask(&make(options.members, number))?,
                Act::Kill(make) => long.kill(&make(options.members, number))?,
            };
            times.push(time.as_secs_f64() * 1e3);
        }
        thread::sleep(end.saturating_duration_since(Instant::now()));
        Ok(())
    };
    let result = repeat();
    (times, result)
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

impl Row {
    fn longest(&self) -> String {
        let all = PROBES.iter().zip(&self.found);
        let all = all.map(|(name, found)| format!("{name} {}", millis(found.latency.highest())));
        all.collect::<Vec<_>>().join(", ")
    }

    /// Returns the raw figures: a line for each probe.
    fn raw(&self) -> String {
        let median = Summary::of(&self.times).map(|times| format!("{:.1}", times.median));
        let median = median.unwrap_or_default();
        let mut text = String::new();
        for (probe, Found { latency, unanswered, errors }) in PROBES.iter().zip(&self.found) {
            let mut line = cells![self.system, self.scenario.name, probe, latency.count()];
            line.extend(cells![unanswered, errors]);
            let at = |percent| latency.percentile(percent).to_string();
            line.extend([50.0, 99.0, 99.9, 100.0].map(at));
            line.extend(cells![self.times.len(), median, self.remark]);
            text += &(line.join("\t") + "\n");
        }
        text
    }
}

/// Prints a table for each probe, of what was measured, and then the remarks.
fn print(subjects: &[Candidate], scenarios: &[&Scenario], rows: &[Row]) {
    for (at, probe) in PROBES.iter().enumerate() {
        println!("\n## {probe}: p99.9 / maximum, in ms\n");
        let systems = subjects.iter().map(|subject| subject.system.title.as_str());
        let mut table = Table::new([""].into_iter().chain(systems));
        for scenario in scenarios {
            let of = |subject: &Candidate| {
                let is_it = |row: &&Row| {
                    row.system == subject.system.title && row.scenario.name == scenario.name
                };
                let Some(row) = rows.iter().find(is_it) else { return String::new() };
                let latency = &row.found[at].latency;
                format!("{} / {}", millis(latency.percentile(99.9)), millis(latency.highest()))
            };
            table.add(cells![scenario.name].into_iter().chain(subjects.iter().map(of)).collect());
        }
        println!("{}", table.markdown());
    }
    for row in rows.iter().filter(|row| !row.remark.is_empty()) {
        println!("- {}: {}: {}", row.system, row.scenario.name, row.remark);
    }
}
