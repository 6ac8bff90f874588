//! Redis's own test suite, against both backends of Perdura and against the release of Redis that
//! it belongs to.
//!
//! The suite is Debian's source package of the installed `redis-server`; nothing of it is stored
//! here. Each unit runs against a fresh server, from outside, as its `--host` mode does; those
//! about dumps start servers of their own. What counts are the cases that redis-server passes,
//! without those that need a command which Perdura does not have yet (`left-out.tsv`, each with
//! that command). Every other case that fails must stand in `COMPAT.md`, with its reason: one that
//! does not, and a share of all units below 97 %, fail this program.
//!
//! It is a program, so that it can end with a table: `make compat`, or a part of it by `make compat
//! UNITS="set hash"`. `COMPAT_RENEW=1` writes `left-out.tsv` again, or the rows of those units: it
//! runs redis-server with those commands taken away, and writes down what no longer passes.

#![forbid(unsafe_code)]

mod case;
mod lists;
mod suite;
mod table;
mod unit;

use std::collections::BTreeSet;
use std::env;
use std::process::ExitCode;

use case::Case;
use lists::{LeftOut, Reasons};
use suite::{Setup, Suite};
use table::{Table, failures};
use testkit::Launch;

/// The units whose cases are about what Perdura has.
const UNITS: [&str; 30] = [
    "unit/type/string",
    "unit/type/incr",
    "unit/type/list",
    "unit/type/list-2",
    "unit/type/list-3",
    "unit/type/hash",
    "unit/type/set",
    "unit/type/zset",
    "unit/type/stream",
    "unit/type/stream-cgroups",
    "unit/sort",
    "unit/expire",
    "unit/keyspace",
    "unit/scan",
    "unit/bitops",
    "unit/bitfield",
    "unit/hyperloglog",
    "unit/geo",
    "unit/multi",
    "unit/pubsub",
    "unit/pubsubshard",
    "unit/tracking",
    "unit/other",
    "unit/protocol",
    "unit/lazyfree",
    "unit/scripting",
    "unit/functions",
    "unit/pause",
    "unit/introspection",
    "unit/introspection-2",
];

/// Units that start servers of their own, and load dumps that these find at their start.
const STARTERS: [&str; 11] = [
    "unit/acl",
    "unit/acl-v2",
    "unit/auth",
    "unit/dump",
    "unit/aofrw",
    TLS,
    "integration/rdb",
    "integration/corrupt-dump",
    "integration/convert-zipmap-hash-on-load",
    "integration/convert-ziplist-hash-on-load",
    "integration/convert-ziplist-zset-on-load",
];

/// The unit about TLS, which the suite then uses for all that it sends.
const TLS: &str = "unit/tls";

/// The least share of the cases that redis-server passes.
const LEAST: f64 = 0.97;

/// How often a unit is run to find what is left out.
const TRIES: usize = 5;

const REFERENCE: &str = "redis-server";
const BACKENDS: [&str; 2] = ["pmem", "aof"];

/// What is not there yet, taken away from redis-server: whatever then fails needs one of these.
const TAKEN_AWAY: &str = "on nopass ~* &* +@all -sync -psync \
    -replicaof -slaveof -failover -cluster -debug +debug|sleep +debug|object +debug|set-active-expire \
    +debug|quicklist-packed-threshold +debug|jmap +debug|log +debug|protocol +debug|digest-value +debug|digest \
    +debug|htstats +debug|htstats-key +debug|populate +debug|pause-cron +debug|replybuffer +debug|listpack +debug|ziplist \
    +debug|change-repl-id +debug|stringmatch-len +debug|loadaof +debug|reload +debug|set-disable-deny-scripts";

fn launch(system: &str) -> Launch {
    // The cases about scripts that run long expect a PING to be refused meanwhile.
    let settings = ["--enable-debug-command", "yes", "--busy-reply-all", "yes"];
    match system {
        REFERENCE => Launch::redis(),
        "pmem" => Launch::perdura_pmem().args(settings),
        _ => Launch::perdura_aof("everysec").args(settings),
    }
}

/// The units that the command line chooses by a part of their names.
fn chosen() -> Vec<&'static str> {
    let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_meant = |unit: &&str| {
        words.is_empty()
            || words.iter().any(|word| unit.rsplit('/').next() == Some(word) || *unit == word)
    };
    UNITS.into_iter().chain(STARTERS).filter(is_meant).collect()
}

