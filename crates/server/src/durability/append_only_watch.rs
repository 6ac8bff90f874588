//! Checks once a second that the files of the append-only file were not moved, removed or replaced
//! while the server runs.
//!
//! Writes to a file without a name are lost when the process ends, however often they are synced.
//! So writes are refused until the files are back, or the log was rebuilt: all data is in memory,
//! so that a rewrite needs none of the missing files.

use std::path::Path;

use crate::shared::Shared;

/// Refuses writes while a file of the log is not in its place, and accepts them again afterwards.
pub(crate) fn check(shared: &Shared) {
    let Some(log) = shared.log.get() else { return };
    let why = log.misplaced().map(|path| misplaced(&path)).unwrap_or_default();
    if shared.engine.config().writes_refused() == why {
        return;
    }
    shared.engine.config().set_writes_refused(&why);
    if why.is_empty() {
        tracing::info!("The append-only file is in its place: writes are taken again");
    } else {
        tracing::error!("No write is taken: {why}");
    }
}

fn misplaced(path: &Path) -> String {
    format!(
        "the append-only file has lost {}, which was moved, removed or replaced: put it back, or \
         have the file written anew by BGREWRITEAOF, and writes are taken again",
        path.display()
    )
}
