//! Measures Perdura and its peers: the program `perdura-bench`, in parts that tests can
//! use too.
//!
//! - [`compare`] puts servers side by side, and reports on them.
//! - [`measure`] measures single figures of servers, with redis-benchmark as the generator.
//! - [`load`] sends requests to a running server, with memtier_benchmark's options.
//! - [`device`] measures what a medium can do by itself.
//! - [`results`] is what a comparison found, as a file.
//! - [`report`] makes of it a page, pictures and tables.
//! - [`machine`] is what the figures must be read with.
//! - [`histogram`] has latencies as whole distributions.
//! - [`stats`] says what many runs say together: medians, spreads, ratios of paired runs.
//! - [`interrupt`] listens to Ctrl-C.
//!
//! This crate is last: it starts servers as programs and talks to them over sockets, as any
//! client does. No other crate uses it.
#![forbid(unsafe_code)]

pub mod cli;
pub mod compare;
pub mod device;
pub mod histogram;
pub mod interrupt;
pub mod load;
pub mod machine;
pub mod measure;
pub mod report;
pub mod results;
pub mod stats;

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
    match &arguments.command {
        cli::Command::Load(options) => load::execute(options, interrupt::listen()),
        cli::Command::Device(device) => device::run(device),
        cli::Command::Report(report) => report::run(report),
        cli::Command::Compare(options) => compare::run(options, interrupt::listen()),
        cli::Command::Throughput(options) => measure::throughput::run(options, interrupt::listen()),
        cli::Command::Recovery(options) => measure::recovery::run(options, interrupt::listen()),
        cli::Command::Memory(options) => measure::memory::run(options, interrupt::listen()),
        cli::Command::Types(options) => measure::types::run(options, interrupt::listen()),
        cli::Command::Scripts(options) => measure::scripts::run(options, interrupt::listen()),
        cli::Command::Settings(options) => measure::settings::run(options, interrupt::listen()),
        cli::Command::Snapshots(options) => measure::snapshots::run(options, interrupt::listen()),
        cli::Command::Soak(options) => measure::soak::run(options, interrupt::listen()),
        cli::Command::Stalls(options) => measure::stalls::run(options, interrupt::listen()),
        cli::Command::Generators(options) => measure::generators::run(options, interrupt::listen()),
        cli::Command::Launch(options) => {
            eprintln!("perdura-bench: {}", compare::launch::run(options));
            Verdict::Refused
        }
    }
}
