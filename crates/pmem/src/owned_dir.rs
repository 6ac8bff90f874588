//! A directory that one process owns.
//!
//! The files in it change names (a log that is rewritten, a dump that is replaced), so no single
//! file can be locked for all of them: the directory itself is. The lock is advisory: it does not
//! affect those who read, or create other files there.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::MapError;
use crate::locked::LockedFile;

/// The ownership of a directory. It ends with this value or with the process.
#[derive(Debug)]
pub struct OwnedDir {
    lock: LockedFile,
}

impl OwnedDir {
    /// Takes ownership of a directory, unless somebody else has it.
    pub fn own(path: &Path) -> Result<OwnedDir, MapError> {
        let failed = |source| MapError::Io { path: path.to_owned(), step: "open", source };
        let dir = File::open(path).map_err(failed)?;
        Ok(OwnedDir { lock: LockedFile::sole(path, dir)? })
    }

    /// Returns true if the path leads to this directory.
    pub fn is_at(&self, path: &Path) -> bool {
        let same =
            |own: Metadata, there: Metadata| (own.dev(), own.ino()) == (there.dev(), there.ino());
        self.lock.metadata().is_ok_and(|own| fs::metadata(path).is_ok_and(|there| same(own, there)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner_who_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let owned = OwnedDir::own(dir.path()).expect("nobody has it");
        assert!(owned.is_at(dir.path()) && !owned.is_at(Path::new("/")));
        let refused = OwnedDir::own(dir.path()).expect_err("it is owned");
        let named = format!("another process has locked it (process {})", std::process::id());
        assert!(refused.to_string().ends_with(&named), "{refused}");
        drop(owned);
        OwnedDir::own(dir.path()).expect("nobody has it any more");
    }
}
