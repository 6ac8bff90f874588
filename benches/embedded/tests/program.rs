//! The program as a whole, in a run of a few seconds: every file is written, every cell is filled,
//! nothing is lost.

#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn run(out: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_embedded"));
    command.arg("--out").arg(out).arg("--disk").arg(out).args(arguments);
    command.output().expect("the program runs")
}

#[test]
fn a_short_run_reports_every_cell_and_loses_nothing() {
    let out = tempfile::tempdir().expect("a folder");
    let arguments = ["--rounds", "2", "--seconds", "0.01", "--keys", "1000"];
    let done = run(out.path(), &[&arguments[..], &["--systems", "unsynced disk"]].concat());
    let errors = String::from_utf8_lossy(&done.stderr);
    let read =
        |name| fs::read_to_string(out.path().join(name)).unwrap_or_else(|_| panic!("{errors}"));
    let text = read("embedded.md");
    assert_eq!(
        text,
        String::from_utf8_lossy(&done.stdout).trim_end_matches('\n').to_owned() + "\n"
    );
    for store in ["perdura process", "redb", "fjall", "sled", "LMDB (heed)"] {
        let cells = |line: &&str| line.starts_with(&format!("| {store} |")) && line.contains("x |");
        let rows: Vec<_> = text.lines().filter(cells).collect();
        assert_eq!(rows.len(), 2, "{store}:\n{text}");
        // sled has no snapshots.
        let expected = if store == "sled" { 12 } else { 14 };
        assert!(rows.iter().all(|row| row.matches("x |").count() == expected), "{rows:?}");
        assert!(rows.iter().all(|row| row.matches(" - |").count() == 14 - expected), "{rows:?}");
    }
    let kill = text.lines().find(|line| line.starts_with("| perdura process unsynced disk | "));
    assert!(kill.is_some_and(|line| line.ends_with("| 0 |")), "{text}");
    let rates = read("embedded.tsv");
    assert!(rates.lines().count() > 2 * 2 * (4 * 14 + 12), "{rates}");
    let json: serde_json::Value = serde_json::from_str(&read("embedded.json")).expect("JSON");
    let problems = json["problems"].as_array().expect("a list").iter().filter_map(|p| p.as_str());
    // What kill -9 does to another store is said, and is no fault of the program.
    let of_others =
        |problem: &&str| problem.contains(", kill -9: ") && !problem.contains("perdura");
    let (others, ours): (Vec<_>, Vec<_>) = problems.partition(of_others);
    assert!(ours.is_empty(), "{ours:?}");
    let lost = errors.lines().filter(|line| line.ends_with("lost what it had acknowledged"));
    let others = [others, lost.collect()].concat();
    assert_eq!(done.status.success(), others.is_empty(), "{errors}");
    println!("{others:?}");
}

#[test]
fn wrong_arguments_are_refused_with_a_reason() {
    let out = tempfile::tempdir().expect("a folder");
    let done = run(out.path(), &["--systems", "no such store"]);
    assert!(!done.status.success());
    assert!(String::from_utf8_lossy(&done.stderr).contains("no system has such a name"));
    assert!(!run(out.path(), &["--rounds", "0"]).status.success());
    assert!(!run(out.path(), &["--seconds", "-1"]).status.success());
}
