//! The place of a journal's file, and opening it.

use super::error::JournalError;
use super::mapped::FileLines;
use super::storage::{MappedLines, Storage};
use crate::error::MapError;
use crate::locked::{LockedFile, when_unlocked};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The last file that was opened, while it is in use.
#[derive(Default)]
pub(crate) struct OpenedFile(Mutex<Weak<LockedStorage>>);

/// The place of a journal's file.
pub(crate) enum JournalPlace {
    /// A file at a path; it counts as persistent memory if `emulate` is true.
    File { path: PathBuf, emulate: bool, opened: OpenedFile },
    /// A given file; an empty one counts as missing.
    #[cfg_attr(not(feature = "sim"), allow(dead_code, reason = "for simulations"))]
    Given(Arc<dyn Storage>),
}

impl JournalPlace {
    /// Returns the place of a file, which counts as persistent memory if `emulate` is true. The
    /// place does not depend on later changes of the working directory.
    pub(crate) fn file(path: PathBuf, emulate: bool) -> JournalPlace {
        let path = std::path::absolute(&path).unwrap_or(path);
        JournalPlace::File { path, emulate, opened: OpenedFile::default() }
    }

    /// Returns the default place of a pool's journal: next to the pool.
    pub(crate) fn of_pool(pool: &Path) -> PathBuf {
        let mut name = pool.as_os_str().to_owned();
        name.push(".journal");
        PathBuf::from(name)
    }

    /// Opens and locks the file; `None` if it does not exist.
    pub(super) fn open(&self) -> Result<Option<Arc<dyn Storage>>, JournalError> {
        match self {
            JournalPlace::File { path, .. } if !path.exists() => Ok(None),
            JournalPlace::File { path, emulate, opened } => {
                open_locked(path, false, *emulate, opened).map(Some)
            }
            JournalPlace::Given(file) if file.size()? == 0 => Ok(None),
            JournalPlace::Given(file) => Ok(Some(Arc::clone(file))),
        }
    }

    /// Opens a file for reading, and locks it against writers; `None` if it does not exist.
    pub(super) fn open_shared(path: &Path) -> Result<Option<Arc<dyn Storage>>, JournalError> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => LockedFile::shared(path, file?).map_err(unlocked)?,
        };
        Ok(Some(Arc::new(LockedStorage { file, emulate: false })))
    }

    /// Opens the file, or creates it.
    pub(super) fn open_or_create(&self) -> Result<Arc<dyn Storage>, JournalError> {
        match self {
            JournalPlace::File { path, emulate, opened } => {
                open_locked(path, true, *emulate, opened)
            }
            JournalPlace::Given(file) => Ok(Arc::clone(file)),
        }
    }

    /// Makes the file's name durable.
    pub(super) fn sync_name(&self) -> io::Result<()> {
        match self {
            JournalPlace::File { path, .. } => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
            }
            JournalPlace::Given(file) => file.sync_name(),
        }
    }

    /// Returns a number for a new journal: one that no copy of the file has, wherever it is begun,
    /// and that no client can know. A simulated file gets the given number.
    pub(super) fn new_number(&self, simulated: u64) -> io::Result<u64> {
        let JournalPlace::File { .. } = self else { return Ok(simulated) };
        let mut bytes = [0; 8];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        Ok(u64::from_le_bytes(bytes).max(1))
    }

    /// Returns the file in use, and the path under which it was opened; `None` before and after a
    /// journal is in use.
    pub(super) fn in_use(&self) -> Option<(&Path, Arc<LockedStorage>)> {
        let JournalPlace::File { path, opened, .. } = self else { return None };
        let file = opened.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()?;
        Some((path, file))
    }

    /// Returns the path, for messages.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            JournalPlace::File { path, .. } => path.clone(),
            JournalPlace::Given(_) => PathBuf::new(),
        }
    }
}

fn open_locked(
    path: &Path,
    create: bool,
    emulate: bool,
    opened: &OpenedFile,
) -> Result<Arc<dyn Storage>, JournalError> {
    // A process that was just killed may hold it slightly longer than the pool.
    let file = when_unlocked(|| LockedFile::exclusive(path, create), |_| {}).map_err(unlocked)?;
    let file = Arc::new(LockedStorage { file, emulate });
    *opened.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&file);
    Ok(file)
}

fn unlocked(error: MapError) -> io::Error {
    match error {
        MapError::Io { source, .. } => source,
        other => io::Error::other(other),
    }
}

/// A file that stays locked.
pub(crate) struct LockedStorage {
    file: LockedFile,
    emulate: bool,
}

impl LockedStorage {
    /// Returns the file; it must not be written through this.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl Storage for LockedStorage {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        Storage::read_at(self.file.deref(), bytes, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        Storage::write_at(self.file.deref(), bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        Storage::sync(self.file.deref())
    }

    fn size(&self) -> io::Result<u64> {
        Storage::size(self.file.deref())
    }

    fn written_up_to(&self, from: u64) -> io::Result<u64> {
        Storage::written_up_to(self.file.deref(), from)
    }

    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        Storage::allocate(self.file.deref(), from, to)
    }

    fn available(&self) -> Option<u64> {
        Storage::available(self.file.deref())
    }

    fn may_grow(&self) -> bool {
        !FileLines::are_mapped(&self.file, self.emulate)
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        Storage::cut(self.file.deref(), len)
    }

    fn map(&self) -> io::Result<Option<Box<dyn MappedLines>>> {
        let lines = FileLines::new(&self.file, self.emulate)?;
        Ok(lines.map(|lines| Box::new(lines) as Box<dyn MappedLines>))
    }

    fn will_read(&self, from: u64, to: u64) {
        Storage::will_read(self.file.deref(), from, to);
    }

    fn will_overwrite(&self, from: u64, to: u64) {
        Storage::will_overwrite(self.file.deref(), from, to);
    }
}
