//! Redis's own test suite, against both backends of Perdura and against its own release of Redis.
//!
//! The suite is in Debian's source package of the installed `redis-server`; nothing of it is stored
//! here. Each unit runs against a fresh server, from outside, as in its `--host` mode, and then
//! starts servers of its own, with the settings of its cases. The cases that redis-server passes
//! count, without those that need a command which Perdura does not have yet (`left-out.tsv`, each
//! with that command). Every other failing case must be in `COMPAT.md`, with its reason: a case
//! that is not, or a share of all units below 97 %, fails this program.
//!
//! The units about replication are then run twice more, with both programs: redis-server on the
//! even ports (`even:`) or on the odd ones (`odd:`), and Perdura on the others. The suite takes one
//! port after the other, so that each program is the primary in one of these runs where there are
//! two servers. Of these runs the cases count that both programs pass alone.
//!
//! This is a program, so that it can end with a table: `make compat`, or a part of it by `make
//! compat UNITS="set hash"`; with `UNITS="own:set"` the unit starts its own servers.
//! `COMPAT_RENEW=1` writes `left-out.tsv` again, or the rows of those units: it runs redis-server
//! without those commands, and records the cases that no longer pass.

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
use lists::{LeftOut, MIXED, OWN, Reasons};
use suite::{Setup, Suite};
use table::{Failure, Table, failures};
use testkit::Launch;

/// The units about features of Perdura.
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

/// Further units, which can only run with servers of their own.
const STARTERS: [&str; 35] = [
    "unit/acl",
    "unit/acl-v2",
    "unit/auth",
    "unit/dump",
    "unit/aofrw",
    TLS,
    "unit/client-eviction",
    "unit/info",
    "unit/info-command",
    "unit/latency-monitor",
    "unit/limits",
    "unit/maxmemory",
    "unit/memefficiency",
    "unit/networking",
    "unit/obuf-limits",
    "unit/oom-score-adj",
    "unit/pendingquerybuf",
    "unit/querybuf",
    "unit/quit",
    "unit/replybufsize",
    "unit/shutdown",
    "unit/slowlog",
    "unit/violations",
    "integration/aof",
    "integration/aof-multi-part",
    "integration/convert-zipmap-hash-on-load",
    "integration/convert-ziplist-hash-on-load",
    "integration/convert-ziplist-zset-on-load",
    "integration/corrupt-dump",
    "integration/corrupt-dump-fuzzer",
    "integration/dismiss-mem",
    "integration/logging",
    "integration/rdb",
    "integration/redis-benchmark",
    "integration/redis-cli",
];

/// The units about replication, which start their own servers, too.
const REPLICATION: [&str; 13] = [
    "unit/wait",
    "integration/block-repl",
    "integration/failover",
    "integration/replication",
    "integration/replication-2",
    "integration/replication-3",
    "integration/replication-4",
    "integration/replication-buffer",
    "integration/replication-psync",
    "integration/psync2",
    "integration/psync2-pingoff",
    "integration/psync2-reg",
    "integration/psync2-master-restart",
];

/// The unit about TLS; in it the suite uses TLS for all connections.
const TLS: &str = "unit/tls";

/// The minimum share of the cases that redis-server passes.
const LEAST: f64 = 0.97;

/// How often a unit is run to find the cases to leave out.
const TRIES: usize = 5;

const REFERENCE: &str = "redis-server";
const BACKENDS: [&str; 2] = ["pmem", "aof"];
/// The system whose copy of the suite starts Perdura's servers.
const OWN_SYSTEM: &str = "perdura";

/// The rights of redis-server without the commands that do not exist yet: cases that then fail need
/// one of these.
const TAKEN_AWAY: &str = "on nopass ~* &* +@all -failover -cluster -debug +debug|sleep +debug|object +debug|set-active-expire \
    +debug|quicklist-packed-threshold +debug|jmap +debug|log +debug|protocol +debug|digest-value +debug|digest \
    +debug|htstats +debug|htstats-key +debug|populate +debug|pause-cron +debug|replybuffer +debug|listpack +debug|ziplist \
    +debug|change-repl-id +debug|stringmatch-len +debug|loadaof +debug|reload +debug|set-disable-deny-scripts";

