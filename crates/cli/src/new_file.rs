//! A file that has its name only when it is complete.
//!
//! It is made under another name next to its own, synced, and then linked to its name, unless
//! something has that; the directory is synced at last. So whatever has the name is complete, also
//! after the machine fails. Where something goes wrong the file goes; only a process that is killed
//! leaves it, under the other name.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Why a file was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NewFileError {
    /// Something has its name.
    #[error("{} is there already: choose another name, or remove it", .0.display())]
    Exists(PathBuf),
    /// The system refuses it.
    #[error("{}: {error}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// A file on its way to its name. Unless it is published, it goes.
pub(crate) struct NewFile {
    part: PathBuf,
    name: PathBuf,
}

fn refuse_present(path: &Path) -> Result<(), NewFileError> {
    match path.symlink_metadata() {
        Ok(_) => Err(NewFileError::Exists(path.into())),
        Err(_) => Ok(()),
    }
}

impl NewFile {
    /// Chooses the name that the file has until it is complete. No file is made.
    pub(crate) fn new(name: &Path) -> Result<NewFile, NewFileError> {
        refuse_present(name)?;
        let mut part = OsString::from(name);
        part.push(format!(".{}.part", std::process::id()));
        let part = PathBuf::from(part);
        refuse_present(&part)?;
        Ok(NewFile { part, name: name.into() })
    }

    /// Returns the name that it has until it is complete.
    pub(crate) fn part(&self) -> &Path {
        &self.part
    }

    /// Makes it, empty.
    pub(crate) fn create(&self) -> Result<File, NewFileError> {
        File::create_new(&self.part).map_err(|error| self.failed(error))
    }

    /// Syncs it and gives it its name.
    pub(crate) fn publish(self) -> Result<(), NewFileError> {
        self.link().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => NewFileError::Exists(self.name.clone()),
            _ => self.failed(error),
        })
    }

    fn link(&self) -> io::Result<()> {
        File::open(&self.part)?.sync_all()?;
        // Another file of that name would be replaced by a rename.
        match fs::hard_link(&self.part, &self.name) {
            Ok(()) => fs::remove_file(&self.part)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            // A file system without links.
            Err(_) if self.name.symlink_metadata().is_ok() => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Err(_) => fs::rename(&self.part, &self.name)?,
        }
        let folder = self.name.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn failed(&self, error: io::Error) -> NewFileError {
        NewFileError::System { path: self.name.clone(), error }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // When it was published, nothing has this name any more.
        let _ = fs::remove_file(&self.part);
    }
}
