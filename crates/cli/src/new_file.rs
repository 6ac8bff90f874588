//! New files of this program: complete, or not there ([`pmem::NewFile`]).

use std::path::Path;

use pmem::{NewFile, NewFileError};

/// How the files that are made here begin: dumps, pools and those that were about to become one,
/// commands, and JSON.
const BEGINS: [&[u8]; 6] = [b"REDIS", b"VALKEY", b"PERDURA\0", &[0; 8], b"*", b"{\""];

/// Chooses a name for a file until it is complete, and says what killed runs had left of it.
pub(crate) fn new_file(name: &Path) -> Result<NewFile, NewFileError> {
    let file = NewFile::new(name, &BEGINS)?;
    for left in file.removed() {
        eprintln!("{} was left by a run that was killed: removed", left.display());
    }
    Ok(file)
}
