//! A measured server: a child process with its own directory and port, which ends when this value
//! is dropped.
//!
//! The child is in its own process group, so that Ctrl-C reaches only the tool, which then ends the
//! child. If the tool itself is killed, the kernel kills the child (see [`launch`]). The directory
//! is removed on drop. If the tool is killed with SIGKILL, the directory stays; its name contains
//! the tool's process id, and the next tool removes it.

pub(crate) mod launch;

use launch::{now, stamped};
use redis::{Client, Cmd, Connection, FromRedisValue, RedisError, RedisResult};
use rustix::process::{Pid, Signal, getpgid, kill_process_group};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use thiserror::Error;

/// The prefix of the name of every directory; the tool's process id follows.
const PREFIX: &str = "perdura-bench-";

/// This tool, which runs [`launch`], even if its file was replaced meanwhile.
const TOOL: &str = "/proc/self/exe";

/// The number of lines of a server's log that a message shows.
const LAST_LINES: usize = 15;

/// The maximum number of commands in one round trip while a server is filled, and of their bytes.
const TOGETHER: u64 = 2000;
const BYTES_TOGETHER: usize = 4 << 20;

/// How long a server without data may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a reply may take: a full disk or a rewrite may delay it.
const PATIENCE_FOR_A_REPLY: Duration = Duration::from_secs(60);

/// How long a server may take to end if its port was in use.
const TIME_TO_END: Duration = Duration::from_secs(2);

/// A failure of a server or of its measurement.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The server ended.
    #[error("it ended: {status}; the last lines of its log:\n{log}")]
    Ended { status: ExitStatus, log: String },
    /// The server does not answer.
    #[error("no answer within {seconds} seconds; the last lines of its log:\n{log}")]
    Silent { seconds: u64, log: String },
    /// The server could not be started.
    #[error("{what}: {cause}")]
    Start { what: String, cause: io::Error },
    /// The load generator failed.
    #[error("the load generator: {0}")]
    Generator(String),
    /// The server replied with an error, or a connection broke.
    #[error("{0}")]
    Reply(#[from] RedisError),
    /// The measurement was interrupted.
    #[error("interrupted")]
    Cancelled,
}

impl Failure {
    /// Returns a function that turns a system error into a failure.
    pub(crate) fn of(what: impl ToString) -> impl FnOnce(io::Error) -> Failure {
        let what = what.to_string();
        |cause| Failure::Start { what, cause }
    }
}

/// Connects to a server on this machine.
pub(crate) fn connect(port: u16) -> RedisResult<Connection> {
    let client = Client::open(format!("redis://127.0.0.1:{port}"))?;
    let connection = client.get_connection_with_timeout(Duration::from_secs(5))?;
    connection.set_read_timeout(Some(PATIENCE_FOR_A_REPLY))?;
    connection.set_write_timeout(Some(PATIENCE_FOR_A_REPLY))?;
    Ok(connection)
}

/// Returns a command from a line whose words are separated by spaces.
pub(crate) fn command(line: &str) -> Cmd {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap_or_default());
    command.arg(words.collect::<Vec<_>>());
    command
}

/// A server to start.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    /// Its arguments, in which `PORT`, `DIR` and `JOURNAL` are replaced.
    pub(crate) arguments: Vec<String>,
    /// The directory in which the server's own directory is created.
    pub(crate) place: PathBuf,
    /// The directory in which a directory for the journal is created, if the journal is in another
    /// place.
    pub(crate) journal: Option<PathBuf>,
    /// The cores that the server may use; all if none is named.
    pub(crate) cores: Vec<usize>,
}

/// A server, running or killed.
#[derive(Debug)]
pub(crate) struct Server {
    launch: Launch,
    folder: TempDir,
    journal: Option<TempDir>,
    port: u16,
    child: Option<Child>,
}

impl Server {
    /// Starts a server in a new directory and waits until it answers.
    pub(crate) fn start(launch: Launch, cancel: &AtomicBool) -> Result<Server, Failure> {
        let folder = own_folder(&launch.place)?;
        let journal = launch.journal.as_deref().map(own_folder).transpose()?;
        fs::create_dir(folder.path().join("data")).map_err(Failure::of("a directory"))?;
        let mut server = Server { launch, folder, journal, port: 0, child: None };
        for _ in 0..5 {
            server.port = free_port();
            server.spawn()?;
            match server.wait_for_answer(cancel) {
                Err(Failure::Ended { .. }) if server.log().contains("ddress already in use") => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(server),
            }
        }
        Err(Failure::of("a free port")(io::ErrorKind::AddrInUse.into()))
    }

