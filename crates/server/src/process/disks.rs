//! The free space where files are written.

use std::path::{Path, PathBuf};

use commands::admin::DiskFacts;
use rustix::fs::statvfs;

use crate::config::Values;

/// Returns the bytes that are free for files in a folder; none if the system does not say so.
pub(crate) fn free(folder: &Path) -> Option<u64> {
    let found = statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Returns the file systems of `dir`, of the pool and of a journal that has a place of its own.
/// File systems of which the system reports nothing are left out.
pub(crate) fn disks(values: &Values, pool: Option<&Path>) -> Vec<DiskFacts> {
    let folder = |path: &Path| path.parent().map(Path::to_owned);
    let journal = Some(values.journal.to_text()).filter(|path| !path.is_empty());
    let places: [(&'static str, Option<PathBuf>); 3] = [
        ("dir", Some(values.dir.to_text().into())),
        ("pool", pool.and_then(folder)),
        ("journal", journal.filter(|_| pool.is_some()).and_then(|path| folder(Path::new(&path)))),
    ];
    let seen = |(of, path): (&'static str, Option<PathBuf>)| {
        let path = path?;
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
        let found = statvfs(here).ok()?;
        let unit = found.f_frsize;
        Some(DiskFacts { of, avail: found.f_bavail * unit, size: found.f_blocks * unit })
    };
    places.into_iter().filter_map(seen).collect()
}
