//! Checks once a second that the pool's file, and its journal's, were not moved, removed, replaced
//! or cut short while the server runs.
//!
//! Writes to a file without a name are lost when the process ends, however durable they are. So
//! writes are refused, by the heap too. A file that is moved back is served again. A removed file
//! cannot get a name again: the server writes its data to a new file when it ends, and does not end
//! if that fails.
//!
//! While the pool's file is not in its place, the journal keeps its content: otherwise a copy of
//! the file that was made earlier would lack what was applied since, next to a journal that counts
//! as empty.
//!
//! A journal that was removed, or cut short, is no longer needed once the pool's file has its
//! content: all of it is applied at once, and the pool then names no journal. A journal that was
//! moved still belongs to the pool, wherever it is, and keeps its content.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Release};

use pmem::{CutShort, FilePlace, JournalFile, Region};

use crate::pool::rescue::Rescue;
use crate::shared::Shared;

/// The reason for refused writes until it is known what to do.
const MISPLACED: &str = "a file of the pool is not in its place";

/// Refuses writes while a file of the pool is not in its place, and accepts them again afterwards.
pub(crate) fn check(shared: &Shared) {
    let Some(path) = &shared.store.pool else { return };
    let files = &shared.pool_files;
    if files.rescues.load(Acquire) {
        return;
    }
    let mut looking = files.looking.lock().unwrap_or_else(PoisonError::into_inner);
    let keyspace = shared.engine.keyspace();
    let region = keyspace.heap().region();
    if keyspace.stop_if_cut_short() {
        return region.hold_journal(true);
    }
    let place = region.file_place(path);
    let pool = match place {
        FilePlace::There => String::new(),
        FilePlace::Moved => moved("file", path),
        FilePlace::Removed => removed(path, region),
    };
    if !looking.is_left {
        files.set_journal(look_at_journal(shared, pool.is_empty(), &mut looking.is_left));
    }
    // A removed pool is written together with its journal, wherever that is.
    let journal = if place == FilePlace::Removed { String::new() } else { files.journal() };
    let all: Vec<&str> = [&*pool, &*journal].into_iter().filter(|why| !why.is_empty()).collect();
    refuse(shared, &all.join("; "), !looking.is_left);
}

/// Writes the data of a pool whose file was removed to a new one, once. No more writes are
/// accepted.
pub(crate) fn rescue(shared: &Shared) -> Result<(), String> {
    let Some(path) = &shared.store.pool else { return Ok(()) };
    if are_misplaced(path, shared.engine.keyspace().heap().region()) {
        // A check that has begun waits for all shards, and a script may hold some for good.
        shared.engine.end_running_scripts();
    }
    check(shared);
    let (files, heap) = (&shared.pool_files, shared.engine.keyspace().heap());
    let mut rescued = files.rescued.lock().unwrap_or_else(PoisonError::into_inner);
    let region = heap.region();
    if rescued.is_some() || region.file_place(path) != FilePlace::Removed {
        return Ok(());
    }
    files.rescues.store(true, Release);
    let journal = region.journal_file();
    if journal.is_none()
        && let Err(error) = heap.close()
    {
        tracing::error!("The pool could not be closed before it was copied: {error}");
    }
    let rescue = Rescue::choose(path, journal.as_ref());
    tracing::info!("Writing the data of the pool, whose file was removed, to {}", rescue.files());
    rescue.write(region).inspect_err(|_| files.rescues.store(false, Release))?;
    let (written, start) = (rescue.files(), rescue.how_to_start());
    tracing::warn!("The pool's data is in {written}: to serve it, start it {start}");
    *rescued = Some(rescue);
    Ok(())
}

/// Returns true if a file of the pool is not in its place.
fn are_misplaced(path: &Path, region: &Region) -> bool {
    let journal = region.journal_file();
    region.file_place(path) != FilePlace::There
        || journal.is_some_and(|file| file.place != FilePlace::There || file.cut_short.is_some())
}

/// Closes the pool at the server's end. While a file is not in its place, the journal keeps its
/// content: the next start recovers from both files.
pub(crate) fn close(shared: &Shared) -> Result<(), String> {
    rescue(shared)?;
    let heap = shared.engine.keyspace().heap();
    let rescued = shared.pool_files.rescued.lock().unwrap_or_else(PoisonError::into_inner);
    if rescued.is_some() {
        return Ok(());
    }
    leave_lost_journal(shared)?;
    if heap.region().journal_is_held() {
        let why = shared.engine.config().writes_refused();
        return Err(format!("{why}. What the journal holds stays there until a start finds both"));
    }
    heap.close().map_err(|error| error.to_string())
}

/// Returns what is wrong with the journal's file. A lost journal is abandoned if the pool's file is
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

/// Applies a lost journal's content to the pool's file, which is elsewhere: that file has a name,
/// and the journal has none after the server's end.
fn leave_lost_journal(shared: &Shared) -> Result<(), String> {
    let heap = shared.engine.keyspace().heap();
    let region = heap.region();
    let Some(journal) = region.journal_file().filter(|_| region.journal_is_held()) else {
        return Ok(());
    };
    let is_lost = journal.place == FilePlace::Removed || journal.cut_short.is_some();
    let is_moved = |path: &Path| region.file_place(path) == FilePlace::Moved;
    if !is_lost || !shared.store.pool.as_deref().is_some_and(is_moved) {
        return Ok(());
    }
    region.hold_journal(false);
    heap.leave_journal().map_err(|error| {
        format!("what the pool's lost journal held cannot be applied to the pool: {error}")
    })
}

/// Applies the journal's content to the pool's file. Returns what was wrong and what to do.
fn leave(shared: &Shared, path: &Path, what: &str) -> String {
    let heap = shared.engine.keyspace().heap();
    shared.engine.config().set_writes_refused(MISPLACED);
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

/// Refuses writes for a reason, or accepts them again if it is empty.
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
    // Clients get a reason before the heap refuses by itself, and the advice once nothing changes
    // any more.
    config.set_writes_refused(MISPLACED);
    heap.pause(true);
    if holds_journal {
        // The journal reports its failures itself.
        let _ = region.sync_up_to(region.appended());
        region.hold_journal(true);
    }
    config.set_writes_refused(why);
    tracing::error!("No write is taken: {why}");
}

fn moved(what: &str, path: &Path) -> String {
    format!(
        "the pool's {what} is no longer at {0}: move it back there, and writes are taken again",
        path.display()
    )
}

fn removed(path: &Path, region: &Region) -> String {
    let rescue = Rescue::choose(path, region.journal_file().as_ref());
    format!(
        "the pool's file {} was removed, and its data ends with this process: do not kill it. End \
         it by SHUTDOWN or SIGTERM: it writes the data to {} then. To serve that, start it {}",
        path.display(),
        rescue.files(),
        rescue.how_to_start()
    )
}
