//! What the program says, on standard output.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Writes a line. A reader that has seen enough changes nothing; if the line cannot be written for
/// another reason, the program ends with status 2: its result is not known to anybody.
pub(crate) fn line(text: Arguments<'_>) {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("standard output: {error}");
            std::process::exit(2);
        }
        _ => {}
    }
}

/// Writes a line to standard output, as [`line`] does.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::output::line(format_args!($($words)*))
    };
}

pub(crate) use say;