/// Runs redis-server without the commands that Perdura does not have, and writes down what fails
/// for want of them.
fn renew(suite: &Suite, units: &[&'static str]) -> Result<(), Setup> {
    let mut left_out = LeftOut::read()?;
    // Those that start servers cannot have commands taken away: their rows are written by hand.
    for unit in units.iter().filter(|unit| !STARTERS.contains(unit)) {
        left_out.forget(unit);
        let whole = suite.run(unit, REFERENCE, launch(REFERENCE), &BTreeSet::new())?;
        let names = whole.iter().filter(|case| case.passed()).map(|case| case.name.as_str());
        let mut wanted: Vec<&str> = names.collect();
        wanted.retain(|name| !left_out.needs_by_name(unit, name));
        // A case that fails may take others with it: it is left out, and they are tried again.
        for _ in 0..TRIES {
            let limited =
                Launch::redis().args(["--user", "default"]).args(TAKEN_AWAY.split_whitespace());
            let rest = suite.run(unit, "limited", limited, left_out.of(unit))?;
            let found = |name: &str| rest.iter().find(|case| case.name == name);
            wanted.retain(|name| !found(name).is_some_and(Case::passed));
            let before = left_out.of(unit).len();
            for case in wanted.iter().filter_map(|name| found(name)) {
                left_out.add_if_denied(unit, case);
            }
            wanted.retain(|name| !left_out.of(unit).contains(*name));
            if wanted.is_empty() || left_out.of(unit).len() == before {
                break;
            }
        }
        // What fails with these and cannot be told from them, such as what follows a script that
        // runs.
        for name in wanted {
            left_out.add_like_last(unit, name);
        }
        println!("{unit}: {} of {}", left_out.of(unit).len(), whole.len());
    }
    let all: Vec<&str> = UNITS.into_iter().chain(STARTERS).collect();
    left_out.write(&all)
}

/// Runs the units and prints what came of it; whether all is as it should be.
fn compare(suite: &Suite, units: &[&'static str]) -> Result<bool, Setup> {
    let (left_out, reasons) = (LeftOut::read()?, Reasons::read()?);
    let mut table = Table::default();
    for unit in units {
        let skipped = left_out.of(unit);
        if STARTERS.contains(unit) {
            let reference = suite.run_starter(unit, REFERENCE, skipped)?;
            let mut aof = suite.run_starter(unit, BACKENDS[1], skipped)?;
            if failures(unit, &reference, BACKENDS[1], &aof).iter().any(|one| !reasons.explain(one))
            {
                aof = suite.run_starter(unit, BACKENDS[1], skipped)?;
            }
            table.add(unit, &reference, vec![(BACKENDS[1], aof)]);
            continue;
        }
        let systems = [REFERENCE, BACKENDS[0], BACKENDS[1]];
        let runs = std::thread::scope(|scope| {
            let start =
                |system| scope.spawn(move || suite.run(unit, system, launch(system), skipped));
            systems
                .map(start)
                .map(|run| run.join().unwrap_or_else(|_| Err(Setup("a run panicked".into()))))
        });
        let [reference, pmem, aof] = runs;
        let reference = reference?;
        // Some cases are about time, and the machine may have was still: what fails is tried once
        // more, alone.
        let reconcile = |backend, cases: Vec<Case>| {
            let failures = failures(unit, &reference, backend, &cases);
            let open: Vec<_> =
                failures.iter().filter(|failure| !reasons.explain(failure)).collect();
            if open.is_empty() {
                return Ok(cases);
            }
            for failure in open {
                println!("{unit} {backend}, tried again: {}: {}", failure.case, failure.detail);
            }
            suite.run(unit, backend, launch(backend), skipped)
        };
        let (pmem, aof) = (reconcile(BACKENDS[0], pmem?)?, reconcile(BACKENDS[1], aof?)?);
        table.add(unit, &reference, vec![(BACKENDS[0], pmem), (BACKENDS[1], aof)]);
    }
    println!("\n{table}");
    let unexplained: Vec<_> =
        table.failures().iter().filter(|failure| !reasons.explain(failure)).collect();
    for failure in &unexplained {
        println!(
            "no reason in COMPAT.md: {} | {} | {}: {}",
            failure.unit, failure.case, failure.backend, failure.detail
        );
    }
    for (unit, case) in reasons.of_units(units) {
        if !table.failures().iter().any(|failure| failure.unit == unit && failure.case == case) {
            println!("stands in COMPAT.md, and passes: {unit} | {case}");
        }
    }
    table.save(&suite.results())?;
    let is_whole = units.len() == UNITS.len() + STARTERS.len();
    Ok(unexplained.is_empty() && (!is_whole || table.least_share() >= LEAST))
}

fn main() -> ExitCode {
    if env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let done = Suite::obtain().and_then(|suite| match env::var_os("COMPAT_RENEW") {
        Some(_) => renew(&suite, &chosen()).map(|()| true),
        None => compare(&suite, &chosen()),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Setup(why)) if env::var_os("COMPAT_MAY_SKIP").is_some() => {
            println!("Redis's own suite: SKIPPED, nothing was tested: {why}");
            ExitCode::SUCCESS
        }
        Err(Setup(why)) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}
