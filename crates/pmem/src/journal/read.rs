//! Reads a journal without changing it, for programs that examine a pool or copy its sound parts.
//!
//! The file is opened for reading, and locked against writers. Its batches are stored into a
//! private copy of the pool's pages. A damaged or truncated journal is read up to the damage: a
//! prefix is a state that a crash may leave.

use super::attach::{self, JournalRecovery, StoreWords, Target};
use super::error::JournalError;
use super::place::JournalPlace;
use super::pool_progress::{BYTES as PROGRESS_BYTES, PoolProgress};
use super::storage::Storage;
use super::superblock::{JournalId, Superblock};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The result of reading a journal into a copy of its pool.
#[derive(Debug)]
pub struct JournalReading {
    /// What was stored.
    pub recovery: JournalRecovery,
    /// Why it was not read to its end.
    pub problem: Option<JournalError>,
}

/// Reads the journal that a pool names, as far as it is whole. `line` is the pool's record of its
/// progress.
pub(crate) fn read(
    path: &Path,
    id: JournalId,
    line: &[u8; PROGRESS_BYTES],
    store: StoreWords<'_>,
) -> Result<JournalReading, JournalError> {
    let missing = || JournalError::Missing { path: path.to_owned() };
    let file = JournalPlace::open_shared(path)?.ok_or_else(missing)?;
    let superblock = attach::found(&*file)?.ok_or(JournalError::Superblock)?;
    attach::check_id(&superblock, id)?;
    let cut = attach::check_length(&*file, &superblock).err();
    let file = CutFile(file);
    let mut recovery = JournalRecovery::default();
    let said = PoolProgress::decode(line);
    let known = said.as_ref().map_or(None, |said| *said);
    let target = Target { announce: &mut |_| {}, store };
    let replayed = attach::replay(&file, &superblock, known, target, &mut recovery);
    let problem = replayed.err().or(said.err());
    match problem {
        Some(JournalError::Io(error)) => Err(JournalError::Io(error)),
        problem => Ok(JournalReading { recovery, problem: cut.or(problem) }),
    }
}

/// Refuses what an opening would refuse: batches in a journal of this pool, which names none. Any
/// other file does not concern the pool.
pub(crate) fn refuse_unnamed(path: &Path, id: JournalId) -> Result<(), JournalError> {
    let Some(file) = JournalPlace::open_shared(path)? else { return Ok(()) };
    match attach::found(&*file) {
        Ok(Some(superblock)) if superblock.id.pool == id.pool => {
            attach::emptied(&*file, superblock, id).map(|_: Superblock| ())
        }
        _ => Ok(()),
    }
}

/// A file with zeros after its end.
struct CutFile(Arc<dyn Storage>);

impl Storage for CutFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let left = self.0.size()?.saturating_sub(at).min(bytes.len() as u64) as usize;
        let (whole, rest) = bytes.split_at_mut(left);
        rest.fill(0);
        if whole.is_empty() { Ok(()) } else { self.0.read_at(whole, at) }
    }

    fn write_at(&self, _bytes: &[u8], _at: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn allocate(&self, _from: u64, _to: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}
