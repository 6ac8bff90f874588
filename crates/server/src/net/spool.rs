//! Unnamed files, for parts of values that are too large for memory.

use std::io;
use std::path::Path;

use commands::Spool;

/// Makes an empty file that is gone when it is closed, in the folder of the file being written.
pub(crate) fn make(folder: &Path) -> io::Result<Box<dyn Spool>> {
    Ok(Box::new(pmem::unnamed_file(folder)?))
}
