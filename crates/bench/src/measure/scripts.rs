//! CPU time and rate of Lua scripts, compared with redis-server: EVALSHA of a script with one
//! command or with a thousand, and a transaction of as many commands without a script.

use super::Measurement;
use super::bench::{Bench, fill, key};
use super::common::{Common, factor};
use super::redis_benchmark::{self, Load};
use super::systems::System;
use super::types::Samples;
use crate::server::{Failure, Server};
use crate::table::cells;
use std::time::Instant;

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
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// How often each system has its turn.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Requests of a run, times this.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    scale: f64,
}

impl Measurement for Options {
    const SYSTEMS: &[&str] = &["redis none", "perdura volatile"];

    fn common(&self) -> &Common {
        &self.common
    }

    fn measure(&self, bench: &Bench<'_>, systems: &[&'static System]) -> Result<(), Failure> {
        let mut raw = self.common.raw("scripts", &["system", "script", "rate", "cpu_us"])?;
        let mut found = Samples::new(systems.len());
        let requests = |usual: f64| (usual * self.scale).max(1.0) as u64;
        bench.take_turns(systems, self.rounds, |at, server| {
            fill(server, 0, KEYS, VALUE_BYTES)?;
            let mut add = |name: &str, (rate, cpu): (f64, f64)| {
                found.add(name, at, rate, cpu);
                raw.add(cells!(systems[at].name, name, rate, cpu))
            };
            for (name, text) in SCRIPTS {
                let usual = if text.contains("for") { LONG_REQUESTS } else { REQUESTS };
                add(name, script(bench, server, text, requests(usual))?)?;
            }
            add("MULTI, 1000 SET, EXEC", transactions(server, requests(LONG_REQUESTS))?)
        })?;
        let (one, many) = (requests(REQUESTS), requests(LONG_REQUESTS));
        let title = format!("EVALSHA, {CLIENTS} clients, {one} or {many} requests a run");
        found.print(&title, systems);
        raw.finish();
        Ok(())
    }
}

/// Runs a script this often, after a tenth of it that does not count: requests a second, and CPU
/// microseconds of a request.
fn script(
    bench: &Bench<'_>,
    server: &Server,
    text: &str,
    requests: u64,
) -> Result<(f64, f64), Failure> {
    let sha: String = redis::cmd("SCRIPT").arg("LOAD").arg(text).query(&mut server.connect()?)?;
    let value = "v".repeat(VALUE_BYTES);
    let what = ["EVALSHA", sha.as_str(), "1", "key:__rand_int__", value.as_str()];
    let keys = if text.contains("for") { LONG_KEYS } else { KEYS };
    let load = Load { requests, clients: CLIENTS, pipeline: 1, keys };
    let warm = Load { requests: (requests / 10).max(1), ..load };
    redis_benchmark::run(bench, server, bench.client_core, warm, &what)?;
    let (rows, cpu) = redis_benchmark::run(bench, server, bench.client_core, load, &what)?;
    Ok((rows[rows.len() - 1].rate, cpu))
}

/// Executes a transaction of many SETs this often, by one client: as [`script`].
fn transactions(server: &Server, requests: u64) -> Result<(f64, f64), Failure> {
    let value = "v".repeat(VALUE_BYTES);
    let mut pipe = redis::pipe();
    pipe.atomic();
    for number in 0..MANY {
        pipe.cmd("SET").arg(key(number)).arg(&value).ignore();
    }
    let mut connection = server.connect()?;
    pipe.query::<()>(&mut connection)?;
    let (before, start) = (server.threads_cpu(), Instant::now());
    for _ in 0..requests {
        pipe.query::<()>(&mut connection)?;
    }
    let cpu = server.threads_cpu().saturating_sub(before).as_secs_f64() / requests as f64 * 1e6;
    Ok((requests as f64 / start.elapsed().as_secs_f64(), cpu))
}
