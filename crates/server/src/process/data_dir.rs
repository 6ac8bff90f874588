//! The server's working directory has one owner.
//!
//! An append-only file, a dump, and their replacements are files of changing names in `dir`. Two
//! servers in one directory would replace each other's files, and acknowledged writes would be
//! lost. So a server owns its directory, whatever its backend is, from before it opens a store
//! until it ends. `CONFIG SET dir` takes the new directory before it leaves the old one, which it
//! keeps too if the log is there, since the log does not move. A pool has a lock of its own, since
//! it may be elsewhere. On NFS, and on some file systems in user space, such locks do not reach
//! other hosts.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use pmem::{MapError, OwnedDir};

/// The directories that this server owns, the present one last; none on a file system without such
/// locks.
pub(crate) struct DataDir(Mutex<Vec<OwnedDir>>);

impl DataDir {
    /// Takes a directory, waiting for a process that is just ending. The error is for people.
    pub(crate) fn own(path: &Path) -> Result<DataDir, String> {
        let waits = |holder: Option<u32>| {
            tracing::info!("Waiting for {}, which has {}", process(holder), path.display());
        };
        match pmem::when_unlocked(|| OwnedDir::own(path), waits) {
            Ok(owned) => Ok(DataDir(Mutex::new(vec![owned]))),
            Err(error) => refusal(path, &error).map(|()| DataDir(Mutex::default())),
        }
    }

    /// Takes another directory, in place of the present ones unless it `keeps` them.
    pub(crate) fn move_to(&self, path: &Path, keeps: bool) -> Result<(), String> {
        let mut owned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let present = owned.iter().position(|owned| owned.is_at(path));
        let taken = match present {
            Some(at) => Some(owned.remove(at)),
            None => match OwnedDir::own(path) {
                Ok(taken) => Some(taken),
                Err(error) => refusal(path, &error).map(|()| None)?,
            },
        };
        if !keeps {
            owned.clear();
        }
        owned.extend(taken);
        Ok(())
    }
}

/// Refuses a directory that another process owns; one that cannot be locked is taken as it is.
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

/// Describes a process in words.
pub(crate) fn process(holder: Option<u32>) -> String {
    match holder {
        Some(process) => format!("process {process}"),
        None => "the other process".into(),
    }
}
