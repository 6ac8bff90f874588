//! One unit of the suite against one server.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use testkit::Launch;

use crate::case::{Case, Outcome, parse};
use crate::lists::MIXED;
use crate::suite::{Setup, Suite};
use crate::{REFERENCE, TLS};

/// A case counts as hung if no case ends for this many seconds.
const PATIENCE: u32 = 180;
/// The maximum time for a unit.
const LONGEST: Duration = Duration::from_secs(900);
/// The maximum number of restarts of a unit without the case that hung.
const HANGS: usize = 5;
/// The first port for connections between the suite's own parts; each run takes the next 100.
static PORTS: AtomicU16 = AtomicU16::new(15_000);

/// Units that draw their cases for as long as there is time.
const DRAWN: [&str; 2] = ["integration/psync2", "integration/psync2-reg"];

/// Tags of cases that are not run if a unit starts its own servers.
const TAGS: &str = "-slow -cluster -modules -large-memory";
/// The cases of this unit are all marked as slow, but take only five seconds.
const ALL_SLOW: (&str, &str) = ("unit/querybuf", "-cluster");

/// Runs a unit against one server, again without the cases that hang.
pub(crate) fn run(
    suite: &Suite,
    unit: &str,
    system: &str,
    launch: Launch,
    left_out: &BTreeSet<String>,
) -> Result<Vec<Case>, Setup> {
    let server = launch.start();
    let of_server =
        ["--host", "127.0.0.1", "--port", &server.port().to_string(), "--tags", "-slow"];
    repeat(suite, unit, system, &of_server, left_out)
}

/// Runs a unit that starts servers of its own: redis-server, Perdura's, or both.
pub(crate) fn run_starter(
    suite: &Suite,
    unit: &str,
    system: &str,
    left_out: &BTreeSet<String>,
) -> Result<Vec<Case>, Setup> {
    // The script that starts the server treats an empty variable as unset.
    let server = if system == REFERENCE { Path::new("") } else { testkit::perdura_server() };
    let server = format!("COMPAT_SERVER={}", server.display());
    let parity = MIXED.iter().position(|way| *way == system);
    let parity = parity.map_or(String::new(), |parity| parity.to_string());
    let redis_at = format!("COMPAT_REDIS_AT={parity}");
    if unit == TLS {
        suite.make_certificates()?;
    }
    let encrypted: &[&str] = if unit == TLS { &["--tls"] } else { &[] };
    let tags = if unit == ALL_SLOW.0 { ALL_SLOW.1 } else { TAGS };
    let arguments = [&["--clients", "1", "--tags", tags, &server, &redis_at], encrypted].concat();
    repeat(suite, unit, &format!("own-{system}"), &arguments, left_out)
}

/// Runs a unit, again without the cases that hang.
fn repeat(
    suite: &Suite,
    unit: &str,
    system: &str,
    arguments: &[&str],
    left_out: &BTreeSet<String>,
) -> Result<Vec<Case>, Setup> {
    let folder = suite.results().join(system);
    fs::create_dir_all(&folder)?;
    let file = folder.join(unit.replace('/', "_"));
    let mut skipped = left_out.clone();
    let mut hung: Vec<Case> = Vec::new();
    let began = Instant::now();
    loop {
        let log = once(suite, unit, arguments, &file, &skipped)?;
        let mut cases = parse(&log, DRAWN.contains(&unit));
        let stuck = cases.iter().position(|case| case.outcome == Outcome::Hung);
        let Some(at) = stuck.filter(|_| hung.len() < HANGS && began.elapsed() < LONGEST) else {
            cases.extend(hung);
            let passed = cases.iter().filter(|case| case.passed()).count();
            println!("{unit} {system}: {passed} passed in {} s", began.elapsed().as_secs());
            return Ok(cases);
        };
        skipped.insert(cases[at].name.clone());
        hung.push(cases.swap_remove(at));
    }
}

/// Runs the suite's program once, with these arguments and variables. Returns its output.
fn once(
    suite: &Suite,
    unit: &str,
    arguments: &[&str],
    file: &Path,
    skipped: &BTreeSet<String>,
) -> Result<String, Setup> {
    let (log, skip) = (file.with_extension("log"), file.with_extension("skip"));
    let names: Vec<&str> = skipped.iter().map(String::as_str).collect();
    fs::write(&skip, names.join("\n"))?;
    for _ in 0..4 {
        let output = File::create(&log)?;
        let base = PORTS.fetch_add(100, Ordering::Relaxed);
        let mut command = Command::new("tclsh");
        command.arg("tests/test_helper.tcl").current_dir(suite.folder()).env("TERM", "dumb");
        for argument in arguments {
            match argument.split_once('=') {
                Some((variable, value)) => command.env(variable, value),
                None => command.arg(argument),
            };
        }
        command.args(["--baseport", &base.to_string(), "--timeout", &PATIENCE.to_string()]);
        command.args(["--durable", "--dont-clean", "--single", unit]);
        command.arg("--skipfile").arg(&skip);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        // A process group of its own: processes that the suite leaves behind are killed with it.
        let mut child = command.process_group(0).spawn()?;
        let began = Instant::now();
        while child.try_wait()?.is_none() && began.elapsed() < LONGEST {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        child.wait()?;
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        if text.contains("[ready]") {
            return Ok(text);
        }
    }
    Err(Setup(format!("the suite did not start: see {}", log.display())))
}
