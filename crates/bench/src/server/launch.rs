//! The last step before a measured program runs: `perdura-bench launch ... -- PROGRAM ARGUMENTS`
//! replaces itself with the program.
//!
//! Three things must be done in the child itself: the kernel must kill it when the tool ends,
//! however that happens; it must be pinned to its cores; and the time of its exec must be recorded
//! without the time that this step takes. Between `fork` and `exec` only unsafe code could do that.
//! So the tool starts itself with this command, prepares the process in safe code, and executes the
//! program.
//!
//! **Invariant:** the kernel watches the *thread* that started the child. A program must be started
//! by a thread that lives until the program has ended.

use super::Failure;
use clap::Args;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What to prepare, and which program to execute.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The process whose end also ends the program.
    #[arg(long)]
    parent: i32,
    /// The cores that the program may use; all if none is named.
    #[arg(long, value_delimiter = ',')]
    cores: Vec<usize>,
    /// A file for the time of the exec, in nanoseconds of the monotonic clock.
    #[arg(long)]
    stamp: PathBuf,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Replaces this process with the program. Returns only if that fails.
pub(crate) fn run(options: &Options) -> io::Error {
    match prepare(options) {
        Ok(mut command) => {
            let error = command.exec();
            io::Error::new(error.kind(), format!("{}: {error}", options.command[0].display()))
        }
        Err(error) => error,
    }
}

fn prepare(options: &Options) -> io::Result<Command> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the parent ended before the call above, no signal will come.
    if getppid().map(Pid::as_raw_pid) != Some(options.parent) {
        return Err(io::Error::other("the tool that started this is gone"));
    }
    bind(&options.cores)?;
    let mut command = Command::new(&options.command[0]);
    command.args(&options.command[1..]);
    fs::write(&options.stamp, now().as_nanos().to_string())?;
    Ok(command)
}

/// Pins this thread, and those that it starts from now on, to these cores; to all if none is named.
pub(crate) fn stay_on(cores: &[usize]) -> Result<(), Failure> {
    bind(cores).map_err(Failure::of(format!("cores {cores:?}")))
}

fn bind(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cores.is_empty() {
        (0..CpuSet::MAX_CPU).for_each(|core| set.set(core));
    }
    for core in cores {
        if *core >= CpuSet::MAX_CPU {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no core {core}")));
        }
        set.set(*core);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Returns the time of the monotonic clock, which all processes share.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the time of the exec that a launched program recorded.
pub(crate) fn stamped(path: &Path) -> Option<Duration> {
    let text = fs::read_to_string(path).ok()?;
    text.parse().ok().map(Duration::from_nanos)
}
