//! The server's working directory has one owner.
//!
//! An append-only file, a dump, and what a rewrite puts in their place are files of changing names
//! in `dir`. Two servers over one directory would each replace what the other wrote, and what was
//! acknowledged would be gone. So a server owns its directory, whatever its backend is, before it
//! opens a store, and until it ends; `CONFIG SET dir` takes the new one before it leaves the old
//! one. A pool has a lock of its own too: it may be elsewhere.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use pmem::{MapError, OwnedDir};

/// The directory that this server owns; none on a file system without such locks.
pub(crate) struct DataDir(Mutex<Option<OwnedDir>>);

impl DataDir {
    /// Takes a directory, for which a process that is ending is waited for. The error is for
    /// people.
    pub(crate) fn own(path: &Path) -> Result<DataDir, String> {
        let waits = |holder: Option<u32>| {
            tracing::info!("Waiting for {}, which has {}", process(holder), path.display());
        };
        match pmem::when_unlocked(|| OwnedDir::own(path), waits) {
            Ok(owned) => Ok(DataDir(Mutex::new(Some(owned)))),
            Err(error) => refusal(path, &error).map(|()| DataDir(Mutex::new(None))),
        }
    }

    /// Takes another directory in place of the one that it has.
    pub(crate) fn move_to(&self, path: &Path) -> Result<(), String> {
        let mut owned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if owned.as_ref().is_some_and(|owned| owned.is_at(path)) {
            return Ok(());
        }
        *owned = match OwnedDir::own(path) {
            Ok(owned) => Some(owned),
            Err(error) => refusal(path, &error).map(|()| None)?,
        };
        Ok(())
    }
}

/// Refuses a directory that another process has; one that cannot be locked is taken as it is.
fn refusal(path: &Path, error: &MapError) -> Result<(), String> {
    match error {
        MapError::Locked { holder, .. } => Err(format!(
            "{error}. A directory has the data of one server: end {}, or give this one another \
             --dir",
            process(*holder)
        )),
        error => {
            tracing::warn!("Two servers over {} would not be noticed: {error}", path.display());
            Ok(())
        }
    }
}

/// Returns the words for a process.
pub(crate) fn process(holder: Option<u32>) -> String {
    match holder {
        Some(process) => format!("process {process}"),
        None => "the other process".into(),
    }
}
