//! Dumps: how quickly a server loads one, saves one, takes the keys of one from `perdura import`
//! and gives them to `perdura export`; and what SET takes while a save runs in the background.
//!
//! One server of the first system makes the dump that all of them load. A server has all cores
//! here, since loading and saving are done by several threads. A rate of a load is that of the
//! server's own time, which both programs log; a save is timed by the client that waits for SAVE.
//! CPU time is that of the server, with threads that have ended; it is counted in hundredths of a
//! second.

use super::Measurement;
use super::bench::{Bench, key};
use super::common::Common;
use super::print::{median, ratios};
use super::systems::System;
use super::types::Samples;
use crate::server::{Failure, Server};
use crate::table::{Table, cells};
use redis::Cmd;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PAIR: (&str, &str) = ("perdura volatile all cores", "redis none");
/// Elements of each collection.
const ELEMENTS: u64 = 10;
const VALUE_BYTES: usize = 32;
/// How long a load may take.
const PATIENCE: Duration = Duration::from_secs(1800);
const LOADED: &str = "DB loaded from disk: ";

/// Rates of loading, saving, importing and exporting a dump; p99.9 of SET while one is saved.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Keys of the dump: two in three are strings of 32 bytes, the others hashes, lists, sets and
    /// sorted sets of ten elements.
    #[arg(
        long, value_name = "N", default_value_t = 1_500_000,
        value_parser = clap::value_parser!(u64).range(12..)
    )]
    keys: u64,
    /// How often each system has its turn.
    #[arg(
        long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    rounds: u32,
    /// Seconds of SETs before a save, and at least as many while saves run; 0: none.
    #[arg(long, value_name = "S", default_value_t = 5)]
    seconds: u64,
    /// The program `perdura` [default: the one next to perdura-server].
    #[arg(long, value_name = "PATH")]
    cli: Option<PathBuf>,
    /// Neither import nor export.
    #[arg(long, conflicts_with = "cli")]
    no_moves: bool,
}

/// Returns the command that makes a key, by its number.
fn make(number: u64) -> Cmd {
    let kinds = ["HSET", "RPUSH", "SADD", "ZADD"];
    let Some(name) = (number.is_multiple_of(3)).then(|| kinds[(number / 3 % 4) as usize]) else {
        let mut command = redis::cmd("SET");
        command.arg(key(number)).arg(format!("{:0>VALUE_BYTES$}", format!("value:{number}")));
        return command;
    };
    let mut command = redis::cmd(name);
    command.arg(key(number));
    for element in 0..ELEMENTS {
        match name {
            "HSET" => {
                command.arg(format!("field:{element}")).arg(format!("v:{}", number * element))
            }
            "ZADD" => command.arg(number * element).arg(format!("member:{element}")),
            _ => command.arg(format!("element:{}", number + element)),
        };
    }
    command
}

impl Measurement for Options {
    const SYSTEMS: &[&str] = &[PAIR.1, PAIR.0];

    fn common(&self) -> &Common {
        &self.common
    }

    fn measure(&self, bench: &Bench<'_>, systems: &[&'static System]) -> Result<(), Failure> {
        measure(self, bench, systems)
    }
}

