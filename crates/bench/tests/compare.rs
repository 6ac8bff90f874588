//! `perdura-bench compare` as a person runs it: a whole small comparison, and the ways in which one goes wrong.
//!
//! Each test has a directory of its own, so that what a run leaves can be told from what others leave.

#![forbid(unsafe_code)]

use bench::results::Results;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::perdura_server;

const TOOL: &str = env!("CARGO_BIN_EXE_perdura-bench");

/// A comparison about to be made.
struct Comparison {
    folder: TempDir,
    command: Command,
}

impl Comparison {
    fn new(arguments: &[&str]) -> Comparison {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(TOOL);
        command.arg("compare").arg("--perdura").arg(perdura_server());
        command.arg("--out").arg(folder.path().join("out"));
        command.args(["--rounds", "1", "--keys", "200", "--no-device"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Comparison { folder, command }
    }

    /// Adds a peer: a shell script.
    fn peer(mut self, name: &str, script: &str) -> Comparison {
        let path = self.folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a script");
        self.command.args(["--peer", &format!("{name}={}", path.display())]);
        self
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn results(&self) -> Results {
        Results::load(&self.out().join("results.json")).expect("the results")
    }

    /// Directories of servers that were not removed.
    fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.out()).expect("the output").flatten();
        let of_server = |path: &PathBuf| path.is_dir() && !path.ends_with("csv");
        entries.map(|entry| entry.path()).filter(of_server).collect()
    }

    #[track_caller]
    fn check(&mut self, status: i32) -> String {
        let output = self.command.output().expect("the tool runs");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(status), "{text}");
        text
    }
}

fn said(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}\n{err}")
}

/// The processes whose parent is this one.
fn children(of: u32) -> Vec<u32> {
    let children = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        (fields.nth(1)?.parse() == Ok(of)).then_some(pid)
    };
    fs::read_dir("/proc").expect("processes").flatten().filter_map(children).collect()
}

/// Whether a process is there that is not only waiting to be noticed.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[track_caller]
fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a tool that takes long, and waits until a server of it is under load. Gives the server's process.
fn under_way(comparison: &mut Comparison) -> (Child, u32) {
    let tool = comparison.command.spawn().expect("the tool runs");
    let results = comparison.out().join("results.json");
    // They are written when all systems have been tried once: the next server is one that is measured.
    wait_until("the comparison begins", || results.exists());
    wait_until("a server runs", || {
        children(tool.id()).iter().any(|child| {
            let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            name.contains("redis-server")
        })
    });
    let server = children(tool.id())[0];
    (tool, server)
}

const LONG: &[&str] = &[
    "--systems",
    "redis-everysec",
    "--workloads",
    "latency-100",
    "--seconds",
    "10",
    "--recovery",
    "none",
];

