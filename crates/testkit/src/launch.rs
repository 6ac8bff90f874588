//! How to start a server: the program, its arguments, and the medium of its scratch directory.

use crate::{Ended, Server, free_port, perdura_server, server};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The medium of a scratch directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The file system of the system's temporary directory, or of `/var/tmp` if that is in memory.
    Disk,
    /// `/dev/shm`: files there can be mapped without writing to a disk.
    Memory,
}

impl Medium {
    /// Returns a new scratch directory, removed when dropped.
    pub fn scratch(self) -> TempDir {
        let mut builder = tempfile::Builder::new();
        builder.prefix("perdura-test-");
        let made = match self {
            Medium::Disk if is_in_memory(&std::env::temp_dir()) => builder.tempdir_in("/var/tmp"),
            Medium::Disk => builder.tempdir(),
            Medium::Memory => builder.tempdir_in("/dev/shm"),
        };
        made.expect("a scratch directory")
    }
}

fn is_in_memory(folder: &Path) -> bool {
    const TMPFS: u32 = 0x0102_1994;
    rustix::fs::statfs(folder).is_ok_and(|found| found.f_type as u32 == TMPFS)
}

/// A server about to be started.
#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    arguments: Vec<OsString>,
    medium: Medium,
    patience: Duration,
    longest_file: Option<u64>,
}

impl Launch {
    fn new(program: &Path) -> Launch {
        Launch {
            program: program.into(),
            arguments: Vec::new(),
            medium: Medium::Disk,
            patience: Duration::from_secs(60),
            longest_file: None,
        }
    }

    /// Launches `perdura-server` without any options but its port and directory.
    ///
    /// Replicas of it get their dumps at once.
    pub fn perdura() -> Launch {
        Launch::new(perdura_server()).args(["--repl-diskless-sync-delay", "0"])
    }

    /// Launches Perdura over a pool in `/dev/shm` that survives the end of the process.
    pub fn perdura_pmem() -> Launch {
        let launch = Launch::perdura().on(Medium::Memory);
        launch.args([
            "--backend",
            "pmem",
            "--domain",
            "process",
            "--pool",
            "perdura.pool",
            "--pool-size",
            "4gb",
        ])
    }

    /// Launches Perdura over a pool in `/dev/shm` with real flushes and fences.
    pub fn perdura_emulated() -> Launch {
        let launch = Launch::perdura().on(Medium::Memory);
        let launch = launch.args(["--backend", "pmem", "--domain", "clwb", "--emulate-pmem"]);
        launch.args(["--pool", "perdura.pool", "--pool-size", "4gb"])
    }

    /// Launches Perdura over a pool on a disk, synced by the kernel before each reply.
    pub fn perdura_msync() -> Launch {
        let launch = Launch::perdura().args(["--backend", "pmem", "--domain", "msync"]);
        launch.args(["--pool", "perdura.pool", "--pool-size", "4gb"])
    }

    /// Launches Perdura over a pool on a disk, with the smallest journal, which is often full:
    /// `policy` is `always`, `everysec` or `no`.
    pub fn perdura_journal(policy: &str) -> Launch {
        let launch = Launch::perdura().args(["--backend", "journal", "--appendfsync", policy]);
        launch.args(["--journal-size", "64kb", "--pool", "perdura.pool", "--pool-size", "4gb"])
    }

    /// Launches Perdura in memory with an append-only file: `policy` is `always`, `everysec` or
    /// `no`.
    pub fn perdura_aof(policy: &str) -> Launch {
        Launch::perdura().args(["--backend", "aof", "--appendfsync", policy])
    }

    /// Launches Perdura in memory only, without save points.
    pub fn perdura_volatile() -> Launch {
        Launch::perdura().args(["--backend", "aof", "--appendonly", "no", "--save", ""])
    }

    /// Returns the system's `redis-server`, without persistence.
    pub fn redis() -> Launch {
        let launch = Launch::new(Path::new("redis-server"));
        launch.args(["--save", "", "--appendonly", "no", "--enable-debug-command", "yes"])
    }

    /// Returns another server that takes redis-server's arguments.
    pub fn peer(program: impl AsRef<Path>) -> Launch {
        Launch::new(program.as_ref())
    }

    /// Adds command-line arguments.
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Launch {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Puts the scratch directory on a medium.
    pub fn on(mut self, medium: Medium) -> Launch {
        self.medium = medium;
        self
    }

    /// Waits this long for the first reply.
    pub fn patience(mut self, patience: Duration) -> Launch {
        self.patience = patience;
        self
    }

    /// Limits files to this many KiB: writes beyond it fail as on a full disk, until
    /// [`Server::lift_limit`].
    pub fn longest_file(mut self, kib: u64) -> Launch {
        self.longest_file = Some(kib);
        self
    }

    /// Starts the server in an existing directory, which is removed with it.
    #[track_caller]
    pub fn start_in(self, folder: TempDir) -> Server {
        Server::start_in(self, folder)
    }

    /// Starts the server in a new scratch directory and waits until it answers.
    #[track_caller]
    pub fn start(self) -> Server {
        let folder = self.medium.scratch();
        Server::start_in(self, folder)
    }

    /// Runs a server that is expected to exit by itself, for example because it refuses its
    /// arguments.
    pub fn run_to_end(&self) -> Ended {
        let folder = self.medium.scratch();
        self.run_to_end_in(folder.path())
    }

    /// Does the same in an existing directory.
    pub fn run_to_end_in(&self, folder: &Path) -> Ended {
        server::run_to_end(self.command(folder, free_port()), self.patience)
    }

    pub(crate) fn time_to_start(&self) -> Duration {
        self.patience
    }

    /// Returns the command. For a limit, a shell sets it before it executes the program.
    fn program(&self) -> Command {
        let Some(kib) = self.longest_file else { return Command::new(&self.program) };
        let blocks = kib * 2;
        let script = format!("ulimit -S -f {blocks}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(&self.program);
        command
    }

    pub(crate) fn command(&self, folder: &Path, port: u16) -> Command {
        let mut command = self.program();
        command.current_dir(folder).args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--dir",
        ]);
        command.arg(folder).args(&self.arguments);
        command
    }
}
