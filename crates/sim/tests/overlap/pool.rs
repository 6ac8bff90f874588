//! The minimal use of a journal by a pool: a line that names it, which is written to the pool's own
//! file before and after its use.

use pmem::{JournalId, Region};
use sim::{Named, SimulatedClock, SimulatedFiles};
use std::sync::Arc;

/// The size of the pool in bytes, and its size after it has grown.
pub(crate) const LEN: u64 = 64 << 10;
pub(crate) const GROWN: u64 = 96 << 10;

/// The words of the first line: the journal's number, 0 for none; and the last number that was
/// used.
const NAME: u64 = 0;
const LAST: u64 = 8;
/// A line that no writer owns, in which the pool records its journal's progress.
pub(crate) const PROGRESS_AT: u64 = LEN - 64;

fn id(journal: u64) -> JournalId {
    JournalId { pool: [7; 16], journal }
}

/// Maps the pool's file. Changes nothing.
pub(crate) fn map(files: &SimulatedFiles, ring: u64, clock: &SimulatedClock) -> Region {
    let storage = |name| files.storage(name);
    let (pool, journal) = (storage(Named::Pool), storage(Named::Journal));
    Region::simulated_journaled(GROWN as usize, pool, journal, ring)
        .with_clock(Arc::new(clock.clone()))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Opens the pool: recovers what its journal holds, or begins one.
pub(crate) fn open(region: &Region) -> Result<(), String> {
    region.grow(region.len().max(LEN)).map_err(text)?;
    // A sync of an earlier process may have failed: the line may be in the page cache only.
    write_names(region)?;
    match region.load(NAME) {
        0 => {
            let next = region.load(LAST) + 1;
            region.begin_journal(id(next), PROGRESS_AT).map_err(text)?;
            store(region, NAME, next);
            store(region, LAST, next);
            write_names(region)?;
            region.start_journal();
        }
        name => {
            region.recover_journal(id(name), PROGRESS_AT).map_err(text)?;
            if region.load(NAME) != name {
                return Err("the journal changed the line that names it".into());
            }
        }
    }
    Ok(())
}

/// Ends the use of the journal.
pub(crate) fn close(region: &Region) -> Result<(), String> {
    region.end_journal().map_err(text)?;
    store(region, NAME, 0);
    write_names(region)
}

fn write_names(region: &Region) -> Result<(), String> {
    region.flush(NAME, 16);
    region.fence();
    match region.journal_failure() {
        Some(failure) => Err(failure.to_owned()),
        None => Ok(()),
    }
}

/// Stores a word.
pub(crate) fn store(region: &Region, off: u64, value: u64) {
    // SAFETY: no slice of the region is held by these tests.
    unsafe { region.store(off, value) };
}