#[test]
fn a_small_comparison_is_whole() {
    let mut comparison = Comparison::new(&[
        "--systems",
        "perdura-pmem,perdura-aof-always,redis-always",
        "--workloads",
        "throughput-100,latency-30,ycsb-f",
        "--seconds",
        "0.2",
        "--recovery",
        "1mb",
        "--quick",
    ]);
    let text = comparison.check(0);
    let results = comparison.results();
    assert_eq!(results.partial, None, "{text}");
    assert_eq!(results.runs.len(), 9, "{text}");
    for run in &results.runs {
        assert!(run.operations > 0 && run.errors == 0, "{run:?}");
        assert!(run.latency.p50 > 0.0 && run.latency.p50 <= run.latency.p99, "{run:?}");
        assert!(run.writes.is_some(), "{run:?}");
    }
    assert_eq!(results.recovery.len(), 3, "{text}");
    for row in &results.recovery {
        assert!(row.first_get_seconds.is_some() && row.rate_before > 0.0, "{row:?}");
        assert!(row.acknowledged > row.keys, "the kill came under load: {row:?}");
        assert_eq!((row.keys_checked, row.keys_lost, row.keys_wrong), (row.keys, 0, 0), "{row:?}");
    }
    let pool = &results.systems[0];
    assert_eq!((pool.domain.as_deref(), pool.emulated.is_some()), (Some("clwb"), true));
    assert!(results.machine.versions.iter().any(|v| v.text.contains("v=")), "{text}");
    assert!(text.contains("write throughput, PMEM to AOF always"), "{text}");
    assert!(comparison.left().is_empty(), "{:?}", comparison.left());
    let page = fs::read_to_string(comparison.out().join("report.html")).expect("the report");
    assert!(page.contains("<svg") && page.contains("Perdura PMEM"), "{text}");
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_leaves_no_child() {
    let mut comparison = Comparison::new(LONG);
    let (tool, server) = under_way(&mut comparison);
    kill_process(Pid::from_child(&tool), Signal::INT).expect("SIGINT is sent");
    let output = tool.wait_with_output().expect("the tool ends");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(!lives(server), "the server was left");
    assert_eq!(comparison.results().partial.as_deref(), Some("interrupted"), "{text}");
    assert!(text.contains("partial: interrupted"), "{text}");
    assert!(comparison.left().is_empty(), "{:?}", comparison.left());
}

#[test]
fn a_tool_that_is_killed_leaves_no_child() {
    let mut comparison = Comparison::new(LONG);
    let (mut tool, server) = under_way(&mut comparison);
    tool.kill().expect("SIGKILL is sent");
    tool.wait().expect("the tool ends");
    wait_until("the kernel ends the server", || !lives(server));
    assert!(comparison.results().partial.is_some());
    // Its directory is still there, and the next tool removes it.
    assert_eq!(comparison.left().len(), 1);
    let mut next = Command::new(TOOL);
    next.args(["compare", "--systems", "nothing", "--out"]).arg(comparison.out());
    next.output().expect("the tool runs");
    assert!(comparison.left().is_empty(), "{:?}", comparison.left());
}

const SHORT: &[&str] =
    &["--workloads", "throughput-100", "--seconds", "0.2", "--recovery", "none", "--systems"];

#[test]
fn a_peer_that_does_not_start_is_named_with_its_last_words() {
    let comparison = Comparison::new(&[SHORT, &["perdura-volatile,broken-off"]].concat());
    let mut comparison = comparison.peer("broken", "echo Fatal: no such luck; exit 3");
    let text = comparison.check(1);
    assert!(text.contains("broken-off is left out, it does not start"), "{text}");
    assert!(text.contains("Fatal: no such luck"), "{text}");
    let results = comparison.results();
    assert_eq!(results.runs.len(), 1, "the other was measured");
    assert_eq!(results.skipped[0].what, "broken-off");
}

#[test]
fn a_server_that_dies_meanwhile_costs_its_own_runs_alone() {
    let script = r#"redis-server "$@" & server=$!; sleep 2; kill -9 $server; echo Fatal: out of luck; exit 3"#;
    let arguments = [&SHORT[..2], &["--seconds", "4", "--recovery", "none"]].concat();
    let arguments = [&arguments[..], &["--systems", "mortal-off,perdura-volatile"]].concat();
    let mut comparison = Comparison::new(&arguments).peer("mortal", script);
    let text = comparison.check(1);
    assert!(text.contains("mortal-off with throughput-100: it ended"), "{text}");
    assert!(text.contains("Fatal: out of luck"), "{text}");
    let results = comparison.results();
    let systems: Vec<_> = results.runs.iter().map(|run| run.system.as_str()).collect();
    assert_eq!(systems, ["perdura-volatile"], "{text}");
}

#[test]
fn a_system_that_forgets_is_caught() {
    let comparison = Comparison::new(&[
        "--workloads",
        "none",
        "--seconds",
        "0.3",
        "--recovery",
        "1mb",
        "--systems",
        "forgetful-always",
    ]);
    // It promises what it was told to, and keeps nothing.
    let mut comparison =
        comparison.peer("forgetful", r#"exec redis-server --port "$2" --dir "$6" --save """#);
    let text = comparison.check(1);
    assert!(text.contains("LOST: forgetful-always"), "{text}");
    let row = &comparison.results().recovery[0];
    assert_eq!((row.keys_lost, row.first_get_seconds), (row.keys, None), "{row:?}");
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_measured() {
    for (arguments, expected) in [
        (&["--systems", "mysql"][..], "no system mysql; there are: perdura-pmem,"),
        (&["--workloads", "tpcc"], "no workload tpcc; there are: throughput-0,"),
        (&["--recovery", "1parsec"], "no unit parsec"),
        (&["--rounds", "0"], "0 is not in 1..=1000"),
        (&["--peer", "x=/nonexistent"], "there is no program /nonexistent"),
        (&["--perdura", "/nonexistent"], "/nonexistent"),
        (&["--quick", "--full"], "cannot be used with"),
        (&["--recovery", "30tb"], "are needed"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(TOOL);
        command.arg("compare").arg("--out").arg(folder.path()).args(arguments);
        if !arguments.contains(&"--perdura") {
            command.arg("--perdura").arg(perdura_server());
        }
        let output = command.output().expect("the tool runs");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
        assert!(!Path::new(folder.path()).join("results.json").exists(), "{arguments:?}");
    }
}
