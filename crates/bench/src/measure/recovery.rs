//! Time from exec to the first answered read after kill -9, by number of keys.
//!
//! The server is filled, killed, and started again on what it left; a client asks until a read of
//! what was written last is answered. Logs and pools are in the page cache: what a cold medium adds
//! is not measured. With `--load` the server is killed while redis-benchmark overwrites random
//! keys, so that its logs are as full as they get; the words that a pool replayed are then told
//! too.

use super::bench::{Bench, Host, key};
use super::common::{Common, Numbers, numbers};
use super::print::{Raw, cells, median, table};
use super::systems::System;
use crate::Verdict;
use crate::compare::client;
use crate::compare::server::Failure;
use redis::{Cmd, Value};
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

const DEFAULT: [&str; 3] =
    ["perdura pmem process", "perdura aof everysec", "redis everysec no RDB base"];

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Keys of 16 bytes with a string.
    Strings,
    /// Small hashes of five fields.
    Hashes,
    /// All elements in one hash.
    Hash,
    /// All elements in one sorted set.
    #[value(name = "zset")]
    SortedSet,
}

impl What {
    /// Returns the command that writes an element.
    fn write(self, number: u64, value: &[u8]) -> Cmd {
        let key = key(number);
        match self {
            What::Strings => {
                let mut command = redis::cmd("SET");
                command.arg(key).arg(value);
                command
            }
            What::Hashes => {
                let mut command = redis::cmd("HSET");
                command.arg(key);
                (0..5).for_each(|field| {
                    command.arg(format!("field{field}")).arg("v".repeat(10));
                });
                command
            }
            What::Hash => {
                let mut command = redis::cmd("HSET");
                command.arg("key").arg(field(number)).arg(format!("value:{number:012}"));
                command
            }
            What::SortedSet => {
                let mut command = redis::cmd("ZADD");
                command.arg("key").arg(1_000_000_000 + number).arg(member(number));
                command
            }
        }
    }

    /// Returns the read of an element.
    fn read(self, number: u64) -> String {
        match self {
            What::Strings => format!("GET {}", key(number)),
            What::Hashes => format!("HGET {} field4", key(number)),
            What::Hash => format!("HGET key {}", field(number)),
            What::SortedSet => format!("ZSCORE key {}", member(number)),
        }
    }

    /// Bytes of the answer.
    fn length(self, size: usize) -> usize {
        match self {
            What::Strings => size,
            What::Hashes | What::SortedSet => 10,
            What::Hash => 18,
        }
    }

    fn name(self) -> &'static str {
        match self {
            What::Strings => "strings",
            What::Hashes => "hashes",
            What::Hash => "hash",
            What::SortedSet => "zset",
        }
    }
}

fn field(number: u64) -> String {
    format!("field:{number:012}")
}

fn member(number: u64) -> String {
    format!("m:{number:012}")
}

/// Time from exec to the first answered read after kill -9, by number of keys.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Numbers of keys, or of elements in one key, separated by commas.
    #[arg(long, value_name = "NUMBERS", default_value = "10000,1000000,20000000", value_parser = numbers)]
    keys: Numbers,
    /// What is written.
    #[arg(long, value_enum, default_value_t = What::Strings)]
    what: What,
    /// Bytes of a string.
    #[arg(long, value_name = "BYTES", default_value_t = 84)]
    size: usize,
    /// Seconds of SETs before the kill (strings only).
    #[arg(long, value_name = "S", default_value_t = 0)]
    load: u64,
    /// How often each is killed.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

/// Measures and prints.
pub fn run(options: &Options, cancel: &AtomicBool) -> Verdict {
    let strings = options.load == 0 || options.what == What::Strings;
    let systems = match strings {
        true => options.common.chosen(&DEFAULT),
        false => Err("--load sets strings: it goes with --what strings".into()),
    };
    match systems {
        Ok(systems) => super::verdict(measure(options, &systems, cancel)),
        Err(error) => {
            eprintln!("perdura-bench: {error}");
            Verdict::Refused
        }
    }
}

fn measure(options: &Options, systems: &[&System], cancel: &AtomicBool) -> Result<(), Failure> {
    let bench = options.common.bench(cancel)?;
    let mut raw = options.common.raw("recovery", &["system", "keys", "seconds", "words"])?;
    let mut rows = Vec::new();
    for system in systems {
        let mut row = cells![system.name];
        for keys in &options.keys.0 {
            eprintln!("{}, {keys} keys", system.name);
            row.push(of(options, &bench, system, *keys, &mut raw)?);
        }
        rows.push(row);
    }
    println!(
        "\n## From exec to the first answered read after kill -9, {}, median of {}\n",
        options.what.name(),
        options.rounds
    );
    let head: Vec<String> =
        cells![""].into_iter().chain(options.keys.0.iter().map(u64::to_string)).collect();
    println!("{}", table(head, &rows));
    raw.finish();
    Ok(())
}