fn measure(options: &Options, bench: &Bench<'_>, systems: &[&System]) -> Result<(), Failure> {
    let head = ["what", "system", "keys_a_second", "cpu_us", "p999_ms", "p999_saving_ms"];
    let mut raw = options.common.raw("snapshots", &head)?;
    let cli = options.cli.clone().unwrap_or_else(|| bench.perdura.with_file_name("perdura"));
    let cli = Some(cli.as_path()).filter(|_| !options.no_moves);
    let folder = tempfile::tempdir_in(&bench.disk).map_err(Failure::of("a directory"))?;
    let dump = folder.path().join("dump.rdb");
    let first = bench.start(systems[0], &[], &[])?;
    first.send(options.keys, make)?;
    first.ask::<()>("SAVE")?;
    fs::copy(first.data().join("dump.rdb"), &dump).map_err(Failure::of("the dump"))?;
    drop(first);
    let bytes = fs::metadata(&dump).map_err(Failure::of("the dump"))?.len();
    let mut found = Samples::new(systems.len());
    let mut latencies = [vec![Vec::new(); systems.len()], vec![Vec::new(); systems.len()]];
    bench.rounds(options.rounds, systems.len(), |at| {
        let mut server = bench.start(systems[at], &[], &[])?;
        for (name, (seconds, cpu)) in rates(bench, &mut server, &dump, options.keys, cli)? {
            let (rate, cpu) = (options.keys as f64 / seconds, cpu / options.keys as f64 * 1e6);
            found.add(name, at, rate, cpu);
            raw.add(cells!(name, systems[at].name, rate, cpu, "", ""))?;
        }
        if options.seconds > 0 {
            let (without, saving) = latency(options, &mut server)?;
            latencies[0][at].push(without);
            latencies[1][at].push(saving);
            raw.add(cells!("SET", systems[at].name, "", "", without, saving))?;
        }
        Ok(())
    })?;
    print(options, bytes, systems, &found, &latencies);
    raw.finish();
    Ok(())
}

/// Seconds, and CPU seconds of the server.
type Times = (f64, f64);

/// Loads, saves and moves the keys of a dump. Returns what each takes.
fn rates(
    bench: &Bench<'_>,
    server: &mut Server,
    dump: &Path,
    keys: u64,
    cli: Option<&Path>,
) -> Result<Vec<(&'static str, Times)>, Failure> {
    let mut times = vec![("load", load(bench, server, dump, keys)?)];
    times.push(("save", timed(server, || server.ask("SAVE"))?));
    let Some(cli) = cli else { return Ok(times) };
    // redis-server waits for other replicas before it sends a dump.
    let _ = server.ask::<()>("CONFIG SET repl-diskless-sync-delay 0");
    let exported = dump.with_file_name("exported.rdb");
    let address = format!("redis://127.0.0.1:{}", server.port());
    let export = ["export", &address, "--format", "rdb", "--quiet", "--out"];
    times.push(("export", timed(server, || perdura(cli, &export, &exported))?));
    fs::remove_file(&exported).map_err(Failure::of("the exported dump"))?;
    server.ask::<()>("FLUSHALL")?;
    let import = ["import", "--quiet", "--to", &address];
    times.push(("import", timed(server, || perdura(cli, &import, dump))?));
    Ok(times)
}

fn print(
    options: &Options,
    bytes: u64,
    systems: &[&System],
    found: &Samples,
    [without, saving]: &[Vec<Vec<f64>>; 2],
) {
    let title = format!("A dump of {} keys, {bytes} bytes: keys a second", options.keys);
    found.print(&title, systems);
    if options.seconds == 0 {
        return;
    }
    println!(
        "\n## SET by one client: p99.9 without a save, and while saves run in the background\n"
    );
    let ms = |values: &[f64]| format!("{:.3} ms", median(values));
    let mut table = Table::new(["", "without", "saving", "saving to without"]);
    for (at, system) in systems.iter().enumerate() {
        let each = saving[at].iter().zip(&without[at]).map(|(saving, without)| saving / without);
        let ratio = format!("{:.2}", median(&each.collect::<Vec<_>>()));
        table.add(cells!(system.name, ms(&without[at]), ms(&saving[at]), ratio));
    }
    println!("{}", table.markdown());
    ratios("p99.9 while a save runs", &[PAIR], systems, saving);
}

