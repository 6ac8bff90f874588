//! A file that gets its name only when it is complete.
//!
//! It is written under another name next to its own, synced, and then linked to its name, unless
//! something has that name; finally the directory is synced. So whatever has the name is complete,
//! even after the machine fails. If something goes wrong the file is removed; only a process that
//! is killed leaves it, under the other name: the next one that creates a file of the same name
//! removes it.
//!
//! An unfinished file belongs to this user alone and is locked; its name contains the number of the
//! process, and digits that nobody can guess. It is removed if nobody has locked it and no such
//! process runs: another machine, or another container, where the number means nothing, may be
//! writing it. A file with such a name whose beginning its creator would never write belongs to
//! somebody else, and stays.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, test_kill_process};

use crate::replaced_file::{new_private, unguessable};

/// Why a file was not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewFileError {
    /// The name is taken.
    #[error("{} is there already: choose another name, or remove it", .0.display())]
    Exists(PathBuf),
    /// A system call failed.
    #[error("{}: {error}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// A file on its way to its name. Unless it is published, it is removed.
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

/// Removes what killed processes have left of a file of this name; returns the removed files.
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

/// Returns the process whose number a name contains.
fn process(digits: &str) -> Option<Pid> {
    let number: u32 = digits.parse().ok()?;
    let is_as_written = number.to_string() == digits;
    i32::try_from(number).ok().filter(|_| is_as_written).and_then(Pid::from_raw)
}

/// Returns true if the process that was creating this file is gone, and the file is one that it
/// would write.
fn is_left(path: &Path, process: Pid, begins: &[&[u8]]) -> bool {
    let runs = test_kill_process(process) != Err(rustix::io::Errno::SRCH);
    let is_free = |file: &File| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
    let is_ours = |file: File| is_free(&file) && is_ours(file, begins);
    !runs && path.is_file() && File::open(path).is_ok_and(is_ours)
}

/// Returns true if a file begins in one of these ways, or is empty.
fn is_ours(file: File, begins: &[&[u8]]) -> bool {
    let mut start = Vec::with_capacity(8);
    let read = file.take(8).read_to_end(&mut start);
    let begins = || begins.iter().any(|begin| start.starts_with(begin));
    read.is_ok() && (start.is_empty() || begins())
}

impl NewFile {
    /// Chooses the name that the file has until it is complete; does not create it. Removes what
    /// killed processes left of such a file and that begins in one of these ways (up to 8 bytes).
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

    /// Returns the files of killed processes that were removed.
    pub fn removed(&self) -> &[PathBuf] {
        &self.removed
    }

    /// Returns the name that it has until it is complete.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Creates the file, empty.
    pub fn create(&self) -> Result<File, NewFileError> {
        let make = || {
            let file = new_private(&self.part)?;
            let same = file.try_clone()?;
            // A file system without locks: go on without.
            let _ = flock(&same, FlockOperation::NonBlockingLockExclusive);
            let _ = self.locked.set(same);
            Ok(file)
        };
        make().map_err(|error| self.failed(error))
    }

    /// Syncs the file and gives it its name.
    pub fn publish(self) -> Result<(), NewFileError> {
        self.link().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => NewFileError::Exists(self.name.clone()),
            _ => self.failed(error),
        })
    }

    fn link(&self) -> io::Result<()> {
        File::open(&self.part)?.sync_all()?;
        // A rename would replace another file of that name.
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
        // After it was published, nothing has this name any more.
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