fn launch(system: &str) -> Launch {
    // The cases about long scripts expect that PING is refused meanwhile.
    let settings = ["--enable-debug-command", "yes", "--busy-reply-all", "yes"];
    match system {
        REFERENCE => Launch::redis(),
        "pmem" => Launch::perdura_pmem().args(settings),
        _ => Launch::perdura_aof("everysec").args(settings),
    }
}

/// A unit, and the way in which it is run.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Run {
    unit: &'static str,
    /// True if it starts its own servers.
    is_own: bool,
}

/// All runs, with the long ones at the end.
fn all_runs() -> Vec<Run> {
    let run = |is_own| move |unit| Run { unit, is_own };
    let own = UNITS.into_iter().map(run(true));
    UNITS
        .into_iter()
        .map(run(false))
        .chain(STARTERS.into_iter().chain(REPLICATION).map(run(true)))
        .chain(own)
        .collect()
}

/// The runs whose units' names contain a word of the command line.
fn chosen() -> Vec<Run> {
    let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_meant = |run: &Run| {
        let names = |word: &str| run.unit.rsplit('/').next() == Some(word) || run.unit == word;
        let is_usual = run.is_own != UNITS.contains(&run.unit);
        words.iter().any(|word| match word.strip_prefix(OWN) {
            Some(word) => run.is_own && names(word),
            None => is_usual && names(word),
        })
    };
    all_runs().into_iter().filter(|run| words.is_empty() || is_meant(run)).collect()
}

/// Runs redis-server without the commands that Perdura does not have, and records the cases that
/// fail for lack of them.
fn renew(suite: &Suite, runs: &[Run]) -> Result<(), Setup> {
    let mut left_out = LeftOut::read()?;
    // Servers started by a unit cannot be denied commands: those rows are written by hand.
    for unit in runs.iter().filter(|run| !run.is_own).map(|run| run.unit) {
        left_out.forget(unit);
        let whole = suite.run(unit, REFERENCE, launch(REFERENCE), &BTreeSet::new())?;
        let names = whole.iter().filter(|case| case.passed()).map(|case| case.name.as_str());
        let mut wanted: Vec<&str> = names.collect();
        wanted.retain(|name| !left_out.needs_by_name(unit, name));
        // A failing case may make others fail: it is left out, and they are tried again.
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
        // Cases that fail together with these and cannot be told apart, such as those after a
        // script that is still running.
        for name in wanted {
            left_out.add_like_last(unit, name);
        }
        println!("{unit}: {} of {}", left_out.of(unit).len(), whole.len());
    }
    let all: Vec<&str> = UNITS.into_iter().chain(STARTERS).chain(REPLICATION).collect();
    left_out.write(&all)
}

/// What is known about the cases in advance.
struct Known {
    left_out: LeftOut,
    reasons: Reasons,
}

impl Known {
    /// Returns the failures that have no reason.
    fn unexplained<'f>(&self, failures: &'f [Failure]) -> Vec<&'f Failure> {
        failures.iter().filter(|failure| !self.reasons.explain(failure)).collect()
    }

    /// Runs a backend once more if something failed without a reason: some cases depend on time,
    /// and the machine may have been busy.
    fn reconcile(
        &self,
        run: Run,
        reference: &[Case],
        backend: &'static str,
        cases: Vec<Case>,
        again: impl FnOnce() -> Result<Vec<Case>, Setup>,
    ) -> Result<Vec<Case>, Setup> {
        let failures = failures(run.unit, reference, backend, &cases);
        let open = self.unexplained(&failures);
        for failure in &open {
            println!("{} {backend}, tried again: {}: {}", run.unit, failure.case, failure.detail);
        }
        if open.is_empty() { Ok(cases) } else { again() }
    }
}

