//! The program `perdura-bench`: its command line, and nothing more.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    bench::run(&bench::cli::Arguments::parse()).into()
}
