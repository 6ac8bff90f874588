//! `perdura-bench device` as people run it: what it prints and writes, what it refuses, and that
//! nothing of it stays, however it ends.

#![forbid(unsafe_code)]

use bench::results::Results;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn device(dir: &Path, options: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perdura-bench"));
    command.arg("device").arg("--dir").arg(dir).args(options.split_whitespace());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn files(dir: &Path) -> usize {
    dir.read_dir().expect("a directory").count()
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Starts a study that would take minutes, and waits until it is at work.
fn endless(dir: &Path, json: &Path) -> Child {
    let mut command = device(dir, "--quick --seconds 30 --json");
    let child = command.arg(json).spawn().expect("it starts");
    let start = Instant::now();
    while !(listens(&child) && has_open(&child, dir)) {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not measure");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// Returns true if a process has a file of this folder open or mapped, one without a name too.
fn has_open(child: &Child, dir: &Path) -> bool {
    let process = Path::new("/proc").join(child.id().to_string());
    let maps = std::fs::read_to_string(process.join("maps")).unwrap_or_default();
    maps.contains(&*dir.to_string_lossy()) || {
        let open = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        open.flat_map(|file| file.path().read_link()).any(|path| path.starts_with(dir))
    }
}

/// Returns true if a process catches SIGINT by now.
fn listens(child: &Child) -> bool {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    caught & 1 << (Signal::INT.as_raw() - 1) != 0
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("a process of ours");
}

#[test]
fn a_study_is_printed_and_written_and_leaves_nothing() {
    let (dir, out) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let json = out.path().join("device.json");
    let output =
        device(dir.path(), "--quick --seconds 0.01 --json").arg(&json).output().expect("it runs");
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    for expect in
        ["One fence", "A log append of 64 bytes", "memcpy + clwb + fence", "composite", "emulated"]
    {
        assert!(text.contains(expect), "{expect}: {text}");
    }
    assert_eq!(files(dir.path()), 0);
    let results = Results::load(&json).expect("results");
    let rows = &results.device[0].rows;
    assert_eq!(rows.len(), 3 * 10 + 3 * 7, "3 of 6 methods have reads of their own");
    let bad = rows.iter().find(|row| row.skipped.is_none() && row.bytes_per_second <= 0.0);
    assert!(bad.is_none(), "{bad:?}");
    assert!(rows.iter().all(|row| !(row.emulated && row.durable)));
}

#[test]
fn what_is_not_possible_is_refused_in_words() {
    let dir = tempfile::tempdir().expect("a folder");
    let check = |dir: &Path, options: &str, status: i32, expect: &str| {
        let output = device(dir, options).output().expect("it runs");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(text.contains(expect), "{expect}: {text}");
    };
    check(dir.path(), "--seconds=-1", 2, "from 0.001");
    check(&dir.path().join("nowhere"), "--quick", 2, "No such file");
    let json = dir.path().join("deep/device.json").display().to_string();
    check(dir.path(), &format!("--quick --json {json}"), 2, &format!("--json {json}: no file"));
    assert_eq!(files(dir.path()), 0);
}

#[test]
fn an_interrupt_keeps_what_was_measured_and_no_file() {
    let (dir, out) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let json = out.path().join("device.json");
    let child = endless(dir.path(), &json);
    let start = Instant::now();
    signal(&child, Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("interrupted"), "{}", said(&output));
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_eq!(files(dir.path()), 0);
    assert_eq!(Results::load(&json).expect("results").partial.as_deref(), Some("interrupted"));
}

#[test]
fn kill_leaves_no_file_either() {
    let (dir, out) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut child = endless(dir.path(), &out.path().join("device.json"));
    signal(&child, Signal::KILL);
    child.wait().expect("it ends");
    assert_eq!(files(dir.path()), 0);
}