/// Starts the server again over the dump. Returns how long it loaded, in its own words, and the CPU
/// seconds since its start.
fn load(bench: &Bench<'_>, server: &mut Server, dump: &Path, keys: u64) -> Result<Times, Failure> {
    server.kill();
    fs::copy(dump, server.data().join("dump.rdb")).map_err(Failure::of("the dump"))?;
    server.start_again()?;
    server.wait_for(PATIENCE, Duration::from_millis(10), bench.cancel, |server| {
        match server.ask::<u64>("DBSIZE")? {
            found if found == keys => Ok(Some(())),
            found => Err(Failure::Generator(format!("{found} keys were loaded of {keys}"))),
        }
    })?;
    let log = server.log();
    let seconds = loaded_in(&log).ok_or_else(|| Failure::Generator(format!("no time in {log}")))?;
    Ok((seconds, server.cpu().as_secs_f64()))
}

/// Returns the seconds that a load took, as a server's log says them.
fn loaded_in(log: &str) -> Option<f64> {
    let (_, after) = log.split_once(LOADED)?;
    after.split(' ').next()?.parse().ok()
}

/// Returns the seconds that something takes, and the CPU seconds of the server meanwhile.
fn timed(server: &Server, what: impl FnOnce() -> Result<(), Failure>) -> Result<Times, Failure> {
    let (before, began) = (server.cpu(), Instant::now());
    what()?;
    let seconds = began.elapsed().as_secs_f64();
    Ok((seconds, server.cpu().saturating_sub(before).as_secs_f64()))
}

/// Runs `perdura` with these arguments and a file.
fn perdura(cli: &Path, arguments: &[&str], file: &Path) -> Result<(), Failure> {
    let mut command = Command::new(cli);
    command.args(arguments).arg(file).stdin(Stdio::null()).stdout(Stdio::null());
    let output = command.output().map_err(Failure::of(cli.display()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Failure::Generator(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// Returns p99.9 of SET in milliseconds, without a save and while saves run one after the other.
fn latency(options: &Options, server: &mut Server) -> Result<(f64, f64), Failure> {
    let mut connection = server.connect()?;
    let mut random = fastrand::Rng::with_seed(1);
    let value = vec![b'w'; VALUE_BYTES];
    let mut set = |times: &mut Vec<f64>| -> Result<(), Failure> {
        // Only keys that are strings already.
        let number = random.u64(0..options.keys / 3) * 3 + 1;
        let mut command = redis::cmd("SET");
        command.arg(key(number)).arg(&value);
        let began = Instant::now();
        command.query::<()>(&mut connection)?;
        times.push(began.elapsed().as_secs_f64() * 1000.0);
        Ok(())
    };
    let wanted = Duration::from_secs(options.seconds);
    let (mut without, mut saving) = (Vec::new(), Vec::new());
    let began = Instant::now();
    while began.elapsed() < wanted {
        set(&mut without)?;
    }
    let began = Instant::now();
    while began.elapsed() < wanted {
        server.ask::<()>("BGSAVE")?;
        while server.figure("persistence", "rdb_bgsave_in_progress")? == 1 {
            for _ in 0..100 {
                set(&mut saving)?;
            }
        }
    }
    server.still_runs()?;
    Ok((p999(&mut without), p999(&mut saving)))
}

/// Returns the time that one in a thousand exceeds; 0 of none.
fn p999(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    let at = (times.len() * 999).div_ceil(1000).saturating_sub(1);
    times.get(at).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_load_is_read_from_a_log() {
        assert_eq!(loaded_in("x\n* DB loaded from disk: 1.250 seconds\ny"), Some(1.25));
        assert_eq!(loaded_in("DB loaded from append only file"), None);
    }

    #[test]
    fn one_in_a_thousand_exceeds_it() {
        let mut times: Vec<f64> = (1..=2000).rev().map(f64::from).collect();
        assert_eq!(p999(&mut times), 1998.0);
        assert_eq!((p999(&mut [3.0]), p999(&mut [])), (3.0, 0.0));
    }

    #[test]
    fn every_type_is_made() {
        let mut names: Vec<_> = (0..12)
            .map(|number| match make(number).args_iter().next() {
                Some(redis::Arg::Simple(name)) => String::from_utf8_lossy(name).into_owned(),
                _ => String::new(),
            })
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names, ["HSET", "RPUSH", "SADD", "SET", "ZADD"]);
    }
}
