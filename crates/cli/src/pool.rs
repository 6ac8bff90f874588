//! Opening a pool to read it, or to repair it.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use heap::{CheckError, Heap, OpenError, Recovery};
use keyspace::Keyspace;
use pmem::{DomainRequest, JournalError, MapError, MapOptions, Region};

/// The first bytes of a journal's file.
const JOURNAL_MAGIC: [u8; 8] = *b"PERDURAJ";
/// Space that a repair may add to the pool.
const SPARE: u64 = 1 << 30;

/// Why a pool could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PoolError {
    /// A server has it open.
    #[error(
        "{0} is in use by another process: a server looks for damage itself (see INFO persistence), or stop it first"
    )]
    InUse(String),
    /// The file cannot be mapped.
    #[error("{0}")]
    Map(MapError),
    /// The file is empty.
    #[error("{0} is empty: no pool was made in it")]
    Blank(String),
    /// The file is the journal of a pool.
    #[error("{0} is the journal of a pool: name the pool, whose journal is found by its name")]
    Journal(String),
    /// The file is not a pool, or not one of a known version.
    #[error("{path}: {source}")]
    Foreign {
        /// The file.
        path: String,
        /// Why.
        source: OpenError,
    },
    /// A part that every opening needs is damaged.
    #[error("{path}: {source}")]
    Damaged {
        /// The file.
        path: String,
        /// The damage.
        source: OpenError,
    },
}

impl PoolError {
    /// Returns true if the pool was examined and found to be damaged.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, PoolError::Damaged { .. })
    }
}

/// An open pool.
pub(crate) struct Pool {
    pub(crate) keyspace: Keyspace,
    pub(crate) recovery: Recovery,
    /// Damaged copies of the header.
    pub(crate) headers: Vec<CheckError>,
}

/// Opens a pool: with `write` to change it, else in a private copy.
pub(crate) fn open(path: &Path, journal: Option<&Path>, write: bool) -> Result<Pool, PoolError> {
    if write {
        return match open_region(path, for_writing(path, Medium::Any, journal)) {
            Err(PoolError::Damaged { source: OpenError::NeedsJournal { .. }, .. }) => {
                open_region(path, for_writing(path, Medium::Journal, journal))
            }
            other => other,
        };
    }
    open_region(path, inspect(path, journal))
}

/// Opens a pool to read it.
pub(crate) fn inspect(path: &Path, journal: Option<&Path>) -> Result<Region, MapError> {
    match journal {
        Some(journal) => Region::inspect_with(path, journal),
        None => Region::inspect(path),
    }
}

fn open_region(path: &Path, region: Result<Region, MapError>) -> Result<Pool, PoolError> {
    let name = path.display().to_string();
    let region = region.map_err(|error| match error {
        MapError::Locked { .. } => PoolError::InUse(name.clone()),
        other => PoolError::Map(other),
    })?;
    if Heap::is_blank(&region) {
        return Err(PoolError::Blank(name));
    }
    let headers = heap::check_headers(&region);
    let (heap, recovery) = Heap::open(region, pmem::boot_id()).map_err(|source| match source {
        OpenError::Magic { found, .. } if found == JOURNAL_MAGIC => PoolError::Journal(name),
        OpenError::Magic { .. }
        | OpenError::Version { .. }
        | OpenError::Features { .. }
        | OpenError::ReadOnly { .. }
        | OpenError::Reserved { .. }
        | OpenError::OtherBoot { .. }
        | OpenError::Exhausted => PoolError::Foreign { path: name, source },
        OpenError::Journal(ref error) if !is_damaged(error) => {
            PoolError::Foreign { path: name, source }
        }
        source => PoolError::Damaged { path: name, source },
    })?;
    Ok(Pool { keyspace: Keyspace::new(heap, unix_ms()), recovery, headers })
}

/// Returns true if the pool's own journal is damaged; otherwise another file is in its place.
fn is_damaged(error: &JournalError) -> bool {
    use JournalError::{Cut, Damaged, Failed, Senseless, Superblock};
    matches!(error, Superblock | Cut { .. } | Damaged { .. } | Senseless { .. } | Failed(_))
}

/// The mapping of a pool that is repaired.
enum Medium {
    /// With the instructions of persistent memory if the file is on that, else with every commit
    /// synced.
    Any,
    /// With its journal, which it needs.
    Journal,
}

fn for_writing(path: &Path, medium: Medium, journal: Option<&Path>) -> Result<Region, MapError> {
    let len = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let mut options = MapOptions::new(len.saturating_add(SPARE));
    options.create = false;
    if let Medium::Journal = medium {
        options.domain = DomainRequest::Journal;
        options.journal = journal.map(Path::to_owned);
        return Region::open(path, &options);
    }
    match Region::open(path, &options) {
        Err(MapError::NoMapSync { .. }) => {
            options.domain = DomainRequest::Msync;
            Region::open(path, &options)
        }
        other => other,
    }
}

pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
