//! The program `perdura-bench load`: what it prints, writes and returns.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::symlink;
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
fn a_run_prints_its_tables_and_writes_its_files() {
    let server = Launch::perdura_volatile().start();
    let folder = tempfile::tempdir().expect("a folder");
    let (json, prefix) = (folder.path().join("out.json"), folder.path().join("hdr"));
    let mut command = on(&server, "-t 1 -c 2 -n 300 --ratio 1:2 -x 2 --print-percentiles 50,99.9");
    command.arg("--json-out-file").arg(&json).arg("--hdr-file-prefix").arg(&prefix);
    let output = command.output().expect("it runs");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    for part in [
        "1         Threads",
        "300       Requests per client",
        "BEST RUN RESULTS",
        "WORST RUN RESULTS",
        "AGGREGATED AVERAGE RESULTS (2 runs)",
        "p99.9 Latency",
        "Request Latency Distribution",
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
    assert!(!out.contains("p99 Latency"), "{out}");
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&json).expect("a file")).expect("JSON");
    let runs = json["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!(run["totals"]["operations"], 600);
        assert!(run["totals"]["latency"]["p99.999"].as_f64() > Some(0.0));
        assert_eq!(run["generator"]["saturated"].as_bool().map(|_| ()), Some(()));
        assert_eq!(run["ended"], "done");
    }
    for name in ["FULL_RUN_1", "FULL_RUN_2", "GET_command_run_1", "SET_command_run_2"] {
        for end in ["hgrm", "txt"] {
            assert!(folder.path().join(format!("hdr_{name}.{end}")).exists(), "{name}.{end}");
        }
    }
}

#[test]
fn errors_in_replies_are_an_exit_status() {
    let server = Launch::perdura_volatile().start();
    server.client().check("SET memtier-0 text", "OK");
    let mut command = on(&server, "-t 1 -c 1 -n 5 --key-maximum 0 --hide-histogram");
    let output = command.args(["--command", "INCR __key__"]).output().expect("it runs");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(err.contains("5 replies were: ERR value is not an integer"), "{err}");
    assert!(out.contains("Incrs") && !out.contains("Distribution"), "{out}");
}

#[test]
fn wrong_options_are_refused_with_what_to_do() {
    for (words, part) in [
        (&["--ratio", "0:0"][..], "above 0"),
        (&["--tls"], "memtier_benchmark's option --tls is not supported"),
        (&["-c", "0"], "--clients must be above 0"),
        (&["--key-stddev", "3"], "pattern G"),
        (&["--json-out-file", "/no/such/folder/x"], "/no/such/folder/x cannot be written"),
        (&["--out-file", "/no/such/folder/x"], "/no/such/folder/x cannot be written"),
        (&["--hdr-file-prefix", "/no/such/folder/x"], "/no/such/folder/x_FULL_RUN_1.hgrm cannot"),
        (&["--test-tim", "3"], "--test-time"),
    ] {
        let output = load(words).output().expect("it runs");
        let (out, err) = texts(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{words:?}: {err}");
        assert!(err.contains(part), "{words:?}: {err}");
    }
}

/// The device takes nothing, as a full disk does, though it can be opened.
#[test]
fn a_file_that_becomes_full_costs_no_other_result() {
    let server = Launch::perdura_volatile().start();
    let folder = tempfile::tempdir().expect("a folder");
    let full = |name: &str| {
        let path = folder.path().join(name);
        symlink("/dev/full", &path).expect("a link");
        path.display().to_string()
    };
    let (json, out, log) = (full("json"), full("out"), full("hdr_FULL_RUN_1.hgrm"));
    let prefix = folder.path().join("hdr").display().to_string();
    for (option, given, named) in [
        ("--json-out-file", &json, &json),
        ("--out-file", &out, &out),
        ("--hdr-file-prefix", &prefix, &log),
    ] {
        let mut command = on(&server, "-t 1 -c 1 -n 5 --hide-histogram");
        let output = command.args([option, given]).output().expect("it runs");
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "{out}{err}");
        assert!(err.contains(&format!("{named} cannot be written: No space left")), "{err}");
        assert!(out.contains("Totals"), "{out}{err}");
    }
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
    let mut command = on(&server, "-t 1 -c 2 --test-time 60 --hide-histogram");
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
