//! The library of the program `perdura-bench`, which measures Perdura and its peers. The
//! integration tests use it too.
//!
//! - [`cli`] defines the command line.
//! - `compare` runs several servers side by side and reports on them.
//! - `stalls` measures how long other clients wait while one client sends long commands.
//! - [`load`] sends requests to a running server; its options are memtier_benchmark's.
//! - `device` measures what a storage medium can do by itself.
//! - [`results`] defines the results of a comparison, and reads and writes them as a file.
//! - [`report`] turns the results into a page, pictures and tables.
//! - `machine` describes the machine on which the figures were measured.
//! - `server` starts servers, queries them and stops them.
//! - `table` and `units` format all tables and figures in the same way.
//! - `histogram` records latencies as full distributions.
//! - `stats` summarises many runs: medians and spreads.
//! - `interrupt` handles Ctrl-C.
//!
//! This crate starts servers as programs and talks to them over sockets, as any client does. No
//! other crate depends on it.
#![forbid(unsafe_code)]

pub mod cli;
mod compare;
mod device;
mod histogram;
mod interrupt;
pub mod load;
mod machine;
pub mod report;
pub mod results;
mod server;
mod stalls;
mod stats;
mod table;
mod units;

use std::process::ExitCode;

/// How a run ended; it determines the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything was measured.
    Done,
    /// Something was not measured, or not as requested: a server failed, replies were errors, or
    /// the run was interrupted. Whatever was measured until then is printed and kept.
    Partly,
    /// The command line asks for something impossible. Nothing was measured.
    Refused,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> ExitCode {
        ExitCode::from(match verdict {
            Verdict::Done => 0,
            Verdict::Partly => 1,
            Verdict::Refused => 2,
        })
    }
}

/// Runs what the command line asks for.
pub fn run(arguments: &cli::Arguments) -> Verdict {
    use cli::Command;
    match &arguments.command {
        Command::Load(options) => load::execute(options, interrupt::listen()),
        Command::Report(options) => report::run(options),
        Command::Compare(options) => compare::run(options, interrupt::listen()),
        Command::Stalls(options) => stalls::run(options, interrupt::listen()),
        Command::Launch(options) => {
            eprintln!("perdura-bench: {}", server::launch::run(options));
            Verdict::Refused
        }
    }
}
