//! The program `perdura-server`: its command line, and nothing more.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use server::cli::{self, Request};

fn main() -> ExitCode {
    let words: Vec<Vec<u8>> = std::env::args_os().skip(1).map(OsStringExt::into_vec).collect();
    match cli::parse(&words) {
        Request::Version => show(&format!("{}\n", cli::version())),
        Request::Help => show(cli::HELP),
        Request::Wrong(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
        Request::Serve(arguments) => server::serve(&arguments),
    }
}

/// Writes to standard output, whose reader may have closed it.
fn show(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("perdura-server: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
