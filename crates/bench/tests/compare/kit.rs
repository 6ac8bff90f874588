//! A comparison to be run, and what it leaves behind.

use bench::results::Results;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::perdura_server;

pub(crate) const TOOL: &str = env!("CARGO_BIN_EXE_perdura-bench");

/// A comparison to be run.
pub(crate) struct Comparison {
    pub(crate) folder: TempDir,
    pub(crate) command: Command,
}

impl Comparison {
    /// Returns a comparison of one round with these arguments, separated by spaces.
    pub(crate) fn new(arguments: &str) -> Comparison {
        Comparison::with_rounds("1", arguments)
    }

    pub(crate) fn with_rounds(rounds: &str, arguments: &str) -> Comparison {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(TOOL);
        command.arg("compare").env("PERDURA_SERVER", perdura_server());
        command.arg("--out").arg(folder.path().join("out"));
        command.args(["--rounds", rounds, "--keys", "200", "--no-device"]);
        command.args(arguments.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Comparison { folder, command }
    }

    /// Adds a peer, which is a shell script.
    pub(crate) fn peer(mut self, name: &str, script: &str) -> Comparison {
        let path = self.script(name, script);
        self.command.args(["--peer", &format!("{name}={}", path.display())]);
        self
    }

    /// Writes a shell script into the comparison's folder and returns its path.
    pub(crate) fn script(&self, name: &str, script: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a script");
        path
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    pub(crate) fn results(&self) -> Results {
        Results::load(&self.out().join("results.json")).expect("the results")
    }

    /// Returns the directories of servers that were not removed.
    pub(crate) fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.out()).expect("the output").flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }

    #[track_caller]
    pub(crate) fn check(&mut self, status: i32) -> String {
        let output = self.command.output().expect("the tool runs");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(status), "{text}");
        text
    }
}

pub(crate) fn said(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}\n{err}")
}

/// Returns the child processes of a process.
pub(crate) fn children(of: u32) -> Vec<u32> {
    let children = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        (fields.nth(1)?.parse() == Ok(of)).then_some(pid)
    };
    fs::read_dir("/proc").expect("processes").flatten().filter_map(children).collect()
}

/// Returns true if a process exists and is not a zombie.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until one of a tool's servers is being measured, and returns the server's process id.
/// `results` is the tool's file of results.
pub(crate) fn under_way(tool: &Child, results: &Path) -> u32 {
    // The file is written after all systems have been tried once, so the next server is one that is
    // measured.
    wait_until("the comparison begins", || results.exists());
    wait_until("a server runs", || {
        children(tool.id()).iter().any(|child| {
            let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            name.trim_end().ends_with("-server")
        })
    });
    children(tool.id())[0]
}
