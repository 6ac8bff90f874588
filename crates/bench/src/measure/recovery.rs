//! Time from exec to the first answered read after kill -9, by number of keys.
//!
//! The server is filled, killed, and started again on what it left; a client asks until a read of
//! what was written last is answered. Logs and pools are in the page cache: what a cold medium adds
//! is not measured. With `--load` the server is killed while redis-benchmark overwrites random
//! keys, so that its logs are as full as they get; the words that a pool replayed are then told
//! too.

use super::Measurement;
use super::bench::{Bench, key};
use super::common::{Common, Numbers, numbers};
use super::print::{Raw, median};
use super::systems::System;
use crate::server::{Failure, Server, command};
use crate::table::{Table, cells};
use redis::{Cmd, Value};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

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
    fn write(self, n: u64, value: &str) -> Cmd {
        let key = key(n);
        command(&match self {
            What::Strings => format!("SET {key} {value}"),
            What::Hashes => {
                let field = |field| format!(" field{field} vvvvvvvvvv");
                format!("HSET {key}{}", (0..5).map(field).collect::<String>())
            }
            What::Hash => format!("HSET key field:{n:012} value:{n:012}"),
            What::SortedSet => format!("ZADD key {} m:{n:012}", 1_000_000_000 + n),
        })
    }

    /// Returns the read of an element, and the bytes of its answer.
    fn read(self, n: u64, size: usize) -> (String, usize) {
        match self {
            What::Strings => (format!("GET {}", key(n)), size),
            What::Hashes => (format!("HGET {} field4", key(n)), 10),
            What::Hash => (format!("HGET key field:{n:012}"), 18),
            What::SortedSet => (format!("ZSCORE key m:{n:012}"), 10),
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

/// Time from exec to the first answered read after kill -9, by number of keys.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
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

impl Measurement for Options {
    const SYSTEMS: &[&str] =
        &["perdura pmem process", "perdura aof everysec", "redis everysec no RDB base"];

    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self, _: &[&System]) -> Result<(), String> {
        match self.load > 0 && self.what != What::Strings {
            true => Err("--load sets strings: it goes with --what strings".into()),
            false => Ok(()),
        }
    }

    fn measure(&self, bench: &Bench<'_>, systems: &[&'static System]) -> Result<(), Failure> {
        let mut raw = self.common.raw("recovery", &["system", "keys", "seconds", "words"])?;
        let keys = &self.keys.0;
        let mut table = Table::new(cells![""].into_iter().chain(keys.iter().map(u64::to_string)));
        for system in systems {
            let mut row = cells![system.name];
            for keys in keys {
                eprintln!("{}, {keys} keys", system.name);
                row.push(self.rounds_of(bench, system, *keys, &mut raw)?);
            }
            table.add(row);
        }
        println!(
            "\n## From exec to the first answered read after kill -9, {}, median of {}\n",
            self.what.name(),
            self.rounds
        );
        println!("{}", table.markdown());
        raw.finish();
        Ok(())
    }
}

impl Options {
    /// Kills one system with this many keys in all rounds. Returns its cell.
    fn rounds_of(
        &self,
        bench: &Bench<'_>,
        system: &System,
        keys: u64,
        raw: &mut Raw,
    ) -> Result<String, Failure> {
        let mut server = bench.start(system, &[], &[])?;
        let value = "v".repeat(self.size);
        server.send(keys, |number| self.what.write(number, &value))?;
        let held: u64 = server.ask("DBSIZE")?;
        let (question, length) = self.what.read(keys - 1, self.size);
        let (mut times, mut most) = (Vec::new(), 0);
        for _ in 0..self.rounds {
            self.kill(bench, &mut server, keys)?;
            server.start_again()?;
            let seconds = first_answer(bench, &mut server, &question, length)?.as_secs_f64();
            let words = server.figure("persistence", "recovery_words")?;
            raw.add(cells![system.name, keys, format!("{seconds:.6}"), words])?;
            let found: u64 = server.ask("DBSIZE")?;
            if found != held {
                let text = format!("{} came back with {found} keys of {held}", system.name);
                return Err(Failure::Generator(text));
            }
            times.push(seconds * 1000.0);
            most = most.max(words);
            bench.go_on()?;
        }
        let replayed = self.load > 0 && most > 0;
        let note = if replayed { format!(", {most} words at most") } else { String::new() };
        Ok(format!("{:.1} ms{note}", median(&times)))
    }

    /// Ends the server; with `--load` in the midst of writes.
    fn kill(&self, bench: &Bench<'_>, server: &mut Server, keys: u64) -> Result<(), Failure> {
        if self.load == 0 {
            server.kill();
            return Ok(());
        }
        let mut writer = bench.on_core(bench.client_core, "redis-benchmark");
        let (port, size, keys) = (server.port(), self.size, keys);
        let words = format!("-p {port} -t set -n 1000000000 -c 50 -d {size} -r {keys}");
        writer.args(words.split(' '));
        writer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut writer = writer.spawn().map_err(Failure::of("redis-benchmark"))?;
        thread::sleep(Duration::from_secs(self.load));
        let alive = server.still_runs();
        server.kill();
        let _ = writer.kill();
        let _ = writer.wait();
        alive
    }
}

/// Returns the time from exec until an answer of this many bytes.
fn first_answer(
    bench: &Bench<'_>,
    server: &mut Server,
    question: &str,
    length: usize,
) -> Result<Duration, Failure> {
    server.wait_for(PATIENCE, Duration::from_micros(500), bench.cancel, |server| {
        match server.ask::<Value>(question)? {
            Value::BulkString(bytes) if bytes.len() == length => {
                let unknown = || Failure::Generator("the time of an exec is not known".into());
                server.age().ok_or_else(unknown).map(Some)
            }
            other => {
                let text = format!("{question} is answered with {other:?} after the restart");
                Err(Failure::Generator(text))
            }
        }
    })
}
