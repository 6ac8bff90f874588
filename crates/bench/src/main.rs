//! The program `perdura-bench`. It only parses the command line; the library does the rest.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    bench::run(&bench::cli::Arguments::parse()).into()
}
