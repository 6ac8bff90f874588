//! The new pool of a salvage: made under a temporary name, and given its own when it is complete.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use heap::{CreateError, CreateOptions, Geometry, Heap};
use keyspace::Keyspace;
use pmem::{DomainRequest, MapError, MapOptions, Region};

use crate::pool::unix_ms;

/// Space that the new pool may take beyond that of the old one; this only reserves addresses.
const SPARE: u64 = 1 << 30;

/// Why the new pool could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    /// A file has its name.
    #[error("it is there already: name a file that is not")]
    Present,
    /// Its file could not be made or mapped.
    #[error("{0}")]
    Map(#[from] MapError),
    /// The pool could not be created.
    #[error("{0}")]
    Create(#[from] CreateError),
    /// It could not be made durable, or could not get its name.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A pool that is being filled. Unless it is finished, its file is removed with it.
pub(crate) struct Target {
    keyspace: Option<Keyspace>,
    /// The file's name until it is complete.
    file: PathBuf,
    name: PathBuf,
}

pub(crate) fn refuse_present(name: &Path) -> Result<(), TargetError> {
    if name.symlink_metadata().is_ok() { Err(TargetError::Present) } else { Ok(()) }
}

impl Target {
    /// Makes a pool of this geometry that can grow to more than `bytes`.
    ///
    /// A commit need not be durable here before the end: a crash leaves no file of this name.
    pub(crate) fn create(
        name: &Path,
        geometry: Geometry,
        bytes: u64,
    ) -> Result<Target, TargetError> {
        let mut file = OsString::from(name);
        file.push(format!(".{}.salvage", std::process::id()));
        let file = PathBuf::from(file);
        refuse_present(&file)?;
        let mut options = MapOptions::new(bytes.saturating_mul(2).saturating_add(SPARE));
        options.domain = DomainRequest::Process;
        let region = Region::open(&file, &options)?;
        let mut target = Target { keyspace: None, file, name: name.to_owned() };
        let options = CreateOptions::random(geometry)?;
        let heap = Heap::create(region, &options)?;
        target.keyspace = Some(Keyspace::new(heap, unix_ms()));
        Ok(target)
    }

    pub(crate) fn keyspace(&self) -> &Keyspace {
        match &self.keyspace {
            Some(keyspace) => keyspace,
            None => unreachable!("it is there until the target is finished"),
        }
    }

    /// Makes the pool durable, closes it, and gives it its name, unless that is taken.
    pub(crate) fn finish(mut self) -> Result<(), TargetError> {
        if let Some(keyspace) = self.keyspace.take() {
            keyspace.heap().close()?;
        }
        // A rename would replace another file of that name.
        match fs::hard_link(&self.file, &self.name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(TargetError::Present);
            }
            Err(_) => {
                refuse_present(&self.name)?;
                fs::rename(&self.file, &self.name)?;
            }
            Ok(()) => fs::remove_file(&self.file)?,
        }
        let folder = self.name.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // After finishing, no file has this name any more.
        fs::remove_file(&self.file).ok();
    }
}