/// Returns all rounds of one system with this many keys: its cell.
fn of(
    options: &Options,
    bench: &Bench<'_>,
    system: &System,
    keys: u64,
    raw: &mut Raw,
) -> Result<String, Failure> {
    let what = options.what;
    let mut host = bench.start(system, &[])?;
    let value = vec![b'v'; options.size];
    host.send(keys, |number| what.write(number, &value))?;
    let held: u64 = host.ask("DBSIZE")?;
    let (question, length) = (what.read(keys - 1), what.length(options.size));
    let (mut times, mut most) = (Vec::new(), 0);
    for _ in 0..options.rounds {
        kill(options, bench, &mut host, keys)?;
        host.server.start_again()?;
        let seconds = first_answer(bench, &mut host, &question, length)?.as_secs_f64();
        let words = host.figure("persistence", "recovery_words")?;
        raw.add(cells![system.name, keys, format!("{seconds:.6}"), words])?;
        let found: u64 = host.ask("DBSIZE")?;
        if found != held {
            let text = format!("{} came back with {found} keys of {held}", system.name);
            return Err(Failure::Generator(text));
        }
        times.push(seconds * 1000.0);
        most = most.max(words);
        bench.go_on()?;
    }
    let cell = format!("{:.1} ms", median(&times));
    Ok(if options.load > 0 && most > 0 { format!("{cell}, {most} words at most") } else { cell })
}

/// Ends the server; with `--load` in the midst of writes.
fn kill(options: &Options, bench: &Bench<'_>, host: &mut Host, keys: u64) -> Result<(), Failure> {
    if options.load > 0 {
        let mut writer = bench.on_core(bench.client_core, "redis-benchmark");
        let port = host.server.port().to_string();
        writer.args(["-p", &port, "-t", "set", "-n", "1000000000", "-c", "50"]);
        writer.args(["-d", &options.size.to_string(), "-r", &keys.to_string()]);
        writer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let writer = writer.spawn();
        let mut writer =
            writer.map_err(|cause| Failure::Start { what: "redis-benchmark".into(), cause })?;
        thread::sleep(Duration::from_secs(options.load));
        let alive = host.server.still_runs();
        host.server.kill();
        let _ = writer.kill();
        let _ = writer.wait();
        return alive;
    }
    host.server.kill();
    Ok(())
}

/// Returns the time from exec until an answer of this many bytes.
fn first_answer(
    bench: &Bench<'_>,
    host: &mut Host,
    question: &str,
    length: usize,
) -> Result<Duration, Failure> {
    let began = Instant::now();
    loop {
        match host.server.connect().and_then(|mut c| client::ask::<Value>(&mut c, question)) {
            Ok(Value::BulkString(bytes)) if bytes.len() == length => {
                let unknown = || Failure::Generator("the time of an exec is not known".into());
                return host.server.age().ok_or_else(unknown);
            }
            Ok(other) => {
                let text = format!("{question} is answered with {other:?} after the restart");
                return Err(Failure::Generator(text));
            }
            Err(error) if error.is_io_error() || client::is_loading(&error) => {}
            Err(error) => return Err(error.into()),
        }
        host.server.still_runs()?;
        bench.go_on()?;
        if began.elapsed() > PATIENCE {
            let (seconds, log) = (PATIENCE.as_secs(), host.server.last_lines());
            return Err(Failure::Silent { seconds, log });
        }
        thread::sleep(Duration::from_micros(500));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_written() {
        for (what, read, written) in [
            (What::Strings, "GET key:000000000007", "SET key:000000000007 vv"),
            (
                What::Hash,
                "HGET key field:000000000007",
                "HSET key field:000000000007 value:000000000007",
            ),
            (What::SortedSet, "ZSCORE key m:000000000007", "ZADD key 1000000007 m:000000000007"),
        ] {
            assert_eq!(what.read(7), read);
            let command = what.write(7, b"vv");
            let words = command.args_iter().map(|argument| match argument {
                redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                _ => String::new(),
            });
            assert_eq!(words.collect::<Vec<_>>().join(" "), written);
        }
    }
}
