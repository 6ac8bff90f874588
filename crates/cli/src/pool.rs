//! Opening a pool to look at it, or to repair it.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use heap::{CheckError, Heap, OpenError, Recovery};
use keyspace::Keyspace;
use pmem::{DomainRequest, MapError, MapOptions, Region};

/// Space that a repair may add to the pool.
const SPARE: u64 = 1 << 30;

/// Why a pool was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PoolError {
    /// A server has it.
    #[error(
        "{0} is in use by another process: a server looks for damage itself (see INFO persistence), or stop it first"
    )]
    InUse(String),
    /// The file cannot be mapped.
    #[error("{0}")]
    Map(MapError),
    /// There is nothing in it.
    #[error("{0} is empty: no pool was made in it")]
    Blank(String),
    /// What it holds is no pool, or none that this program knows.
    #[error("{path}: {source}")]
    Foreign {
        /// The file.
        path: String,
        /// Why.
        source: OpenError,
    },
    /// What every opening needs is damaged.
    #[error("{path}: {source}")]
    Damaged {
        /// The file.
        path: String,
        /// What.
        source: OpenError,
    },
}

impl PoolError {
    /// Returns true if the pool was looked at, and found to be damaged.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, PoolError::Damaged { .. })
    }
}

/// An open pool.
pub(crate) struct Pool {
    pub(crate) keyspace: Keyspace,
    pub(crate) recovery: Recovery,
    /// Copies of the header that were damaged.
    pub(crate) headers: Vec<CheckError>,
}

/// Opens a pool; `write` to change it, else in a private copy.
pub(crate) fn open(path: &Path, write: bool) -> Result<Pool, PoolError> {
    let name = path.display().to_string();
    let region = if write { for_writing(path) } else { Region::inspect(path) };
    let region = region.map_err(|error| match error {
        MapError::Locked { .. } => PoolError::InUse(name.clone()),
        other => PoolError::Map(other),
    })?;
    if Heap::is_blank(&region) {
        return Err(PoolError::Blank(name));
    }
    let headers = heap::check_headers(&region);
    let (heap, recovery) = Heap::open(region, pmem::boot_id()).map_err(|source| match source {
        OpenError::Magic { .. }
        | OpenError::Version { .. }
        | OpenError::Features { .. }
        | OpenError::ReadOnly { .. }
        | OpenError::Reserved { .. }
        | OpenError::OtherBoot { .. }
        | OpenError::Exhausted => PoolError::Foreign { path: name.clone(), source },
        source => PoolError::Damaged { path: name.clone(), source },
    })?;
    Ok(Pool { keyspace: Keyspace::new(heap, unix_ms()), recovery, headers })
}

/// Opens by the instructions of persistent memory where that is what the file is on, else with
/// every commit synced.
fn for_writing(path: &Path) -> Result<Region, MapError> {
    let len = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let mut options = MapOptions::new(len.saturating_add(SPARE));
    options.create = false;
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
