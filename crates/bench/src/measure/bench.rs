//! Servers of a measurement: how they are started, filled, and take turns.

use super::systems::{Program, System};
use crate::server::{Failure, Launch, Server};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Programs, places and cores.
#[derive(Clone, Debug)]
pub(crate) struct Bench<'c> {
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
    /// Starts a server with an empty directory and further arguments; on `cores`, or on any.
    pub(super) fn start(
        &self,
        system: &System,
        cores: &[usize],
        further: &[String],
    ) -> Result<Server, Failure> {
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
        Server::start(launch, self.cancel)
    }

    /// Calls `one` with a number for each turn, round by round, each time in another order.
    pub(super) fn rounds(
        &self,
        rounds: u32,
        turns: usize,
        mut one: impl FnMut(usize) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for round in 0..rounds as usize {
            for turn in 0..turns {
                one((round + turn) % turns)?;
                self.go_on()?;
            }
            eprintln!("round {} of {rounds}", round + 1);
        }
        Ok(())
    }

    /// Lets systems take turns. `one` gets the position of a system and a fresh server of it.
    pub(super) fn take_turns(
        &self,
        systems: &[&System],
        rounds: u32,
        mut one: impl FnMut(usize, &Server) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.rounds(rounds, systems.len(), |at| {
            one(at, &self.start(systems[at], &[self.server_core], &[])?)
        })
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

/// Sets keys of 16 bytes, `first` to `first + count`, to values of `size` bytes.
pub(super) fn fill(server: &Server, first: u64, count: u64, size: usize) -> Result<(), Failure> {
    let value = vec![b'v'; size];
    server.send(count, |n| {
        let mut command = redis::cmd("SET");
        command.arg(key(first + n)).arg(&value);
        command
    })
}

/// Returns memory that holds data, as the server counts it.
pub(super) fn used_memory(server: &Server) -> Result<u64, Failure> {
    server.figure("memory", "used_memory")
}

/// Returns the same when the server has freed in the background what was deleted.
pub(super) fn stable_memory(server: &Server, bench: &Bench<'_>) -> Result<u64, Failure> {
    let mut used = used_memory(server)?;
    loop {
        thread::sleep(Duration::from_secs(1));
        bench.go_on()?;
        let now = used_memory(server)?;
        if now == used {
            return Ok(now);
        }
        used = now;
    }
}

/// Returns the name of a key: 16 bytes, as redis-benchmark has them.
pub(super) fn key(number: u64) -> String {
    format!("key:{number:012}")
}
