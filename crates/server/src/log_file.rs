//! The files of the append-only file may be moved, removed or replaced while the server runs: a
//! look at them, once a second.
//!
//! What is appended to a file without a name is lost at the end of the process, however often it is
//! synced. So writes are refused until the files are back, or the log was rebuilt: all data is in
//! memory, and a rewrite needs nothing of what is gone.

use std::path::Path;

use crate::shared::Shared;

/// Refuses writes while a file of the log is not in its place, and takes them again afterwards.
pub(crate) fn look_at(shared: &Shared) {
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
