//! A disk that fills up while servers are measured: a small tmpfs in a mount namespace of the tool,
//! which disappears with it. Where namespaces cannot be created, the test is skipped and says so.

use crate::kit::{Comparison, TOOL, lives, said, under_way};
use bench::results::Results;
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::perdura_server;

/// The space that a recovery of 1 MiB requires, and a little more.
const SIZE: &str = "size=400m";

/// Mounts a small file system, visible to nothing else, at the first argument, and executes the
/// rest of the arguments.
const INSIDE: &str = r#"mount -t tmpfs -o SIZE perdura-test "$1" || exit 77; shift; exec "$@""#;

fn namespaces() -> bool {
    let script = INSIDE.replace("SIZE", SIZE);
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh"]).arg(folder.path()).arg("true");
    command.output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_disk_that_becomes_full_ends_the_comparison_with_what_was_measured() {
    if !namespaces() {
        println!("SKIPPED, nothing was tested: a mount namespace of one's own takes root");
        return;
    }
    let mut comparison = Comparison::new("");
    let out = comparison.out();
    fs::create_dir(&out).expect("a folder");
    let mut command = Command::new("unshare");
    let script = INSIDE.replace("SIZE", SIZE);
    command.args(["-m", "sh", "-c", &script, "sh"]).arg(&out);
    command.args([TOOL, "compare", "--no-device", "--rounds", "1", "--seconds", "0.5"]);
    command.args(["--systems", "redis-everysec,perdura-aof-everysec", "--workloads", "none"]);
    // More recoveries than can be over when the disk is full: that one of them fails ends the tool.
    let sizes = vec!["1mb"; 1000].join(",");
    command.args(["--recovery", &sizes, "--perdura"]).arg(perdura_server());
    command.arg("--out").arg(&out);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    comparison.command = command;
    let tool = comparison.command.spawn().expect("the tool runs");
    // The tool's view of the directory. The open file descriptor keeps it accessible after the
    // namespace has ended.
    let root = PathBuf::from(format!("/proc/{}/root", tool.id()));
    let seen = root.join(out.strip_prefix("/").expect("an absolute path"));
    let server = under_way(&tool, &seen.join("results.json"));
    let opened = fs::File::open(&seen).expect("the small file system");
    let seen = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    fill(&seen.join("filler"));
    let output = tool.wait_with_output().expect("the tool ends");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("The results are partial: ") && text.contains("is full"), "{text}");
    assert!(!lives(server), "the server was left");
    let results = Results::load(&seen.join("results.json")).expect("they are there, and whole");
    assert!(results.partial.is_some() && results.systems.len() == 2, "{text}");
    let left = fs::read_dir(&seen).expect("the small file system").flatten();
    let left: Vec<_> = left.filter(|entry| entry.path().is_dir()).collect();
    assert!(left.is_empty(), "directories of servers were left: {left:?}");
}

/// Writes until the disk is full.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).expect("a file");
    let block = vec![1; 1 << 16];
    while file.write_all(&block).is_ok() {}
}
