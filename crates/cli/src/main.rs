//! The program `perdura`: its command line, and nothing more.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cli::run(&cli::Arguments::parse()).into()
}
