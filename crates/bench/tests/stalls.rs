//! A small run of `perdura-bench stalls`: what it prints and writes.

#![forbid(unsafe_code)]

use std::fs;
use std::process::Command;
use testkit::perdura_server;

#[track_caller]
fn number(cell: &str) -> f64 {
    cell.parse().unwrap_or_else(|error| panic!("{cell}: {error}"))
}

#[test]
fn long_commands_are_measured_by_those_who_wait() {
    let disk = tempfile::tempdir().expect("a folder");
    let scenarios = "nothing,sunionstore+readers,exec,flushall";
    let mut command = Command::new(env!("CARGO_BIN_EXE_perdura-bench"));
    command.arg("stalls").env("PERDURA_SERVER", perdura_server()).arg("--out").arg(disk.path());
    command.args(["--threads", "2", "--members", "1500", "--seconds", "0.2"]);
    let output =
        command.args(["--scenarios", scenarios, "--connections", "2"]).output().expect("a run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1500 members, 2 probes of each kind"), "{text}");
    let raw = fs::read_to_string(disk.path().join("stalls.tsv")).expect("raw figures");
    let rows: Vec<Vec<&str>> = raw.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let names: Vec<&str> = rows.iter().step_by(4).map(|row| row[1]).collect();
    assert_eq!(names, scenarios.split(',').collect::<Vec<_>>());
    for row in &rows {
        assert!(number(row[3]) >= 10.0 && row[4] == "0" && row[5] == "0", "{row:?}");
        assert!(number(row[6]) > 0.0 && number(row[6]) <= number(row[9]), "{row:?}");
        assert_eq!((number(row[10]) > 0.0, row[12]), (row[1] != "nothing", ""), "{row:?}");
    }
}
