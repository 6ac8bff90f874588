//! The program's messages on standard output.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Writes a line. A reader that has closed the output is no error; if the line cannot be written
/// for another reason, the program ends with status 2, since nobody would learn its result.
pub(crate) fn line(text: Arguments<'_>) {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("standard output: {error}");
            std::process::exit(2);
        }
        _ => {}
    }
}

/// Writes a line to standard output, like [`line`].
macro_rules! say {
    ($($words:tt)*) => {
        $crate::output::line(format_args!($($words)*))
    };
}

pub(crate) use say;
