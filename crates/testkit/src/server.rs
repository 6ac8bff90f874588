//! A running server: its process, its log and its directory.
//!
//! Dropping it ends the process with SIGKILL and removes the directory. After [`Server::kill`] or
//! [`Server::terminate`] the directory stays, and [`Server::start_again`] starts the server in it
//! again, on the same port.

use crate::{Client, Launch, free_port};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The result of a process that ended by itself.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// All of its output.
    pub log: String,
}

/// A server, running or killed.
pub struct Server {
    launch: Launch,
    folder: TempDir,
    port: u16,
    child: Option<Child>,
    took: Duration,
}

enum Start {
    Ready(Child),
    PortTaken,
    Ended(ExitStatus),
    Failed(String),
}

impl Server {
    #[track_caller]
    pub(crate) fn start_in(launch: Launch, folder: TempDir) -> Server {
        let mut server =
            Server { launch, folder, port: free_port(), child: None, took: Duration::ZERO };
        for _ in 0..5 {
            match server.spawn() {
                Start::Ready(child) => {
                    server.child = Some(child);
                    return server;
                }
                Start::PortTaken => server.port = free_port(),
                Start::Ended(status) => panic!("the server ended: {status}\n{}", server.log()),
                Start::Failed(why) => panic!("{why}\n{}", server.log()),
            }
        }
        panic!("no free port");
    }

    /// Starts it once more over the same directory, on the same port.
    #[track_caller]
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "the server is still running");
        match self.spawn() {
            Start::Ready(child) => self.child = Some(child),
            Start::PortTaken => panic!("port {} was taken in between", self.port),
            Start::Ended(status) => panic!("the server ended: {status}\n{}", self.log()),
            Start::Failed(why) => panic!("{why}\n{}", self.log()),
        }
    }

    /// Starts it once more if it can. Returns its exit status otherwise.
    pub fn try_start_again(&mut self) -> Option<ExitStatus> {
        assert!(self.child.is_none(), "the server is still running");
        match self.spawn() {
            Start::Ready(child) => {
                self.child = Some(child);
                None
            }
            Start::Ended(status) => Some(status),
            Start::PortTaken => panic!("port {} was taken in between", self.port),
            Start::Failed(why) => panic!("{why}\n{}", self.log()),
        }
    }

    /// Starts it once more with other arguments.
    #[track_caller]
    pub fn start_as(&mut self, launch: Launch) {
        self.launch = launch;
        self.start_again();
    }

    /// Starts it with other arguments and kills it after a while, which may be before it serves.
    #[track_caller]
    pub fn start_and_kill(&mut self, launch: Launch, wait: Duration) {
        assert!(self.child.is_none(), "the server is still running");
        self.launch = launch;
        let log = File::create(self.log_path()).expect("a log file");
        let mut command = self.launch.command(self.folder.path(), self.port);
        let mut child = spawn(&mut command, log).unwrap_or_else(|e| panic!("{command:?}: {e}"));
        thread::sleep(wait);
        child.kill().expect("SIGKILL can be sent");
        child.wait().expect("a child can be waited for");
    }

    /// Ends the process at once, as a crash would (SIGKILL).
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("SIGKILL can be sent");
            child.wait().expect("a child can be waited for");
        }
    }

    /// Refuses writes to files after this many KiB from now on; for a server that was started with
    /// a limit ([`Launch::longest_file`]), which it survives.
    #[track_caller]
    pub fn set_limit(&self, kib: u64) {
        let maximum = getrlimit(Resource::Fsize).maximum;
        let limit = Rlimit { current: Some(kib * 1024), maximum };
        prlimit(Some(self.process()), Resource::Fsize, limit).expect("a limit can be lowered");
    }

    /// Stops the process where it is, until [`Server::resume`]. When this returns, none of its
    /// threads goes on.
    #[track_caller]
    pub fn pause(&self) {
        kill_process(self.process(), Signal::STOP).expect("SIGSTOP can be sent");
        let start = Instant::now();
        while !self.is_stopped() {
            assert!(start.elapsed() < Duration::from_secs(30), "the process does not stop");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns true if all threads are stopped, or there is no process.
    fn is_stopped(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten();
        let status = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status"));
        threads.flatten().filter_map(|thread| status(thread).ok()).all(|status| {
            let state = status.lines().find_map(|line| line.strip_prefix("State:"));
            state.is_none_or(|state| state.trim_start().starts_with(['T', 't', 'Z', 'X']))
        })
    }

    /// Lets a paused process continue.
    #[track_caller]
    pub fn resume(&self) {
        kill_process(self.process(), Signal::CONT).expect("SIGCONT can be sent");
    }

    /// Lifts the limit: files may be of any length again ([`Launch::longest_file`]).
    #[track_caller]
    pub fn lift_limit(&self) {
        let maximum = getrlimit(Resource::Fsize).maximum;
        prlimit(Some(self.process()), Resource::Fsize, Rlimit { current: maximum, maximum })
            .expect("the hard limit was left as it is");
    }

    /// Asks the process to end (SIGTERM) and waits until it has.
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        self.ask_to_end();
        self.wait()
    }

    /// Sends SIGTERM.
    pub fn ask_to_end(&self) {
        kill_process(self.process(), Signal::TERM).expect("SIGTERM can be sent");
    }

    /// Lets the process stand still, or go on.
    pub fn stop(&self, yes: bool) {
        let signal = if yes { Signal::STOP } else { Signal::CONT };
        kill_process(self.process(), signal).expect("a signal can be sent");
    }

    /// Waits until the process has ended by itself.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the server is running");
        wait(&mut child, Duration::from_secs(60))
            .unwrap_or_else(|| panic!("the server does not end\n{}", self.log()))
    }

    /// Kills it and starts it again.
    #[track_caller]
    pub fn crash(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Returns a new connection.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.address()).expect("the server accepts connections")
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its process ID.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server is running").id()
    }

    /// Returns its directory.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns all output since the last start.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Returns the time from its last start to its first reply.
    pub fn time_to_first_reply(&self) -> Duration {
        self.took
    }

    #[track_caller]
    fn process(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("the server is running"))
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("test.log")
    }

    fn spawn(&mut self) -> Start {
        let began = Instant::now();
        let log = File::create(self.log_path()).expect("a log file");
        let mut command = self.launch.command(self.folder.path(), self.port);
        let mut child = match spawn(&mut command, log) {
            Ok(child) => child,
            Err(e) => return Start::Failed(format!("{command:?}: {e}")),
        };
        while began.elapsed() < self.launch.time_to_start() {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                if self.log().contains("ddress already in use") {
                    return Start::PortTaken;
                }
                return Start::Ended(status);
            }
            if answers(self.address()) && listens(child.id(), self.port) {
                self.took = began.elapsed();
                return Start::Ready(child);
            }
            thread::sleep(Duration::from_millis(1));
        }
        let _ = child.kill();
        let _ = child.wait();
        Start::Failed(format!(
            "{command:?} did not answer within {:?}",
            self.launch.time_to_start()
        ))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            eprintln!("--- log of the server on port {}\n{}---", self.port, self.log());
        }
    }
}

