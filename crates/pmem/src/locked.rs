//! A file that is locked for as long as it is used.

use crate::error::MapError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;

/// An open file with a lock that other processes see. It ends with this value, not with the last descriptor: a child that
/// another thread has just forked has them all until it executes its program.
#[derive(Debug)]
pub(crate) struct LockedFile(File);

impl LockedFile {
    /// Against everybody else.
    pub(crate) fn exclusive(path: &Path, file: File) -> Result<LockedFile, MapError> {
        LockedFile::new(path, file, FlockOperation::NonBlockingLockExclusive)
    }

    /// Against those that would write.
    pub(crate) fn shared(path: &Path, file: File) -> Result<LockedFile, MapError> {
        LockedFile::new(path, file, FlockOperation::NonBlockingLockShared)
    }

    fn new(path: &Path, file: File, operation: FlockOperation) -> Result<LockedFile, MapError> {
        match flock(&file, operation) {
            Ok(()) => Ok(LockedFile(file)),
            Err(Errno::WOULDBLOCK) => Err(MapError::Locked { path: path.to_owned() }),
            Err(other) => {
                Err(MapError::Io { path: path.to_owned(), step: "lock", source: other.into() })
            }
        }
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
