//! Files that replace others, and files without a name: the way to create every file that this
//! machine's other users must not read or redirect.
//!
//! One rule for all: a file has the permissions of the one that it replaces, and is private to this
//! user if it replaces none. Until it is complete it has a name that nobody can guess, and that did
//! not exist before (`O_EXCL`, which follows no symbolic link). It is synced, renamed to its name,
//! and the directory is synced: a crash leaves the old file or the new one.
//!
//! A process that is killed leaves its file under the other name. The file was locked, so that the
//! next process that replaces the same file knows that nobody is writing it any more, and removes
//! it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};

use crate::locked::PRIVATE;

const PREFIX: &str = "temp-";
const SUFFIX: &str = ".new";
/// Number of digits in the unguessable part of a name.
pub(crate) const DIGITS: usize = 16;

/// Held while a file has been created and is not yet locked.
static MAKING: Mutex<()> = Mutex::new(());

/// A file that is being written. Unless it is published, it is removed.
#[derive(Debug)]
pub struct ReplacedFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
}

impl ReplacedFile {
    /// Creates an empty file that is to be at a path. Removes what killed processes left of such a
    /// file.
    pub fn create(path: &Path) -> io::Result<ReplacedFile> {
        let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        remove_left(folder(path), name);
        let mut temporary = OsString::from(PREFIX);
        temporary.push(name);
        temporary.push(format!(".{}{SUFFIX}", unguessable()?));
        let temporary = path.with_file_name(temporary);
        let file = new_private(&temporary)?;
        // A file system without locks: go on without.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let made = ReplacedFile { file, temporary, path: path.to_owned() };
        if let Ok(replaced) = fs::metadata(path)
            && replaced.is_file()
        {
            // If the file system refuses that, the file stays private to its owner.
            let _ = made.file.set_permissions(replaced.permissions());
        }
        Ok(made)
    }

    /// Returns the file, to be written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Syncs the file and moves it to its place, durably.
    pub fn publish(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        File::open(folder(&self.path))?.sync_all()
    }
}

impl Drop for ReplacedFile {
    fn drop(&mut self) {
        // After it was published, nothing has this name any more.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Creates a file without a name in a folder, for this user alone. It is gone when it is closed.
pub fn unnamed_file(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(PRIVATE).custom_flags(libc::O_TMPFILE);
    if let Ok(file) = options.open(folder) {
        return Ok(file);
    }
    // A file system, or a kernel, without such files.
    let path = folder.join(format!("{PREFIX}{}{SUFFIX}", unguessable()?));
    let file = new_private(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Creates a file that must not exist, to be read and written by this user alone.
pub(crate) fn new_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(PRIVATE).open(path)
}

/// Returns an unguessable part of a name.
pub(crate) fn unguessable() -> io::Result<String> {
    let mut bytes = [0; DIGITS / 2];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes what killed processes have left of a file of this name.
fn remove_left(folder: &Path, name: &std::ffi::OsStr) {
    let Some(name) = name.to_str() else { return };
    let is_left = |path: &PathBuf| {
        let left = path.file_name().and_then(|left| left.to_str());
        let left = left.and_then(|left| left.strip_prefix(PREFIX)?.strip_prefix(name));
        let digits = left.and_then(|left| left.strip_prefix('.')?.strip_suffix(SUFFIX));
        digits.is_some_and(|digits| {
            digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        }) && is_free(path)
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).filter(is_left) {
        let _ = fs::remove_file(path);
    }
}

/// Returns true if this is a file, and nobody has locked it.
fn is_free(path: &Path) -> bool {
    let is_file = path.symlink_metadata().is_ok_and(|file| file.is_file());
    let free = |file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    // NFS only locks files that are open for writing.
    is_file && OpenOptions::new().read(true).write(true).open(path).is_ok_and(free)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("a file").permissions().mode() & 0o777
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn replace(path: &Path, text: &str) {
        let made = ReplacedFile::create(path).expect("a file");
        made.file().write_all(text.as_bytes()).expect("writable");
        made.publish().expect("published");
    }

    #[test]
    fn a_file_has_the_permissions_of_what_it_replaces_or_is_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        replace(&path, "one");
        assert_eq!(mode(&path), 0o600);
        for given in [0o644, 0o640, 0o600] {
            fs::set_permissions(&path, Permissions::from_mode(given)).expect("its mode");
            replace(&path, "two");
            assert_eq!(mode(&path), given);
        }
        assert_eq!(fs::read(&path).expect("the file"), b"two");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_is_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("file"), folder.path().join("other"));
        fs::write(&other, "of another").expect("a file");
        std::os::unix::fs::symlink(&other, &path).expect("a link");
        replace(&path, "new");
        assert!(path.symlink_metadata().expect("the file").is_file());
        assert_eq!(fs::read(&other).expect("the other"), b"of another");
    }

    #[test]
    fn what_was_left_goes_and_what_is_being_written_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let [left, of_others] = ["temp-file.0123456789abcdef.new", "temp-file.x.new"];
        fs::write(folder.path().join(left), "left").expect("a file");
        fs::write(folder.path().join(of_others), "mine").expect("a file");
        let writing = ReplacedFile::create(&path).expect("a file");
        let more = ReplacedFile::create(&path).expect("another");
        assert_ne!(writing.temporary, more.temporary);
        assert!(writing.temporary.exists() && !folder.path().join(left).exists());
        assert!(!path.exists());
        drop((writing, more));
        assert_eq!(names(folder.path()), [of_others]);
    }

    #[test]
    fn a_file_without_a_name_is_in_no_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut file = unnamed_file(folder.path()).expect("a file");
        file.write_all(b"text").expect("writable");
        assert_eq!(names(folder.path()), Vec::<String>::new());
        assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    }
}
