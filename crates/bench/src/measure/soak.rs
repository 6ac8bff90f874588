//! Hours of mixed load on a pool with a journal: does anything grow, and does the slowest request
//! of each minute get slower?
//!
//! One run for each size of the journal, each with a fresh server. Every minute has a line in the
//! raw figures, written at once, so that a run that is ended early keeps its minutes. At the end
//! come a table and two pictures.

mod load;

use super::bench::{Bench, Host};
use super::common::{Common, Numbers, numbers};
use super::print::{Raw, cells, table};
use super::systems::System;
use crate::Verdict;
use crate::compare::server::{Failure, Launch, Server};
use crate::report::{MinuteChart, minutes_picture};
use load::Shared;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const DEFAULT: [&str; 1] = ["perdura journal everysec"];

/// How often an end is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// An hour of mixed load on a pool with a journal: latency, memory and files, minute by minute.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Minutes of each run.
    #[arg(
        long, value_name = "N", default_value_t = 60,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    minutes: u32,
    /// Seconds that count as a minute: less for a trial.
    #[arg(
        long, value_name = "S", default_value_t = 60,
        value_parser = clap::value_parser!(u32).range(1..=60)
    )]
    minute: u32,
    /// MiB of the journal, one run for each, separated by commas.
    #[arg(long, value_name = "NUMBERS", default_value = "16,256", value_parser = numbers)]
    journal_mib: Numbers,
    /// Clients; each sends one command after the other.
    #[arg(
        long, value_name = "N", default_value_t = 8,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    clients: u32,
    /// Keys of each type.
    #[arg(
        long, value_name = "N", default_value_t = 20_000,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    keys: u64,
    /// Commands a second of all clients together; 0 for as many as they can.
    #[arg(long, value_name = "N", default_value_t = 0)]
    rate: u32,
}

/// Measures and prints.
pub fn run(options: &Options, cancel: &AtomicBool) -> Verdict {
    match options.common.chosen(&DEFAULT) {
        Ok(systems) => match systems.iter().find(|system| !system.has_journal()) {
            None => super::verdict(measure(options, &systems, cancel)),
            Some(system) => refused(&format!("{} has no journal", system.name)),
        },
        Err(error) => refused(&error),
    }
}

fn refused(why: &str) -> Verdict {
    eprintln!("perdura-bench: {why}");
    Verdict::Refused
}

/// What a minute was like.
#[derive(Clone, Copy, Debug, Default)]
struct Minute {
    operations: u64,
    /// Microseconds.
    p50: f64,
    p99_9: f64,
    slowest: f64,
    /// Bytes that the server counts as data,
    used: u64,
    /// ... that its process has in memory,
    resident: u64,
    /// ... and that its files take.
    stored: u64,
    unapplied: u64,
    /// Since the start of the server.
    full_waits: u64,
    keys: u64,
}

const HEAD: [&str; 14] = [
    "system",
    "journal_mib",
    "minute",
    "operations",
    "p50_us",
    "p99.9_us",
    "max_us",
    "used_memory",
    "process_memory",
    "files",
    "journal_unapplied",
    "full_waits",
    "keys",
    "cpu_s",
];

/// A run and its minutes.
struct Run {
    name: String,
    minutes: Vec<Minute>,
}

fn measure(options: &Options, systems: &[&System], cancel: &AtomicBool) -> Result<(), Failure> {
    let bench = options.common.bench(cancel)?;
    let mut raw = options.common.raw("soak", &HEAD)?;
    let (mut runs, mut failure) = (Vec::new(), None);
    for system in systems {
        for mib in &options.journal_mib.0 {
            let mut run = Run { name: format!("{}, {mib} MiB", system.name), minutes: Vec::new() };
            let ended = of(options, &bench, system, *mib, &mut run, &mut raw);
            runs.push(run);
            failure = failure.or(ended.err());
        }
    }
    print(options, &runs);
    draw(options, &runs)?;
    raw.finish();
    failure.map_or(Ok(()), Err)
}

/// Runs one system with a journal of one size.
fn of(
    options: &Options,
    bench: &Bench<'_>,
    system: &System,
    mib: u64,
    run: &mut Run,
    raw: &mut Raw,
) -> Result<(), Failure> {
    let mut arguments = system.arguments();
    arguments.extend(["--journal-size".to_owned(), format!("{mib}mb")]);
    let launch = Launch {
        tool: bench.tool.clone(),
        program: bench.perdura.clone(),
        arguments,
        place: bench.disk.clone(),
        journal: None,
        cores: vec![bench.server_core],
    };
    let mut host = Host { server: Server::start(launch, bench.cancel)? };
    let shared = Arc::new(Shared::default());
    let pause = (options.rate > 0).then(|| Duration::from_secs(1) * options.clients / options.rate);
    let mut clients = Vec::new();
    for client in 0..options.clients {
        let (shared, connection) = (Arc::clone(&shared), host.connect()?);
        let keys = (u64::from(client) + 1, options.keys);
        clients.push(thread::spawn(move || load::send(&shared, connection, keys, pause)));
    }
    let watched = watch(options, bench, &mut host, &shared, |number, minute, cpu| {
        run.minutes.push(minute);
        raw.add(line(system.name, mib, number, minute, cpu))
    });
    shared.stops.store(true, Ordering::Relaxed);
    for client in clients {
        // A panic of a client has been printed.
        let _ = client.join();
    }
    let failed = shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    failed.map_or(watched, Err)
}

