//! The program `perdura-bench`: its command line, and nothing more.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    match bench::cli::Arguments::read(std::env::args_os()) {
        Ok(arguments) => bench::run(&arguments).into(),
        Err(error) => error.exit(),
    }
}