    /// Starts the server again on the files in its directory. Returns at once; the server may not
    /// answer yet.
    pub(crate) fn start_again(&mut self) -> Result<(), Failure> {
        self.kill();
        self.spawn()
    }

    fn spawn(&mut self) -> Result<(), Failure> {
        let stamp = self.stamp();
        drop(fs::remove_file(&stamp));
        let log = File::create(self.log_path()).map_err(Failure::of("a log file"))?;
        let errors = log.try_clone().map_err(Failure::of("a log file"))?;
        let mut command = self.launch_command();
        command.arg("--stamp").arg(stamp).arg("--").arg(&self.launch.program);
        command.args(self.arguments()).current_dir(self.data());
        command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        let child =
            command.spawn().map_err(Failure::of(self.launch.program.display().to_string()))?;
        self.child = Some(child);
        Ok(())
    }

    fn launch_command(&self) -> Command {
        let mut command = Command::new(TOOL);
        command.args(["launch", "--parent", &std::process::id().to_string()]);
        if !self.launch.cores.is_empty() {
            let cores: Vec<String> = self.launch.cores.iter().map(usize::to_string).collect();
            command.args(["--cores", &cores.join(",")]);
        }
        command
    }

    fn arguments(&self) -> Vec<OsString> {
        let own = |argument: &String| match argument.as_str() {
            "PORT" => self.port.to_string().into(),
            "DIR" => self.data().into_os_string(),
            "JOURNAL" => self.journal_path().into_os_string(),
            other => other.into(),
        };
        self.launch.arguments.iter().map(own).collect()
    }

    fn wait_for_answer(&mut self, cancel: &AtomicBool) -> Result<(), Failure> {
        let mut answered = None;
        self.wait_for(PATIENCE, Duration::from_millis(2), cancel, |server| {
            server.ask::<String>("PING")?;
            // The answer may come from another server on this port, in which case the child will
            // end.
            let since = *answered.get_or_insert_with(Instant::now);
            let is_it = server.is_the_child() || since.elapsed() > TIME_TO_END;
            Ok(is_it.then_some(()))
        })?;
        self.still_runs()
    }