/// Gives each minute, until the last, or until an end is asked for.
fn watch(
    options: &Options,
    bench: &Bench<'_>,
    host: &mut Host,
    shared: &Shared,
    mut each: impl FnMut(u32, Minute, Duration) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let begin = Instant::now();
    for number in 1..=options.minutes {
        let end = begin + Duration::from_secs(u64::from(options.minute)) * number;
        while Instant::now() < end && !shared.stops.load(Ordering::Relaxed) {
            thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
            bench.go_on()?;
        }
        if shared.stops.load(Ordering::Relaxed) {
            // A client's failure says why, unless the server has ended.
            return host.server.still_runs();
        }
        let minute = minute(host, shared)?;
        each(number, minute, host.cpu())?;
        eprintln!("minute {number}: p99.9 {:.0} us", minute.p99_9);
    }
    Ok(())
}

fn minute(host: &Host, shared: &Shared) -> Result<Minute, Failure> {
    let latencies = shared.take();
    Ok(Minute {
        operations: latencies.count(),
        p50: latencies.percentile(50.0),
        p99_9: latencies.percentile(99.9),
        slowest: latencies.highest(),
        used: host.used_memory()?,
        resident: host.anonymous(),
        stored: host.server.stored(),
        unapplied: host.figure("persistence", "journal_unapplied_bytes")?,
        full_waits: host.figure("persistence", "journal_full_waits")?,
        keys: host.ask("DBSIZE")?,
    })
}

fn line(system: &str, mib: u64, number: u32, minute: Minute, cpu: Duration) -> Vec<String> {
    let Minute { operations, p50, p99_9, slowest, used, .. } = minute;
    let Minute { resident, stored, unapplied, full_waits, keys, .. } = minute;
    let us = |value: f64| format!("{value:.1}");
    let mut line = cells![system, mib, number, operations, us(p50), us(p99_9), us(slowest)];
    line.extend(cells![used, resident, stored, unapplied, full_waits, keys]);
    line.push(format!("{:.3}", cpu.as_secs_f64()));
    line
}

/// Prints what the first, the middle and the last third of each run were like at most.
fn print(options: &Options, runs: &[Run]) {
    println!(
        "\n## Mixed load, {} clients, {} keys of each type, {} minutes of {} s asked for\n",
        options.clients, options.keys, options.minutes, options.minute
    );
    let head = cells![
        "",
        "minutes",
        "commands",
        "p99.9 (us)",
        "slowest (us)",
        "data (MB)",
        "process (MB)",
        "files (MB)",
        "waits for a full ring"
    ];
    let mut rows = Vec::new();
    for run in runs {
        let third = run.minutes.len().div_ceil(3).max(1);
        let mut waits = 0;
        for (part, minutes) in run.minutes.chunks(third).enumerate() {
            let most = |of: &dyn Fn(&Minute) -> f64| minutes.iter().map(of).fold(0.0, f64::max);
            let mb = |of: &dyn Fn(&Minute) -> u64| format!("{:.1}", most(&|m| of(m) as f64) / 1e6);
            let (first, last) = (part * third + 1, part * third + minutes.len());
            let until = minutes.last().map_or(0, |minute| minute.full_waits);
            rows.push(cells![
                run.name,
                format!("{first} to {last}"),
                minutes.iter().map(|minute| minute.operations).sum::<u64>(),
                format!("{:.0}", most(&|minute| minute.p99_9)),
                format!("{:.0}", most(&|minute| minute.slowest)),
                mb(&|minute| minute.used),
                mb(&|minute| minute.resident),
                mb(&|minute| minute.stored),
                until - waits,
            ]);
            waits = until;
        }
    }
    println!("Of each third the highest:\n\n{}", table(head, &rows));
}

/// Draws the minutes: latencies, and what memory and files take.
fn draw(options: &Options, runs: &[Run]) -> Result<(), Failure> {
    let seconds = |of: fn(&Minute) -> f64| series(runs, "", of);
    let latencies = MinuteChart {
        id: "soak-latency",
        title: "p99.9 of a mixed load, minute by minute",
        unit: "seconds",
        series: seconds(|minute| minute.p99_9 / 1e6),
    };
    let mut sizes = series(runs, ": process", |minute| minute.resident as f64);
    sizes.extend(series(runs, ": files", |minute| minute.stored as f64));
    sizes.extend(series(runs, ": data", |minute| minute.used as f64));
    let title = "Memory and files under a mixed load, minute by minute";
    let sizes = MinuteChart { id: "soak-sizes", title, unit: "bytes", series: sizes };
    for chart in [latencies, sizes] {
        let path = options.common.disk.join(format!("{}.svg", chart.id));
        let Some(picture) = minutes_picture(&chart) else { continue };
        let written = std::fs::write(&path, picture);
        let what = path.display().to_string();
        written.map_err(|cause| Failure::Start { what: what.clone(), cause })?;
        println!("picture: {what}");
    }
    Ok(())
}

fn series(runs: &[Run], suffix: &str, of: fn(&Minute) -> f64) -> Vec<(String, Vec<f64>)> {
    let one = |run: &Run| {
        let name = run.name.strip_prefix("perdura journal ").unwrap_or(&run.name);
        (format!("{name}{suffix}"), run.minutes.iter().map(of).collect())
    };
    runs.iter().map(one).collect()
}