/// Returns true if a server serves: it replies to PING with anything but LOADING. An error that
/// asks for a password counts.
fn answers(address: SocketAddr) -> bool {
    let reply = Client::connect(address).and_then(|mut client| client.try_call(&["PING"]));
    reply.is_ok_and(|reply| !reply.text().starts_with("LOADING"))
}

/// Returns true if this process, and not the one of another test, listens on a port.
fn listens(process: u32, port: u16) -> bool {
    const LISTENS: &str = "0A";
    let port = format!(":{port:04X}");
    let sockets = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let on_port = sockets.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1)?.ends_with(&port) && *fields.get(3)? == LISTENS;
        is_it.then(|| fields.get(9).map(|inode| PathBuf::from(format!("socket:[{inode}]"))))?
    });
    let on_port: Vec<PathBuf> = on_port.collect();
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let mut open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    open.any(|link| on_port.contains(&link))
}

fn spawn(command: &mut Command, log: File) -> std::io::Result<Child> {
    let errors = log.try_clone()?;
    command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn()
}

fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < patience {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(2));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

pub(crate) fn run_to_end(mut command: Command, patience: Duration) -> Ended {
    let mut file = tempfile::NamedTempFile::new().expect("a log file");
    let log = file.as_file_mut().try_clone().expect("a second handle");
    let mut child = spawn(&mut command, log).unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let status = wait(&mut child, patience);
    let log = fs::read_to_string(file.path()).unwrap_or_default();
    let status = status.unwrap_or_else(|| panic!("{command:?} goes on\n{log}"));
    Ended { status, log }
}