/// Runs a unit from outside, against redis-server and both backends at once.
fn compare_outside(suite: &Suite, run: Run, known: &Known, table: &mut Table) -> Result<(), Setup> {
    let (unit, skipped) = (run.unit, known.left_out.of(run.unit));
    let systems = [REFERENCE, BACKENDS[0], BACKENDS[1]];
    let one = |system| suite.run(unit, system, launch(system), skipped);
    let [reference, pmem, aof] = at_once(systems.map(|system| move || one(system)));
    let reference = reference?;
    let again = |backend| move || one(backend);
    let pmem = known.reconcile(run, &reference, BACKENDS[0], pmem?, again(BACKENDS[0]))?;
    let aof = known.reconcile(run, &reference, BACKENDS[1], aof?, again(BACKENDS[1]))?;
    table.add(unit, &reference, vec![(BACKENDS[0], pmem), (BACKENDS[1], aof)]);
    Ok(())
}

/// Runs a unit that starts its own servers, redis-server and Perdura's at once.
fn compare_own(suite: &Suite, run: Run, known: &Known, table: &mut Table) -> Result<(), Setup> {
    let skipped = &known.left_out.of_starter(run.unit);
    let (copy, backend) = (&suite.copy_for(OWN_SYSTEM)?, BACKENDS[1]);
    let one = |suite: &Suite, system| suite.run_starter(run.unit, system, skipped);
    let runs = [(suite, REFERENCE), (copy, backend)];
    let [reference, aof] = at_once(runs.map(|(suite, system)| move || one(suite, system)));
    let reference = reference?;
    let aof = known.reconcile(run, &reference, backend, aof?, || one(copy, backend))?;
    let both = passed_by_both(&reference, &aof);
    table.add(&format!("{OWN}{}", run.unit), &reference, vec![(backend, aof)]);
    match REPLICATION.contains(&run.unit) {
        true => compare_mixed(suite, run, known, &both, table),
        false => Ok(()),
    }
}

fn passed_by_both(reference: &[Case], cases: &[Case]) -> Vec<Case> {
    let passed = |name: &str| cases.iter().any(|case| case.name == name && case.passed());
    reference.iter().filter(|case| case.passed() && passed(&case.name)).cloned().collect()
}

/// Runs a unit with servers of both programs, in both ways at once.
fn compare_mixed(
    suite: &Suite,
    run: Run,
    known: &Known,
    both: &[Case],
    table: &mut Table,
) -> Result<(), Setup> {
    let (unit, skipped, backend) = (run.unit, &known.left_out.of_starter(run.unit), BACKENDS[1]);
    let one = |way: &str| suite.copy_for(way)?.run_starter(unit, way, skipped);
    let runs = at_once(MIXED.map(|way| move || one(way)));
    for (way, cases) in MIXED.into_iter().zip(runs) {
        let cases = known.reconcile(run, both, backend, cases?, || one(way))?;
        table.add(&format!("{way}:{unit}"), both, vec![(backend, cases)]);
    }
    Ok(())
}

fn at_once<const N: usize>(
    runs: [impl FnOnce() -> Result<Vec<Case>, Setup> + Send; N],
) -> [Result<Vec<Case>, Setup>; N] {
    std::thread::scope(|scope| {
        runs.map(|run| scope.spawn(run))
            .map(|run| run.join().unwrap_or_else(|_| Err(Setup("a run panicked".into()))))
    })
}

/// Runs the units and prints the results. Returns true if all is as it should be.
fn compare(suite: &Suite, runs: &[Run]) -> Result<bool, Setup> {
    let known = Known { left_out: LeftOut::read()?, reasons: Reasons::read()? };
    let mut table = Table::default();
    for run in runs {
        if run.is_own {
            compare_own(suite, *run, &known, &mut table)?;
        } else {
            compare_outside(suite, *run, &known, &mut table)?;
        }
    }
    println!("\n{table}");
    let unexplained = known.unexplained(table.failures());
    for failure in &unexplained {
        println!(
            "no reason in COMPAT.md: {} | {} | {}: {}",
            failure.unit, failure.case, failure.backend, failure.detail
        );
    }
    let units: Vec<&str> = runs.iter().map(|run| run.unit).collect();
    for (unit, case) in known.reasons.of_units(&units) {
        let is_it = |failure: &&Failure| failure.is_of(unit) && failure.case == case;
        if !table.failures().iter().any(|failure| is_it(&failure)) {
            println!("is in COMPAT.md, and passes: {unit} | {case}");
        }
    }
    table.save(&suite.results())?;
    let is_whole = runs.len() == all_runs().len();
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
