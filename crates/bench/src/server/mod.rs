//! A measured server: a child with a directory and a port of its own, gone when this value is gone.
//!
//! A child is in a process group of its own, so that Ctrl-C reaches the tool alone, which then ends
//! it. Should the tool itself be killed, the kernel kills the child (see [`launch`]). The directory
//! is removed when this is dropped. When the tool is killed with SIGKILL it stays; its name says
//! whose it was, and the next tool removes it.

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

/// What the name of every directory begins with; the number of the tool's process follows.
const PREFIX: &str = "perdura-bench-";

/// Lines of a server's log that a message shows.
const LAST_LINES: usize = 15;

/// Commands of one round trip while a server is filled, and their bytes.
const TOGETHER: u64 = 2000;
const BYTES_TOGETHER: usize = 4 << 20;

/// How long a server without data may take until it answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a reply may take: a full disk or a rewrite may hold one back for a while.
const PATIENCE_FOR_A_REPLY: Duration = Duration::from_secs(60);

/// How long a server may take to end that found its port taken.
const TIME_TO_END: Duration = Duration::from_secs(2);

/// A server did not start, or is gone.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// It ended.
    #[error("it ended: {status}; the last lines of its log:\n{log}")]
    Ended {
        /// How.
        status: ExitStatus,
        /// What it said last.
        log: String,
    },
    /// It does not answer.
    #[error("no answer within {seconds} seconds; the last lines of its log:\n{log}")]
    Silent {
        /// How long it had.
        seconds: u64,
        /// What it said last.
        log: String,
    },
    /// It could not be started at all.
    #[error("{what}: {cause}")]
    Start {
        /// What failed.
        what: String,
        /// Why.
        cause: io::Error,
    },
    /// The load generator failed.
    #[error("the load generator: {0}")]
    Generator(String),
    /// It answered with an error, or its connection broke.
    #[error("{0}")]
    Reply(#[from] RedisError),
    /// The measurement was interrupted.
    #[error("interrupted")]
    Cancelled,
}

impl Failure {
    /// Makes a failure of what the system says.
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

/// Returns a command whose words are separated by spaces.
pub(crate) fn command(line: &str) -> Cmd {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap_or_default());
    command.arg(words.collect::<Vec<_>>());
    command
}

/// What to start.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// This tool: see [`launch`].
    pub(crate) tool: PathBuf,
    /// The program.
    pub(crate) program: PathBuf,
    /// Its arguments; `PORT` and `DIR` are replaced.
    pub(crate) arguments: Vec<String>,
    /// The directory below which its own directory is made.
    pub(crate) place: PathBuf,
    /// The directory below which a journal of its own is, in the place of `JOURNAL`, if there is
    /// one.
    pub(crate) journal: Option<PathBuf>,
    /// The cores it may use; all when none is named.
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

    /// Starts it again over what is in its directory. Returns at once: it may not answer yet.
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
        let mut command = Command::new(&self.launch.tool);
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
            // Another server on this port, unless the child stays.
            let since = *answered.get_or_insert_with(Instant::now);
            let is_it = server.is_the_child() || since.elapsed() > TIME_TO_END;
            Ok(is_it.then_some(()))
        })?;
        self.still_runs()
    }

    /// Asks until there is an answer; what loads its data, or does not listen yet, has none.
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

    /// Returns the failure of giving no answer since then.
    pub(crate) fn silent(&self, since: Instant) -> Failure {
        Failure::Silent { seconds: since.elapsed().as_secs(), log: self.last_lines() }
    }

    /// Returns whether what answers is known to be the child, or a child of its own.
    fn is_the_child(&self) -> bool {
        let fields = self.info("server").unwrap_or_default();
        let process = fields.get("process_id").and_then(|text| Pid::from_raw(text.parse().ok()?));
        let group = process.and_then(|process| getpgid(Some(process)).ok());
        group.is_some() && group == self.child.as_ref().map(Pid::from_child)
    }

    /// Fails if the process has ended by itself.
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

    /// Sends one command whose words are separated by spaces; an error reply is a failure.
    pub(crate) fn ask<T: FromRedisValue>(&self, line: &str) -> Result<T, Failure> {
        Ok(command(line).query(&mut self.connect()?)?)
    }

    /// Returns the fields of a section of INFO.
    pub(crate) fn info(&self, section: &str) -> Result<BTreeMap<String, String>, Failure> {
        let text: String = self.ask(&format!("INFO {section}"))?;
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Ok(fields.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())).collect())
    }

    /// Returns a number of a section of INFO; 0 where the server does not have it.
    pub(crate) fn figure(&self, section: &str, name: &str) -> Result<u64, Failure> {
        Ok(self.info(section)?.get(name).and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// Returns memory that holds data, as the server counts it.
    pub(crate) fn used_memory(&self) -> Result<u64, Failure> {
        self.figure("memory", "used_memory")
    }

    /// Sends `count` commands, made from their numbers, many to a round trip; none may be refused.
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

    /// Returns its port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the time since its exec.
    pub(crate) fn age(&self) -> Option<Duration> {
        Some(now().saturating_sub(stamped(&self.stamp())?))
    }

    /// Returns a file of its process in `/proc`; an empty text when it does not run.
    fn proc(&self, name: &str) -> String {
        let path = |child: &Child| format!("/proc/{}/{name}", child.id());
        let text = self.child.as_ref().map(|child| fs::read_to_string(path(child)));
        text.and_then(Result::ok).unwrap_or_default()
    }

    /// Returns CPU time that it has used, user and system, with threads that have ended; the kernel
    /// counts in hundredths of a second.
    pub(crate) fn cpu(&self) -> Duration {
        ticks(&self.proc("stat"), 11..13)
    }

    /// Bytes that its directory takes on its medium.
    pub(crate) fn stored(&self) -> u64 {
        occupied(&self.data()) + self.journal.as_ref().map_or(0, |own| occupied(own.path()))
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A child of its own may be writing a file for it.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Returns the bytes that it has given to a disk, in whole pages, as the kernel counts them.
    pub(crate) fn written(&self) -> u64 {
        let text = self.proc("io");
        let field = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        field.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Returns when its journal has nothing that is not in the pool.
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

    /// Returns the directory of its data.
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn stamp(&self) -> PathBuf {
        self.folder.path().join("exec")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Returns its log.
    fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Returns what it said last.
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

/// Removes directories that a tool left which was killed.
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

/// Returns a sum of fields of `/proc/PID/stat` that are in ticks, counted from the one after the
/// name.
fn ticks(stat: &str, fields: std::ops::Range<usize>) -> Duration {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let all: Vec<&str> = after_name.split_whitespace().collect();
    let sum: u64 =
        all.get(fields).unwrap_or_default().iter().filter_map(|f| f.parse::<u64>().ok()).sum();
    let second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs_f64(sum as f64 / second as f64)
}

/// Bytes that the files below a folder occupy: holes in them do not count.
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

/// Returns a free port below those that the kernel gives to outgoing connections, so that it is
/// still free for a restart.
fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(20_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
