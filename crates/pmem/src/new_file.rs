//! A file that has its name only when it is complete.
//!
//! It is made under another name next to its own, synced, and then linked to its name, unless
//! something has that; the directory is synced at last. So whatever has the name is complete, also
//! after the machine fails. Where something goes wrong the file goes; only a process that is killed
//! leaves it, under the other name: whoever makes a file of the same name next removes that.
//!
//! A file that is being made is this user's alone and locked, and its name has the number of the
//! process, and digits that nobody can guess. It is removed
//! if nobody has locked it and no such process runs: another machine, or another container, may be
//! making it where its number says nothing. A file of such a name that begins as nothing that its
//! maker makes is somebody else's, and stays.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, test_kill_process};

use crate::replaced_file::{new_private, unguessable};

/// Why a file was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewFileError {
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
#[derive(Debug)]
pub struct NewFile {
    part: PathBuf,
    name: PathBuf,
    removed: Vec<PathBuf>,
    /// Keeps the file locked.
    locked: OnceCell<File>,
}

const SUFFIX: &str = ".part";

fn refuse_present(path: &Path) -> Result<(), NewFileError> {
    match path.symlink_metadata() {
        Ok(_) => Err(NewFileError::Exists(path.into())),
        Err(_) => Ok(()),
    }
}

/// Removes what processes that were killed have left of a file of this name; what it was.
fn remove_left(name: &Path, begins: &[&[u8]]) -> Vec<PathBuf> {
    let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Some(own) = name.file_name().and_then(|own| own.to_str()) else { return Vec::new() };
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let is_left = |path: &PathBuf| {
        let part = path.file_name().and_then(|part| part.to_str());
        let number = part.and_then(|part| part.strip_prefix(own)?.strip_prefix('.'));
        let number = number.and_then(|number| number.strip_suffix(SUFFIX));
        // Without the digits, as earlier versions named them, or with them.
        let number = number.and_then(|number| {
            let (number, digits) = number.split_once('.').unwrap_or((number, ""));
            let is_ours = digits.bytes().all(|digit| digit.is_ascii_hexdigit())
                && [0, crate::replaced_file::DIGITS].contains(&digits.len());
            process(number).filter(|_| is_ours)
        });
        number.is_some_and(|number| is_left(path, number, begins))
    };
    let left = entries.map(|entry| entry.path()).filter(is_left);
    left.filter(|path| fs::remove_file(path).is_ok()).collect()
}

/// Returns the process of this number, in the digits that the number has in a name.
fn process(digits: &str) -> Option<Pid> {
    let number: u32 = digits.parse().ok()?;
    let is_as_written = number.to_string() == digits;
    i32::try_from(number).ok().filter(|_| is_as_written).and_then(Pid::from_raw)
}

/// Returns true if nobody is making a file any more that was made here.
fn is_left(path: &Path, process: Pid, begins: &[&[u8]]) -> bool {
    let runs = test_kill_process(process) != Err(rustix::io::Errno::SRCH);
    let is_free = |file: &File| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
    let is_ours = |file: File| is_free(&file) && is_ours(file, begins);
    !runs && path.is_file() && File::open(path).is_ok_and(is_ours)
}

/// Returns true if a file begins in one of these ways, or has nothing yet.
fn is_ours(file: File, begins: &[&[u8]]) -> bool {
    let mut start = Vec::with_capacity(8);
    let read = file.take(8).read_to_end(&mut start);
    let begins = || begins.iter().any(|begin| start.starts_with(begin));
    read.is_ok() && (start.is_empty() || begins())
}

impl NewFile {
    /// Chooses the name that the file has until it is complete. No file is made. What killed
    /// processes left of such a file, and what begins in one of these ways (up to 8 bytes), is
    /// removed.
    pub fn new(name: &Path, begins: &[&[u8]]) -> Result<NewFile, NewFileError> {
        refuse_present(name)?;
        let removed = remove_left(name, begins);
        let mut part = OsString::from(name);
        let digits =
            unguessable().map_err(|error| NewFileError::System { path: name.into(), error })?;
        part.push(format!(".{}.{digits}{SUFFIX}", std::process::id()));
        let part = PathBuf::from(part);
        refuse_present(&part)?;
        Ok(NewFile { part, name: name.into(), removed, locked: OnceCell::new() })
    }

    /// Returns the files that killed processes had left, and that were removed.
    pub fn removed(&self) -> &[PathBuf] {
        &self.removed
    }

    /// Returns the name that it has until it is complete.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Makes it, empty.
    pub fn create(&self) -> Result<File, NewFileError> {
        let make = || {
            let file = new_private(&self.part)?;
            let same = file.try_clone()?;
            // A file system without locks has none.
            let _ = flock(&same, FlockOperation::NonBlockingLockExclusive);
            let _ = self.locked.set(same);
            Ok(file)
        };
        make().map_err(|error| self.failed(error))
    }

    /// Syncs it and gives it its name.
    pub fn publish(self) -> Result<(), NewFileError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_process_is_digits_alone() {
        for text in ["", "0", "-1", "+1", "01", "1x", " 1", "2147483648", "99999999999999999999"] {
            assert_eq!(process(text), None, "{text}");
        }
        assert_eq!(process("2147483647"), Pid::from_raw(i32::MAX));
    }

    #[test]
    fn only_what_begins_as_what_is_made_here_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("file");
        // No process has this number.
        let left = folder.path().join(format!("file.{}.part", i32::MAX));
        let check = |bytes: &[u8], is_removed: bool| {
            fs::write(&left, bytes).expect("a file");
            let file =
                NewFile::new(&name, &[b"REDIS", b"PERDURA\0", &[0; 8]]).expect("no such file");
            assert_eq!(file.removed().len(), usize::from(is_removed));
            assert_eq!(!left.exists(), is_removed, "{}", String::from_utf8_lossy(bytes));
        };
        for bytes in [&b""[..], b"REDIS0011\xfa", b"PERDURA\0\x02", &[0; 4096]] {
            check(bytes, true);
        }
        for bytes in [&b"my notes"[..], b"REDI", b"PERDURA is", &[0; 7], b"\0\0\0\0\0\0\0\x01"] {
            check(bytes, false);
        }
    }
}
