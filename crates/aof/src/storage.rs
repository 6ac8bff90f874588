//! Files and directories as the log needs them, as two small traits: tests use media that run full,
//! fail, or record the order of writes and syncs.
//!
//! A file is created for this user alone, under a name that must be free (a symbolic link is not
//! followed), and gets the permissions of the one that it replaces.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// A file that is appended to. One thread writes at a time; syncs may run next to a write.
pub trait LogFile: Send + Sync {
    /// Makes one write(2) at the end. Returns how many bytes were taken.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes everything that was appended before durable (fdatasync).
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file to `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Returns true if this is the file at a path, as far as the storage can tell.
    fn is_at(&self, _path: &Path) -> bool {
        true
    }
}

/// A place for files.
pub trait Storage: Send + Sync {
    /// Makes a directory, unless it is there.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Returns true if there is such a directory.
    fn is_dir(&self, path: &Path) -> bool;
    /// Returns the file's length; `None` if there is no such file.
    fn len(&self, path: &Path) -> io::Result<Option<u64>>;
    /// Opens a file for appending; creates it if it is missing.
    fn append_to(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// Makes an empty file, over an existing one.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// Opens a file for reading.
    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;
    /// Renames, over an existing file.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// Permissions of a new file: it contains everybody's data.
const PRIVATE: u32 = 0o600;

/// The file system.
pub struct Disk;

fn new_file(path: &Path) -> io::Result<Arc<dyn LogFile>> {
    Ok(Arc::new(OpenOptions::new().append(true).create_new(true).mode(PRIVATE).open(path)?))
}

impl LogFile for File {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut file: &File = self;
        file.write(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn is_at(&self, path: &Path) -> bool {
        let (Ok(own), Ok(there)) = (self.metadata(), fs::metadata(path)) else { return false };
        (own.dev(), own.ino()) == (there.dev(), there.ino())
    }
}

impl Storage for Disk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            done => done,
        }
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        match fs::metadata(path) {
            Ok(found) if found.is_file() => Ok(Some(found.len())),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn append_to(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        match OpenOptions::new().append(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => new_file(path),
            opened => Ok(Arc::new(opened?)),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => new_file(path),
        }
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if let Ok(replaced) = fs::symlink_metadata(to)
            && replaced.is_file()
        {
            // If a file system refuses that, only the owner can use the file.
            let _ = fs::set_permissions(from, replaced.permissions());
        }
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
