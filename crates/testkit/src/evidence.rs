//! Tables of the figures of long runs: one row each, with the date and the commit.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;
use std::sync::Mutex;

/// Adds a row, with date and commit before it, to the table that the environment variable names, if
/// it is set. A new table gets the head first. `EVIDENCE_COMMIT` names the commit if the tests run
/// outside of its repository.
pub fn add(variable: &str, head: &str, row: &str) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let Ok(path) = std::env::var(variable) else { return };
    let _one_at_a_time = ONE_AT_A_TIME.lock();
    let commit = std::env::var("EVIDENCE_COMMIT")
        .unwrap_or_else(|_| said("git", &["describe", "--always", "--dirty", "--abbrev=10"]));
    let table = OpenOptions::new().append(true).create(true).open(&path);
    let mut table = table.unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut text = String::new();
    if table.metadata().is_ok_and(|metadata| metadata.len() == 0) {
        text = format!("date\tcommit\t{head}\n");
    }
    text.push_str(&format!("{}\t{commit}\t{row}\n", said("date", &["-u", "+%F"])));
    table.write_all(text.as_bytes()).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Returns the output of a program, on one line.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|_| "unknown".into())
}
