//! The server's working directory has one owner.
//!
//! An append-only file, a dump, and what a rewrite puts in their place are files of changing names
//! in `dir`. Two servers over one directory would each replace what the other wrote, and what was
//! acknowledged would be gone. So a server owns its directory, whatever its backend is, before it
//! opens a store, and until it ends; `CONFIG SET dir` takes the new one before it leaves the old
//! one, which it keeps too where the log is: that does not move. A pool has a lock of its own: it
//! may be elsewhere. On NFS, and some file systems of user space, such locks do not reach other
//! hosts.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
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

    /// Removes the part of a dump that an earlier version left in this directory if its process was
    /// killed: all saves had one name. What is written now has other names, and the next save
    /// removes it.
    pub(crate) fn remove_old_part(&self, dir: &Path, dump: &str) {
        let path = dir.join(format!("temp-{dump}"));
        let is_owned = !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if is_owned && is_part_of_dump(&path).unwrap_or(false) && fs::remove_file(&path).is_ok() {
            tracing::info!(
                "Removed {}, a part of a dump that an ended process had left",
                path.display()
            );
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

/// Returns true if a file is this user's and a dump without its end: nothing that may be a whole
/// one, or something else.
fn is_part_of_dump(path: &Path) -> io::Result<bool> {
    const MAGIC: &[u8] = b"REDIS";
    /// What ends a dump, before its checksum of eight bytes.
    const END: u8 = 0xff;
    let found = path.symlink_metadata()?;
    if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    let file = File::open(path)?;
    let (mut begin, mut end) = ([0; MAGIC.len()], [0]);
    let (from, len) = (file.read_at(&mut begin, 0)?, file.metadata()?.len());
    if let Some(at) = len.checked_sub(9) {
        file.read_exact_at(&mut end, at)?;
    }
    Ok(begin[..from] == MAGIC[..from] && end != [END])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_part_of_a_dump_is_removed_and_only_from_a_directory_that_is_owned() {
        let whole = b"REDIS0010\xff12345678";
        for (content, goes) in [
            (&b""[..], true),
            (b"RED", true),
            (b"REDIS0010\xfa", true),
            (b"REDIS0010\xfe\x00 and more of it", true),
            (whole, false),
            (b"notes", false),
        ] {
            let dir = tempfile::tempdir().expect("a folder");
            let path = dir.path().join("temp-dump.rdb");
            fs::write(&path, content).expect("a file");
            DataDir(Mutex::default()).remove_old_part(dir.path(), "dump.rdb");
            assert!(path.exists(), "nobody owns the directory");
            let owned = DataDir::own(dir.path()).expect("nobody else has it");
            owned.remove_old_part(dir.path(), "other.rdb");
            assert!(path.exists(), "another name");
            owned.remove_old_part(dir.path(), "dump.rdb");
            assert_eq!(!path.exists(), goes, "{}", content.escape_ascii());
        }
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().expect("a folder");
        let owned = DataDir::own(dir.path()).expect("nobody else has it");
        let (file, link) = (dir.path().join("file"), dir.path().join("temp-dump.rdb"));
        fs::write(&file, b"REDIS0010").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        owned.remove_old_part(dir.path(), "dump.rdb");
        assert!(file.exists() && link.is_symlink());
    }
}
