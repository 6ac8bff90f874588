//! The program `perdura-bench load`: what it prints, writes and returns.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use testkit::{Launch, Server};

fn load(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perdura-bench"));
    command.arg("load").args(words).stdin(Stdio::null());
    command
}

fn on(server: &Server, words: &str) -> Command {
    let port = server.port().to_string();
    let mut all = vec!["-s", "127.0.0.1", "-p", &port];
    all.extend(words.split(' '));
    load(&all)
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_run_prints_its_table_and_writes_its_file() {
    let server = Launch::perdura_volatile().start();
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("out.json");
    let mut command = on(&server, "-t 1 -c 2 -n 300 --ratio 1:2 --print-percentiles 50,99.9");
    let output = command.arg("--json-out-file").arg(&json).output().expect("it runs");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    for part in ["1 threads, 2 connections each", "p99.9 ms", "SET", "GET", "Totals"] {
        assert!(out.contains(part), "{part} in {out}");
    }
    assert!(!out.contains("p99 ms"), "{out}");
    let run: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&json).expect("a file")).expect("JSON");
    assert_eq!((&run["totals"]["operations"], &run["ended"]), (&600.into(), &"done".into()));
    assert!(run["totals"]["latency"]["p99999"].as_f64() > Some(0.0));
    assert!(run["generator"]["saturated"].is_boolean());
}

#[test]
fn errors_in_replies_are_an_exit_status() {
    let server = Launch::perdura_volatile().start();
    server.client().check("SET memtier-0 text", "OK");
    let mut command = on(&server, "-t 1 -c 1 -n 5 --key-maximum 0");
    let output = command.args(["--command", "INCR __key__"]).output().expect("it runs");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(err.contains("5 replies were: ERR value is not an integer"), "{err}");
    assert!(out.contains("INCR"), "{out}");
}

#[test]
fn wrong_options_are_refused_with_what_to_do() {
    for (words, part) in [
        (&["--json-out-file", "/no/such/folder/x"][..], "/no/such/folder/x: No such file"),
        (&["--test-tim", "3"], "--test-time"),
    ] {
        let output = load(words).output().expect("it runs");
        let (out, err) = texts(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{words:?}: {err}");
        assert!(err.contains(part), "{words:?}: {err}");
    }
}

/// The device can be opened but takes no bytes, like a full disk.
#[test]
fn a_file_that_becomes_full_costs_no_other_result() {
    let server = Launch::perdura_volatile().start();
    let mut command = on(&server, "-t 1 -c 1 -n 5 --json-out-file /dev/full");
    let (output, full) =
        (command.output().expect("it runs"), "/dev/full cannot be written: No space");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(err.contains(full) && out.contains("Totals"), "{out}{err}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let output = load(&["-s", "127.0.0.1", "-p", "1"]).output().expect("it runs");
    let (out, err) = texts(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""));
    assert!(err.contains("127.0.0.1:1") && err.contains("is the server running"), "{err}");
}

#[test]
fn an_interrupted_run_prints_what_it_has() {
    let server = Launch::perdura_volatile().start();
    let mut command = on(&server, "-t 1 -c 2 --test-time 60");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    let mut client = server.client();
    let began = Instant::now();
    while client.run("DBSIZE").int() == Some(0) {
        assert!(began.elapsed() < Duration::from_secs(30), "no load came");
        thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("SIGINT can be sent");
    let output = child.wait_with_output().expect("it ends");
    let (out, err) = texts(&output);
    assert!(began.elapsed() < Duration::from_secs(40));
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("Totals") && err.contains("cancelled after"), "{out}{err}");
}
