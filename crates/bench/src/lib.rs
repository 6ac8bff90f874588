//! Measures Perdura and its peers: the program `perdura-bench`, in parts that tests can
//! use too.
//!
//! - `compare` puts servers side by side, and reports on them.
//! - `stalls` measures how long others wait while one client sends long commands.
//! - [`load`] sends requests to a running server, with memtier_benchmark's options.
//! - `device` measures what a medium can do by itself.
//! - [`results`] is what a comparison found, as a file.
//! - [`report`] makes of it a page, pictures and tables.
//! - `machine` is what the figures must be read with.
//! - `server` starts servers, asks them and ends them.
//! - `table` and `units` say how figures are written, everywhere.
//! - `histogram` has latencies as whole distributions.
//! - `stats` says what many runs say together: medians, spreads, ratios of paired runs.
//! - `interrupt` listens to Ctrl-C.
//!
//! This crate is last: it starts servers as programs and talks to them over sockets, as any
//! client does. No other crate uses it.
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

/// How a run ends, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All was measured.
    Done,
    /// Something was not measured, or not as asked: a server failed, replies were errors, the run
    /// was interrupted. What was measured until then is printed and kept.
    Partly,
    /// The command line asks for something that is not possible. Nothing was measured.
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