    /// Calls `ask` until it has an answer. A server that is loading its data, or is not listening
    /// yet, has none.
    pub(crate) fn wait_for<T>(
        &mut self,
        patience: Duration,
        pause: Duration,
        cancel: &AtomicBool,
        mut ask: impl FnMut(&Server) -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let began = Instant::now();
        loop {
            match ask(self) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                Err(Failure::Reply(e)) if e.is_io_error() || e.code() == Some("LOADING") => {}
                Err(failure) => return Err(failure),
            }
            self.still_runs()?;
            if cancel.load(Ordering::Relaxed) {
                return Err(Failure::Cancelled);
            }
            if began.elapsed() > patience {
                return Err(self.silent(began));
            }
            thread::sleep(pause);
        }
    }

    /// Returns the failure of a server that has not answered since this time.
    pub(crate) fn silent(&self, since: Instant) -> Failure {
        Failure::Silent { seconds: since.elapsed().as_secs(), log: self.last_lines() }
    }

    /// Returns true if the server that answers is known to be the child, or a process that it
    /// started.
    fn is_the_child(&self) -> bool {
        let fields = self.info("server").unwrap_or_default();
        let process = fields.get("process_id").and_then(|text| Pid::from_raw(text.parse().ok()?));
        let group = process.and_then(|process| getpgid(Some(process)).ok());
        group.is_some() && group == self.child.as_ref().map(Pid::from_child)
    }

    /// Fails if the process has ended.
    pub(crate) fn still_runs(&mut self) -> Result<(), Failure> {
        let Some(child) = &mut self.child else { return Ok(()) };
        match child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Failure::Ended { status, log: self.last_lines() }),
            Err(cause) => Err(Failure::of("a child's status")(cause)),
        }
    }

    /// Returns a new connection.
    pub(crate) fn connect(&self) -> Result<Connection, Failure> {
        Ok(connect(self.port)?)
    }

    /// Sends one command whose words are separated by spaces. An error reply is a failure.
    pub(crate) fn ask<T: FromRedisValue>(&self, line: &str) -> Result<T, Failure> {
        Ok(command(line).query(&mut self.connect()?)?)
    }

    /// Returns the fields of a section of INFO.
    pub(crate) fn info(&self, section: &str) -> Result<BTreeMap<String, String>, Failure> {
        let text: String = self.ask(&format!("INFO {section}"))?;
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Ok(fields.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())).collect())
    }

    /// Returns a number from a section of INFO; 0 if the server does not report it.
    pub(crate) fn figure(&self, section: &str, name: &str) -> Result<u64, Failure> {
        Ok(self.info(section)?.get(name).and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// Returns the `used_memory` that the server reports.
    pub(crate) fn used_memory(&self) -> Result<u64, Failure> {
        self.figure("memory", "used_memory")
    }

    /// Sends `count` commands, made from their numbers, many per round trip. An error reply is a
    /// failure.
    pub(crate) fn send(&self, count: u64, make: impl Fn(u64) -> Cmd) -> Result<(), Failure> {
        let mut connection = self.connect()?;
        let mut number = 0;
        while number < count {
            let (mut pipe, mut bytes, first) = (redis::pipe(), 0, number);
            while number < count && number - first < TOGETHER && bytes < BYTES_TOGETHER {
                let command = make(number);
                bytes += command.get_packed_command().len();
                pipe.add_command(command).ignore();
                number += 1;
            }
            pipe.query::<()>(&mut connection)?;
        }
        Ok(())
    }

    /// Returns the server's port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the time since the server's exec.
    pub(crate) fn age(&self) -> Option<Duration> {
        Some(now().saturating_sub(stamped(&self.stamp())?))
    }

    /// Returns a file of the server's process in `/proc`; an empty text if it does not run.
    fn proc(&self, name: &str) -> String {
        let path = |child: &Child| format!("/proc/{}/{name}", child.id());
        let text = self.child.as_ref().map(|child| fs::read_to_string(path(child)));
        text.and_then(Result::ok).unwrap_or_default()
    }

    /// Returns the CPU time that the server has used, user and system, including threads that have
    /// ended. The kernel counts it in ticks of a hundredth of a second.
    pub(crate) fn cpu(&self) -> Duration {
        cpu_of(&self.proc("stat"))
    }

    /// Returns the bytes that the server's data and journal occupy on their media.
    pub(crate) fn stored(&self) -> u64 {
        occupied(&self.data()) + self.journal.as_ref().map_or(0, |own| occupied(own.path()))
    }

    /// Kills the server at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The server may have a child of its own that writes a file.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Returns the bytes that the server has caused to be written to a disk, in whole pages, as the
    /// kernel counts them.
    pub(crate) fn written(&self) -> u64 {
        let text = self.proc("io");
        let field = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        field.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Waits until everything in the journal is in the pool.
    pub(crate) fn wait_until_applied(&mut self, cancel: &AtomicBool) -> Result<(), Failure> {
        self.wait_for(PATIENCE, Duration::from_millis(20), cancel, |server| {
            let left = server.figure("persistence", "journal_unapplied_bytes")?;
            Ok((left == 0).then_some(()))
        })
    }

    fn journal_path(&self) -> PathBuf {
        let folder = self.journal.as_ref().map_or_else(|| self.data(), |own| own.path().into());
        folder.join("perdura.journal")
    }

    /// Returns the directory of the server's data.
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn stamp(&self) -> PathBuf {
        self.folder.path().join("exec")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Returns the server's log.
    fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Returns the last lines of the log.
    fn last_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        if last.is_empty() { "  (nothing)".into() } else { format!("  {}", last.join("\n  ")) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn own_folder(place: &Path) -> Result<TempDir, Failure> {
    tempfile::Builder::new()
        .prefix(&format!("{PREFIX}{}-", std::process::id()))
        .tempdir_in(place)
        .map_err(Failure::of(place.display().to_string()))
}

/// Removes directories left by tools that were killed.
pub(crate) fn remove_orphans(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        let gone =
            |owner: &str| owner.parse::<u32>().is_ok() && !Path::new("/proc").join(owner).exists();
        if owner.is_some_and(gone) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// Returns the user and system time in a text of `/proc/PID/stat`, which counts in ticks.
fn cpu_of(stat: &str) -> Duration {
    // The name, in brackets, may contain anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let times = after_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.filter_map(|field| field.parse::<u64>().ok()).sum();
    let second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs_f64(ticks as f64 / second as f64)
}

/// Returns the bytes that the files below a directory occupy, without holes.
fn occupied(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => occupied(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

/// Returns a free port outside of the kernel's range for outgoing connections, so that it is still
/// free for a restart.
fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(20_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
