//! Servers of a measurement: how they are started, asked, watched and stopped.

use super::systems::{Program, System};
use crate::compare::client;
use crate::compare::server::{Failure, Launch, Server};
use redis::{Cmd, Connection};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Commands of one round trip while a server is filled, and their bytes.
const TOGETHER: u64 = 2000;
const BYTES_TOGETHER: usize = 4 << 20;

/// Programs, places and cores.
#[derive(Clone, Debug)]
pub(super) struct Bench<'c> {
    /// This program: it starts others on their core.
    pub(super) tool: PathBuf,
    pub(super) perdura: PathBuf,
    pub(super) redis: PathBuf,
    pub(super) disk: PathBuf,
    pub(super) server_core: usize,
    pub(super) client_core: usize,
    pub(super) cancel: &'c AtomicBool,
}

impl Bench<'_> {
    /// Starts a server with an empty directory; on `cores`, or on any.
    pub(super) fn start(&self, system: &System, cores: &[usize]) -> Result<Host, Failure> {
        self.start_with(system, cores, &[])
    }

    /// As [`Bench::start`], with further arguments.
    pub(super) fn start_with(
        &self,
        system: &System,
        cores: &[usize],
        further: &[String],
    ) -> Result<Host, Failure> {
        let program = match system.program {
            Program::Perdura => &self.perdura,
            Program::Redis => &self.redis,
        };
        let launch = Launch {
            tool: self.tool.clone(),
            program: program.clone(),
            arguments: [&system.arguments(), further].concat(),
            place: if system.is_on_disk { self.disk.clone() } else { "/dev/shm".into() },
            journal: None,
            cores: cores.to_vec(),
        };
        Ok(Host { server: Server::start(launch, self.cancel)? })
    }

    /// Lets systems take turns, round by round, each time in another order. `one` gets the position
    /// of a system and a fresh server of it.
    pub(super) fn take_turns(
        &self,
        systems: &[&System],
        rounds: u32,
        mut one: impl FnMut(usize, &mut Host) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for round in 0..rounds as usize {
            for turn in 0..systems.len() {
                let at = (round + turn) % systems.len();
                let mut host = self.start(systems[at], &[self.server_core])?;
                one(at, &mut host)?;
                self.go_on()?;
            }
            eprintln!("round {} of {rounds}", round + 1);
        }
        Ok(())
    }

    /// Fails if an end was asked for.
    pub(super) fn go_on(&self) -> Result<(), Failure> {
        if self.cancel.load(Ordering::Relaxed) { Err(Failure::Cancelled) } else { Ok(()) }
    }

    /// Returns a command that runs a program on one core, and ends with this one.
    pub(super) fn on_core(&self, core: usize, program: &str) -> Command {
        let mut command = Command::new(&self.tool);
        command.args(["launch", "--parent", &std::process::id().to_string()]);
        command.args(["--cores", &core.to_string(), "--", program]);
        command
    }
}

/// A running server.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) server: Server,
}

impl Host {
    pub(super) fn connect(&self) -> Result<Connection, Failure> {
        Ok(self.server.connect()?)
    }

    /// Sends one command whose words are separated by spaces; an error reply is a failure.
    pub(super) fn ask<T: redis::FromRedisValue>(&self, line: &str) -> Result<T, Failure> {
        Ok(client::ask(&mut self.connect()?, line)?)
    }

    /// Returns a number of a section of INFO; 0 where the server does not have it.
    pub(super) fn figure(&self, section: &str, name: &str) -> Result<u64, Failure> {
        let fields = client::info(&mut self.connect()?, section)?;
        Ok(fields.get(name).and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// Sends `count` commands, made from their numbers, many to a round trip; none may be refused.
    pub(super) fn send(&self, count: u64, make: impl Fn(u64) -> Cmd) -> Result<(), Failure> {
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

    /// Sets keys of 16 bytes, `first` to `first + count`, to values of `size` bytes.
    pub(super) fn fill(&self, first: u64, count: u64, size: usize) -> Result<(), Failure> {
        let value = vec![b'v'; size];
        self.send(count, |n| {
            let mut command = redis::cmd("SET");
            command.arg(key(first + n)).arg(&value);
            command
        })
    }

    /// Returns CPU time that its threads have used, to the nanosecond.
    pub(super) fn cpu(&self) -> Duration {
        let Some(process) = self.server.process() else { return Duration::ZERO };
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let used = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        Duration::from_nanos(tasks.filter_map(used).sum())
    }

    /// Returns memory that holds data, as the server counts it.
    pub(super) fn used_memory(&self) -> Result<u64, Failure> {
        self.figure("memory", "used_memory")
    }

    /// Returns the same when the server has freed in the background what was deleted.
    pub(super) fn stable_memory(&self, bench: &Bench<'_>) -> Result<u64, Failure> {
        let mut used = self.used_memory()?;
        loop {
            thread::sleep(Duration::from_secs(1));
            bench.go_on()?;
            let now = self.used_memory()?;
            if now == used {
                return Ok(now);
            }
            used = now;
        }
    }

    /// Bytes of the process that no file holds, and of the files in its directory, a pool's among
    /// them.
    pub(super) fn resident(&self) -> u64 {
        self.anonymous() + self.server.stored()
    }

    /// Bytes of the process that no file holds.
    pub(super) fn anonymous(&self) -> u64 {
        let Some(process) = self.server.process() else { return 0 };
        let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
        let anonymous = text.lines().find_map(|line| {
            let words = line.strip_prefix("Anonymous:")?;
            words.split_whitespace().next()?.parse::<u64>().ok()
        });
        anonymous.unwrap_or(0) * 1024
    }
}

/// Returns the name of a key: 16 bytes, as redis-benchmark has them.
pub(super) fn key(number: u64) -> String {
    format!("key:{number:012}")
}
