//! The program `perdura-bench`: its command line, and nothing more.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    bench::run(&bench::cli::Arguments::parse()).into()
}
