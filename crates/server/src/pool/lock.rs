//! Waiting for a pool that another process holds.

use std::path::Path;

use pmem::{MapError, Region};

use crate::process::data_dir::process;

/// Maps a pool, waiting for a process that was just killed and still holds it.
pub(crate) fn when_unlocked(
    pool: &Path,
    map: impl Fn() -> Result<Region, MapError>,
) -> Result<Region, MapError> {
    pmem::when_unlocked(map, |holder| {
        tracing::info!("Waiting for {}, which holds {}", process(holder), pool.display());
    })
}
