//! CPU time and rate of Lua scripts, compared with redis-server: EVALSHA of a script with one
//! command or with a thousand, and a transaction of as many commands without a script.

use super::bench::{Bench, Host, key};
use super::common::{Common, factor};
use super::print::cells;
use super::redis_benchmark::{self, Load};
use super::systems::System;
use super::types::Samples;
use crate::Verdict;
use crate::compare::server::Failure;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

const DEFAULT: [&str; 2] = ["redis none", "perdura volatile"];
/// The scripts, by what they do; each gets a key and a value.
const SCRIPTS: [(&str, &str); 6] = [
    ("nothing", "return 1"),
    ("GET", "return redis.call('get', KEYS[1])"),
    ("SET", "redis.call('set', KEYS[1], ARGV[1])"),
    ("1000 GET of its key", "for i=1,1000 do redis.call('get', KEYS[1]) end"),
    ("1000 SET of its key", "for i=1,1000 do redis.call('set', KEYS[1], ARGV[1]) end"),
    ("1000 SET of a key each", "for i=1,1000 do redis.call('set', KEYS[1]..i, ARGV[1]) end"),
];
/// Commands of a long script, and of a transaction.
const MANY: u64 = 1000;
const CLIENTS: u64 = 50;
/// Runs of a script with one command, and of one with many.
const REQUESTS: f64 = 60_000.0;
const LONG_REQUESTS: f64 = 600.0;
/// Keys of a script with one command, and of one with many, which may add `MANY` to each.
const KEYS: u64 = 1000;
const LONG_KEYS: u64 = 100;
const VALUE_BYTES: usize = 32;

/// CPU time per request and requests a second of scripts with one command and with 1000.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// How often each system has its turn.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Requests of a run, times this.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    scale: f64,
}

/// Measures and prints.
pub fn run(options: &Options, cancel: &AtomicBool) -> Verdict {
    match options.common.chosen(&DEFAULT) {
        Ok(systems) => super::verdict(measure(options, &systems, cancel)),
        Err(error) => {
            eprintln!("perdura-bench: {error}");
            Verdict::Refused
        }
    }
}

fn measure(options: &Options, systems: &[&System], cancel: &AtomicBool) -> Result<(), Failure> {
    let bench = options.common.bench(cancel)?;
    let mut raw = options.common.raw("scripts", &["system", "script", "rate", "cpu_us"])?;
    let mut found = Samples::new(systems.len());
    let requests = |usual: f64| (usual * options.scale).max(1.0) as u64;
    bench.take_turns(systems, options.rounds, |at, host| {
        host.fill(0, KEYS, VALUE_BYTES)?;
        let mut add = |name: &str, (rate, cpu): (f64, f64)| {
            found.add(name, at, rate, cpu);
            raw.add(cells!(systems[at].name, name, rate, cpu))
        };
        for (name, text) in SCRIPTS {
            let usual = if text.contains("for") { LONG_REQUESTS } else { REQUESTS };
            add(name, script(&bench, host, text, requests(usual))?)?;
        }
        add("MULTI, 1000 SET, EXEC", transactions(host, requests(LONG_REQUESTS))?)
    })?;
    let (one, many) = (requests(REQUESTS), requests(LONG_REQUESTS));
    let title = format!("EVALSHA, {CLIENTS} clients, {one} or {many} requests a run");
    found.print(&title, systems);
    raw.finish();
    Ok(())
}

/// Runs a script this often, after a tenth of it that does not count: requests a second, and CPU
/// microseconds of a request.
fn script(
    bench: &Bench<'_>,
    host: &Host,
    text: &str,
    requests: u64,
) -> Result<(f64, f64), Failure> {
    let sha: String = redis::cmd("SCRIPT").arg("LOAD").arg(text).query(&mut host.connect()?)?;
    let value = "v".repeat(VALUE_BYTES);
    let what = ["EVALSHA", sha.as_str(), "1", "key:__rand_int__", value.as_str()];
    let keys = if text.contains("for") { LONG_KEYS } else { KEYS };
    let load = Load { requests, clients: CLIENTS, pipeline: 1, keys };
    let warm = Load { requests: (requests / 10).max(1), ..load };
    redis_benchmark::run(bench, host, bench.client_core, warm, &what)?;
    let (rows, cpu) = redis_benchmark::run(bench, host, bench.client_core, load, &what)?;
    Ok((rows[rows.len() - 1].rate, cpu))
}

/// Executes a transaction of many SETs this often, by one client: as [`script`].
fn transactions(host: &Host, requests: u64) -> Result<(f64, f64), Failure> {
    let value = "v".repeat(VALUE_BYTES);
    let mut pipe = redis::pipe();
    pipe.atomic();
    for number in 0..MANY {
        pipe.cmd("SET").arg(key(number)).arg(&value).ignore();
    }
    let mut connection = host.connect()?;
    pipe.query::<()>(&mut connection)?;
    let (before, start) = (host.cpu(), Instant::now());
    for _ in 0..requests {
        pipe.query::<()>(&mut connection)?;
    }
    let cpu = host.cpu().saturating_sub(before).as_secs_f64() / requests as f64 * 1e6;
    Ok((requests as f64 / start.elapsed().as_secs_f64(), cpu))
}
