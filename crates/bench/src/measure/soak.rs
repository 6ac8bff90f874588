//! Hours of mixed load on a pool with a journal: does anything grow, and does the slowest request
//! of each minute get slower?
//!
//! One run for each size of the journal, each with a fresh server. Every minute has a line in the
//! raw figures, written at once, so that a run that is ended early keeps its minutes. At the end
//! come a table and two pictures.

use super::Measurement;
use super::bench::{Bench, used_memory};
use super::common::{Common, Numbers, numbers};
use super::print::Raw;
use super::systems::System;
use crate::load::{self, Ended, Size};
use crate::report::{MinuteChart, minutes_picture};
use crate::server::{Failure, Server};
use crate::table::{Table, cells};

/// Commands on all types, with TTLs and deletes, over keys that do not grow in number or in length,
/// so that whatever does grow is the server's. They are sent in turn. `__key__` is another key each
/// time, also in the name of a member.
const LOAD: &str = "\
SET string:__key__ __data__
HSET hash:__key__ member:__key__ __data__
GET string:__key__
LPUSH list:__key__ __data__
SET string:__key__ __data__ EX 60
ZADD zset:__key__ __key__ member:__key__
INCR counter:__key__
SADD set:__key__ member:__key__
XADD stream:__key__ MAXLEN 200 * field __data__
EXPIRE string:__key__ 150
SET string:__key__ __data__
DEL hash:__key__
HGETALL hash:__key__
SETBIT bitmap:__key__ 31000 1
LPUSH list:__key__ __data__
GET string:__key__
SET string:__key__ __data__ EX 5
EXPIRE hash:__key__ 100
UNLINK string:__key__
ZADD zset:__key__ __key__ member:__key__
PFADD hll:__key__ member:__key__
LTRIM list:__key__ 0 50
SETRANGE string:__key__ 3000 patch
EXPIRE list:__key__ 200
HSET hash:__key__ member:__key__ __data__
SREM set:__key__ member:__key__
DEL zset:__key__
ZRANGE zset:__key__ 0 10
SET string:__key__ __data__ EX 120
EXPIRE zset:__key__ 100
SADD set:__key__ member:__key__
UNLINK list:__key__
GET string:__key__
XADD stream:__key__ MAXLEN 200 * field __data__
EXPIRE set:__key__ 30
HDEL hash:__key__ member:__key__
DEL stream:__key__
SET string:__key__ __data__
RPOP list:__key__
UNLINK set:__key__
INCR counter:__key__
EXPIRE stream:__key__ 250
ZREM zset:__key__ member:__key__
HSET hash:__key__ member:__key__ __data__
DEL counter:__key__
SET string:__key__ __data__
EXPIRE bitmap:__key__ 100
UNLINK bitmap:__key__
EXPIRE hll:__key__ 100
DEL hll:__key__";

/// Bytes of a value, drawn.
const VALUES: Size = Size { low: 8, high: 2048 };

/// An hour of mixed load on a pool with a journal: latency, memory and files, minute by minute.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
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
    cpu_seconds: f64,
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

impl Minute {
    /// Returns what the server was given and what it has become.
    fn of(outcome: &load::Outcome, server: &Server) -> Result<Minute, Failure> {
        let latencies = &outcome.totals.histogram;
        Ok(Minute {
            operations: latencies.count(),
            p50: latencies.percentile(50.0),
            p99_9: latencies.percentile(99.9),
            slowest: latencies.highest(),
            used: used_memory(server)?,
            resident: server.anonymous(),
            stored: server.stored(),
            unapplied: server.figure("persistence", "journal_unapplied_bytes")?,
            full_waits: server.figure("persistence", "journal_full_waits")?,
            keys: server.ask("DBSIZE")?,
            cpu_seconds: server.threads_cpu().as_secs_f64(),
        })
    }

    /// Returns its line of the raw figures.
    fn line(&self, system: &str, mib: u64, number: u32) -> Vec<String> {
        let us = |value: f64| format!("{value:.1}");
        let mut line = cells![system, mib, number, self.operations];
        line.extend([us(self.p50), us(self.p99_9), us(self.slowest)]);
        line.extend(cells![self.used, self.resident, self.stored, self.unapplied]);
        line.extend(cells![self.full_waits, self.keys, format!("{:.3}", self.cpu_seconds)]);
        line
    }
}

/// A run and its minutes.
struct Run {
    name: String,
    minutes: Vec<Minute>,
}

impl Measurement for Options {
    const SYSTEMS: &[&str] = &["perdura journal everysec"];

    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self, systems: &[&System]) -> Result<(), String> {
        match systems.iter().find(|system| !system.has_journal()) {
            Some(system) => Err(format!("{} has no journal", system.name)),
            None => Ok(()),
        }
    }

    fn measure(&self, bench: &Bench<'_>, systems: &[&'static System]) -> Result<(), Failure> {
        let mut raw = self.common.raw("soak", &HEAD)?;
        let (mut runs, mut ended) = (Vec::new(), Ok(()));
        for system in systems {
            for mib in &self.journal_mib.0 {
                let name = format!("{}, {mib} MiB", system.name);
                let mut run = Run { name, minutes: Vec::new() };
                let of_run = self.run(bench, system, *mib, &mut run, &mut raw);
                runs.push(run);
                ended = ended.and(of_run);
            }
        }
        self.print(&runs);
        self.draw(&runs)?;
        raw.finish();
        ended
    }
}

