//! The server's working directory has one owner.
//!
//! An append-only file, a dump, and what a rewrite puts in their place are files of changing names
//! in `dir`. Two servers over one directory would each replace what the other wrote, and what was
//! acknowledged would be gone. So a server owns its directory, whatever its backend is, before it
//! opens a store, and until it ends; `CONFIG SET dir` takes the new one before it leaves the old
//! one, which it keeps too where the log is: that does not move. A pool has a lock of its own: it
//! may be elsewhere. On NFS, and some file systems of user space, such locks do not reach other
//! hosts.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use pmem::{MapError, OwnedDir};

/// The directories that this server owns, the present one last; none on a file system without such
/// locks.
pub(crate) struct DataDir(Mutex<Vec<OwnedDir>>);

impl DataDir {
    /// Takes a directory, for which a process that is ending is waited for. The error is for
    /// people.
    pub(crate) fn own(path: &Path) -> Result<DataDir, String> {
        let waits = |holder: Option<u32>| {
            tracing::info!("Waiting for {}, which has {}", process(holder), path.display());
        };
        match pmem::when_unlocked(|| OwnedDir::own(path), waits) {
            Ok(owned) => Ok(DataDir(Mutex::new(vec![owned]))),
            Err(error) => refusal(path, &error).map(|()| DataDir(Mutex::default())),
        }
    }

    /// Takes another directory, in place of those that it has unless it `keeps` them.
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
