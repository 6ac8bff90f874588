//! A file that is locked while it is used.

use crate::error::MapError;
use crate::holder::{holder, is_alive};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Permissions of a new file, which holds everybody's data.
pub(crate) const PRIVATE: u32 = 0o600;

/// How long to wait for a file that another process holds: a process that was just killed holds it
/// until the kernel has torn its memory down. A known process that is alive may also be about to
/// end, but is not waited for as long.
const PATIENCE: Duration = Duration::from_secs(3);
const PATIENCE_WITH_THE_LIVING: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_millis(5);

/// Maps a file with `map`, repeatedly while another process holds it: for up to three seconds if
/// that process is ending or unknown; for one second if it is alive. If it has to wait, calls
/// `waits` once, with the process if the system reports it.
pub fn when_unlocked<M>(
    map: impl Fn() -> Result<M, MapError>,
    waits: impl FnOnce(Option<u32>),
) -> Result<M, MapError> {
    match map() {
        Err(MapError::Locked { holder, .. }) => waits(holder),
        other => return other,
    }
    let started = Instant::now();
    loop {
        std::thread::sleep(RETRY);
        match map() {
            Err(MapError::Locked { holder, .. }) if started.elapsed() < patience(holder) => {}
            other => return other,
        }
    }
}

fn patience(holder: Option<u32>) -> Duration {
    if holder.is_some_and(is_alive) { PATIENCE_WITH_THE_LIVING } else { PATIENCE }
}

/// An open file with a lock that other processes see. The lock ends with this value, not with the
/// last descriptor: a child that another thread has just forked has them all until it executes its
/// program.
///
/// A file that was created here and is still empty at the end is removed, under its lock: its
/// creator was refused.
#[derive(Debug)]
pub(crate) struct LockedFile {
    file: File,
    created: Option<PathBuf>,
}

impl LockedFile {
    /// Opens a file for reading and writing, and locks it against everybody else. If it does not
    /// exist and `create` is true, creates it, for this user alone.
    pub(crate) fn exclusive(path: &Path, create: bool) -> Result<LockedFile, MapError> {
        let (file, created) = open(path, create).map_err(|source| MapError::Io {
            path: path.to_owned(),
            step: "open",
            source,
        })?;
        lock(path, &file, FlockOperation::NonBlockingLockExclusive)?;
        if file.metadata().is_ok_and(|metadata| metadata.nlink() == 0) {
            // Its holder removed it: another attempt finds what is there now.
            return Err(MapError::Locked { path: path.to_owned(), holder: None });
        }
        // The working directory may have changed when it is dropped.
        let created = std::path::absolute(path).ok().filter(|_| created);
        Ok(LockedFile { file, created })
    }

    /// Locks a file against writers.
    pub(crate) fn shared(path: &Path, file: File) -> Result<LockedFile, MapError> {
        lock(path, &file, FlockOperation::NonBlockingLockShared)?;
        Ok(LockedFile { file, created: None })
    }

    /// Locks an open file against everybody else.
    pub(crate) fn sole(path: &Path, file: File) -> Result<LockedFile, MapError> {
        lock(path, &file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(LockedFile { file, created: None })
    }

    fn is_empty_at(&self, path: &Path) -> io::Result<bool> {
        let (ours, theirs) = (self.file.metadata()?, fs::metadata(path)?);
        Ok(ours.len() == 0 && (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()))
    }
}

/// Opens a file; returns true if it was created.
fn open(path: &Path, create: bool) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(PRIVATE);
    match options.open(path) {
        Err(error) if create && error.kind() == io::ErrorKind::NotFound => {}
        other => return other.map(|file| (file, false)),
    }
    match options.create_new(true).open(path) {
        // Another process was faster, or this is a link to a file that does not exist.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            options.create_new(false).create(true).open(path).map(|file| (file, false))
        }
        other => other.map(|file| (file, true)),
    }
}

fn lock(path: &Path, file: &File, operation: FlockOperation) -> Result<(), MapError> {
    flock(file, operation).map_err(|errno| match errno {
        Errno::WOULDBLOCK => {
            let holder = file.metadata().ok().and_then(|file| holder(&file));
            MapError::Locked { path: path.to_owned(), holder }
        }
        other => MapError::Io { path: path.to_owned(), step: "lock", source: other.into() },
    })
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        if let Some(path) = &self.created
            && self.is_empty_at(path).unwrap_or(false)
        {
            let _ = fs::remove_file(path);
        }
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}