impl Options {
    /// Runs one system with a journal of one size.
    fn run(
        &self,
        bench: &Bench<'_>,
        system: &System,
        mib: u64,
        run: &mut Run,
        raw: &mut Raw,
    ) -> Result<(), Failure> {
        let size = ["--journal-size".to_owned(), format!("{mib}mb")];
        let mut server = bench.start(system, &[bench.server_core], &size)?;
        let options = load::Options {
            server: "127.0.0.1".into(),
            port: server.port(),
            threads: 1,
            clients: self.clients as usize,
            test_time: Some(f64::from(self.minute)),
            rate_limiting: (self.rate > 0).then(|| u64::from((self.rate / self.clients).max(1))),
            distinct_client_seed: true,
            commands: LOAD.lines().map(str::to_owned).collect(),
            data_size: VALUES,
            key_prefix: String::new(),
            key_maximum: self.keys - 1,
            quiet: true,
            ..load::Options::default()
        };
        for number in 1..=self.minutes {
            let outcome = load::run(&options, bench.cancel);
            // An end of the server says more than the connections that it broke.
            server.still_runs()?;
            bench.go_on()?;
            let outcome = outcome.map_err(|error| Failure::Generator(error.to_string()))?;
            if let Ended::Failed(why) = &outcome.ended {
                return Err(Failure::Generator(why.clone()));
            }
            if let Some(error) = outcome.errors.keys().next() {
                return Err(Failure::Generator(error.clone()));
            }
            let minute = Minute::of(&outcome, &server)?;
            raw.add(minute.line(system.name, mib, number))?;
            run.minutes.push(minute);
            eprintln!("minute {number}: p99.9 {:.0} us", minute.p99_9);
        }
        Ok(())
    }

    /// Prints what the first, the middle and the last third of each run were like at most.
    fn print(&self, runs: &[Run]) {
        println!(
            "\n## Mixed load, {} clients, {} keys of each type, {} minutes of {} s asked for\n",
            self.clients, self.keys, self.minutes, self.minute
        );
        let mut table = Table::new([
            "",
            "minutes",
            "commands",
            "p99.9 (us)",
            "slowest (us)",
            "data (MB)",
            "process (MB)",
            "files (MB)",
            "waits for a full ring",
        ]);
        for run in runs {
            let third = run.minutes.len().div_ceil(3).max(1);
            let mut waits = 0;
            for (part, minutes) in run.minutes.chunks(third).enumerate() {
                let most = |of: fn(&Minute) -> f64| minutes.iter().map(of).fold(0.0, f64::max);
                let mb = |of: fn(&Minute) -> f64| format!("{:.1}", most(of) / 1e6);
                let (first, last) = (part * third + 1, part * third + minutes.len());
                let until = minutes.last().map_or(0, |minute| minute.full_waits);
                table.add(cells![
                    run.name,
                    format!("{first} to {last}"),
                    minutes.iter().map(|minute| minute.operations).sum::<u64>(),
                    format!("{:.0}", most(|minute| minute.p99_9)),
                    format!("{:.0}", most(|minute| minute.slowest)),
                    mb(|minute| minute.used as f64),
                    mb(|minute| minute.resident as f64),
                    mb(|minute| minute.stored as f64),
                    until - waits,
                ]);
                waits = until;
            }
        }
        println!("Of each third the highest:\n\n{}", table.markdown());
    }

    /// Draws the minutes: latencies, and what memory and files take.
    fn draw(&self, runs: &[Run]) -> Result<(), Failure> {
        let latencies = MinuteChart {
            id: "soak-latency",
            title: "p99.9 of a mixed load, minute by minute",
            unit: "seconds",
            series: series(runs, "", |minute| minute.p99_9 / 1e6),
        };
        let mut sizes = series(runs, ": process", |minute| minute.resident as f64);
        sizes.extend(series(runs, ": files", |minute| minute.stored as f64));
        sizes.extend(series(runs, ": data", |minute| minute.used as f64));
        let title = "Memory and files under a mixed load, minute by minute";
        let sizes = MinuteChart { id: "soak-sizes", title, unit: "bytes", series: sizes };
        for chart in [latencies, sizes] {
            let path = self.common.disk.join(format!("{}.svg", chart.id));
            let Some(picture) = minutes_picture(&chart) else { continue };
            std::fs::write(&path, picture).map_err(Failure::of(path.display()))?;
            println!("picture: {}", path.display());
        }
        Ok(())
    }
}

fn series(runs: &[Run], suffix: &str, of: fn(&Minute) -> f64) -> Vec<(String, Vec<f64>)> {
    let one = |run: &Run| {
        let name = run.name.strip_prefix("perdura journal ").unwrap_or(&run.name);
        (format!("{name}{suffix}"), run.minutes.iter().map(of).collect())
    };
    runs.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_written_given_a_ttl_and_deleted() {
        for kind in ["string", "hash", "list", "set", "zset", "stream", "bitmap", "hll"] {
            let key = format!(" {kind}:__key__");
            let of_kind = |command: &str| {
                LOAD.lines().any(|line| line.starts_with(&(command.to_owned() + &key)))
            };
            assert!(of_kind("EXPIRE") && (of_kind("DEL") || of_kind("UNLINK")), "{kind}");
            assert!(LOAD.lines().filter(|line| line.contains(&key)).count() > 2, "{kind}");
        }
    }
}
