//! New files of this program, which are complete or do not exist ([`pmem::NewFile`]).

use std::path::Path;

use pmem::{NewFile, NewFileError};

/// The first bytes of the files that are made here: dumps, pools and those that were about to
/// become one, commands, and JSON.
const BEGINS: [&[u8]; 6] = [b"REDIS", b"VALKEY", b"PERDURA\0", &[0; 8], b"*", b"{\""];

/// Chooses a temporary name for a file until it is complete, and reports files that killed runs
/// have left.
pub(crate) fn new_file(name: &Path) -> Result<NewFile, NewFileError> {
    let file = NewFile::new(name, &BEGINS)?;
    for left in file.removed() {
        eprintln!("{} was left by a run that was killed: removed", left.display());
    }
    Ok(file)
}
