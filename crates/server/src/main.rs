//! The program `perdura-server`: its command line, and nothing more.
#![forbid(unsafe_code)]

use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use server::cli::{self, Request};

fn main() -> ExitCode {
    let words: Vec<Vec<u8>> = std::env::args_os().skip(1).map(OsStringExt::into_vec).collect();
    match cli::parse(&words) {
        Request::Version => println!("{}", cli::version()),
        Request::Help => print!("{}", cli::HELP),
        Request::Wrong(text) => {
            eprintln!("{text}");
            return ExitCode::FAILURE;
        }
        Request::Serve(arguments) => return server::serve(&arguments),
    }
    ExitCode::SUCCESS
}
