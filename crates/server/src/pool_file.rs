//! The pool's file may be moved, removed, replaced or cut short while the server runs: a look at
//! it, once a second.
//!
//! What is written into a file without a name is lost at the end of the process, however durable it
//! is. So writes are refused, the heap takes none either (so that a copy of the file is a whole
//! one), and the error says how to get the data out. A file that is moved back is served again; one
//! that was removed cannot get a name again (`linkat` refuses a file without links), but can be
//! copied out of `/proc`.

use std::path::Path;

use pmem::FilePlace;

use crate::shared::Shared;

/// Refuses writes while the pool's file is not in its place, and takes them again afterwards.
pub(crate) fn look_at(shared: &Shared) {
    let Some(path) = &shared.store.pool else { return };
    let keyspace = shared.engine.keyspace();
    if keyspace.stop_if_cut_short() {
        return;
    }
    let place = keyspace.heap().region().file_place(path);
    let why = match place {
        FilePlace::There => String::new(),
        FilePlace::Moved => moved(path),
        FilePlace::Removed => removed(path, keyspace.heap().region().descriptor().unwrap_or(0)),
    };
    if shared.engine.config().writes_refused() == why {
        return;
    }
    // Clients are told the reason before the heap refuses by itself.
    if place == FilePlace::There {
        keyspace.heap().pause(false);
        shared.engine.config().set_writes_refused(&why);
        tracing::info!("The pool's file is back at {}: writes are taken again", path.display());
    } else {
        shared.engine.config().set_writes_refused(&why);
        keyspace.heap().pause(true);
        tracing::error!("No write is taken: {why}");
    }
}

fn moved(path: &Path) -> String {
    format!(
        "the pool's file is no longer at {0}: move it back there, and writes are taken again",
        path.display()
    )
}

fn removed(path: &Path, descriptor: i32) -> String {
    format!(
        "the pool's file {0} was removed, and its data ends with this process. Copy it now: \
         cp --sparse=always /proc/{1}/fd/{descriptor} {0}.rescued, then end the server (SHUTDOWN NOSAVE) and start it \
         with --pool {0}.rescued",
        path.display(),
        std::process::id()
    )
}
