//! Files without a name, for parts of values that are too large for memory.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use commands::Spool;

/// Makes an empty file that is gone when it is closed, next to what is being written.
pub(crate) fn make(path: &Path) -> io::Result<Box<dyn Spool>> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
    std::fs::remove_file(path)?;
    Ok(Box::new(file))
}
