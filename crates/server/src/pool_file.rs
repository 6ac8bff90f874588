//! The pool's file, and its journal's, may be moved, removed, replaced or cut short while the server
//! runs: a look at them, once a second.
//!
//! What is written into a file without a name is lost at the end of the process, however durable it
//! is. So writes are refused, the heap takes none either (so that a copy of the file is a whole
//! one), and the error says how to get the data out. A file that is moved back is served again; one
//! that was removed cannot get a name again (`linkat` refuses a file without links), but can be
//! copied out of `/proc`.
//!
//! A journal that was removed, or cut short, is not needed any more once the pool's file has what
//! it held: all of that is applied at once, and the pool names no journal then. One that was moved
//! belongs to the pool as before, wherever it is, and keeps what it has.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use commands::admin::JournalFacts;
use pmem::{CutShort, FilePlace, JournalFile};

use crate::shared::Shared;

/// What was found at the files of the pool.
#[derive(Default)]
pub(crate) struct PoolFiles {
    looking: Mutex<Looking>,
    /// What is wrong with the journal's file; empty if nothing is. Never held while a shard is
    /// waited for: INFO asks for it with all of them.
    journal: Mutex<String>,
}

/// What a look leaves for the next one.
#[derive(Default)]
struct Looking {
    /// The journal is not used any more, until the server is started again.
    is_left: bool,
}

impl PoolFiles {
    /// Adds to what is said of the journal that its file is not in its place.
    pub(crate) fn add_to(&self, facts: JournalFacts) -> JournalFacts {
        match facts.failure.is_empty() {
            true => JournalFacts { failure: self.journal(), ..facts },
            false => facts,
        }
    }

    fn journal(&self) -> String {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_journal(&self, why: String) {
        *self.journal.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

/// Refuses writes while a file of the pool is not in its place, and takes them again afterwards.
pub(crate) fn look_at(shared: &Shared) {
    let Some(path) = &shared.store.pool else { return };
    let files = &shared.pool_files;
    let mut looking = files.looking.lock().unwrap_or_else(PoisonError::into_inner);
    let keyspace = shared.engine.keyspace();
    if keyspace.stop_if_cut_short() {
        return;
    }
    let region = keyspace.heap().region();
    let pool = match region.file_place(path) {
        FilePlace::There => String::new(),
        FilePlace::Moved => moved("file", path),
        FilePlace::Removed => removed(path, region.descriptor().unwrap_or(0)),
    };
    if !looking.is_left {
        files.set_journal(look_at_journal(shared, pool.is_empty(), &mut looking.is_left));
    }
    let both = [pool, files.journal()];
    let all: Vec<&str> = both.iter().map(String::as_str).filter(|why| !why.is_empty()).collect();
    refuse(shared, &all.join("; "), !looking.is_left);
}

/// Closes the pool at the server's end. While a file is not in its place, the journal keeps what it
/// has: the next start recovers from both files.
pub(crate) fn close(shared: &Shared) -> Result<(), String> {
    look_at(shared);
    let heap = shared.engine.keyspace().heap();
    if heap.region().journal_is_held() {
        let why = shared.engine.config().writes_refused();
        return Err(format!("{why}. What the journal holds stays there until a start finds both"));
    }
    heap.close().map_err(|error| error.to_string())
}

/// Returns what is wrong with the journal's file. It is left if it is lost, and the pool's file is
/// in its place.
fn look_at_journal(shared: &Shared, pool_is_there: bool, is_left: &mut bool) -> String {
    let region = shared.engine.keyspace().heap().region();
    let Some(JournalFile { path, place, cut_short }) = region.journal_file() else {
        return String::new();
    };
    let what = match (place, cut_short) {
        (FilePlace::There, None) => return String::new(),
        (FilePlace::Moved, _) => return moved("journal", &path),
        (FilePlace::Removed, _) => format!("the pool's journal {} was removed", path.display()),
        (FilePlace::There, Some(CutShort { expected, found })) => format!(
            "the pool's journal {} was cut short, from {expected} bytes to {found}",
            path.display()
        ),
    };
    if !pool_is_there {
        return what;
    }
    *is_left = true;
    leave(shared, &path, &what)
}

/// Applies what the journal holds to the pool's file, and returns what was wrong and what to do.
fn leave(shared: &Shared, path: &Path, what: &str) -> String {
    let heap = shared.engine.keyspace().heap();
    shared.engine.config().set_writes_refused(what);
    heap.pause(true);
    heap.region().hold_journal(false);
    match heap.leave_journal() {
        Ok(()) => format!(
            "{what}. The pool's file has everything that was acknowledged, and needs it no more: \
             end the server, remove {} if it is there, and start the server again, which makes a \
             new one",
            path.display()
        ),
        Err(error) => format!(
            "{what}, and what it held cannot be applied to the pool ({error}): what was \
             acknowledged may be in memory alone. Write it to a file now (SAVE), before the server \
             ends"
        ),
    }
}

/// Refuses writes for a reason, or takes them again if it is empty.
fn refuse(shared: &Shared, why: &str, holds_journal: bool) {
    let (config, heap) = (shared.engine.config(), shared.engine.keyspace().heap());
    if config.writes_refused() == why {
        return;
    }
    let region = heap.region();
    if why.is_empty() {
        region.hold_journal(false);
        heap.pause(false);
        config.set_writes_refused(why);
        tracing::info!("The files of the pool are in their places: writes are taken again");
        return;
    }
    // Clients are told the reason before the heap refuses by itself.
    config.set_writes_refused(why);
    heap.pause(true);
    if holds_journal {
        // A failure is the journal's own, and reported.
        let _ = region.sync_up_to(region.appended());
        region.hold_journal(true);
    }
    tracing::error!("No write is taken: {why}");
}

fn moved(what: &str, path: &Path) -> String {
    format!(
        "the pool's {what} is no longer at {0}: move it back there, and writes are taken again",
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
