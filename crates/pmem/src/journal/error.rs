//! Why a journal was refused, and how it failed.

use std::io;
use std::path::PathBuf;

/// Why a journal cannot be used. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The pool needs its journal, and the journal's file does not exist.
    #[error(
        "the pool's journal {} is missing: it holds writes that the pool's file does not have; \
         put it back, or say where it is",
        path.display()
    )]
    Missing {
        /// Where it was expected.
        path: PathBuf,
    },
    /// There is no space for a journal of the requested size.
    #[error(
        "no space for the pool's journal {}, which takes {needed} bytes ({source}): free some, \
         choose a smaller size (`journal-size`), or put it on another disk (`journal`)",
        path.display()
    )]
    NoSpace {
        /// Where it was to be created.
        path: PathBuf,
        /// Its length.
        needed: u64,
        /// The file system's error.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("the journal's file is no journal: name another one, or move it away")]
    NotAJournal,
    /// It was written by a program of another version.
    #[error(
        "the journal has format {found}, this program reads format {expected}; use the program \
         that wrote it"
    )]
    Version {
        /// The format that is read here.
        expected: u32,
        /// The journal's format.
        found: u32,
    },
    /// Both copies of the superblock are damaged.
    #[error("both copies of the journal's superblock are damaged")]
    Superblock,
    /// The journal belongs to another pool.
    #[error(
        "the journal belongs to another pool: expected one of pool {expected}, found one of \
         {found}; put the pool's own back, or say where it is"
    )]
    OtherPool {
        /// The pool's identifier.
        expected: String,
        /// The identifier in the journal.
        found: String,
    },
    /// The journal belongs to the pool, but not to the pool's present state.
    #[error(
        "the journal belongs to another incarnation of the pool: expected journal {expected} of \
         it, found {found}, which holds writes that are not in the pool; an older copy of one of \
         them was put in the place of a newer one: put back the two that belong together"
    )]
    OtherIncarnation {
        /// The number that the pool names; 0 if it names none.
        expected: u64,
        /// The journal's number.
        found: u64,
    },
    /// The pool lacks batches that have left the journal.
    #[error(
        "the pool's file is older than its journal: it has the batches before {applied}, the \
         journal begins with {tail}; an older copy of the pool was put in the place of a newer \
         one: put back the two that belong together"
    )]
    OldPool {
        /// The pool has all batches before this sequence number; 0 if it does not record any.
        applied: u64,
        /// The sequence number of the first batch of the journal.
        tail: u64,
    },
    /// The journal lacks batches that had been synced when the pool's file was last written.
    #[error(
        "the journal is older than the pool's file: it ends before batch {end}, and all before \
         {synced} had been synced; an older copy of the journal was put in the place of a newer \
         one: put back the two that belong together"
    )]
    OldJournal {
        /// The sequence number of the next batch.
        end: u64,
        /// The pool records that all batches before this sequence number were synced.
        synced: u64,
    },
    /// The pool's record of its journal's progress is damaged.
    #[error("the line of the pool's file that says how far its journal came is damaged")]
    Progress,
    /// The journal is shorter than its ring.
    #[error(
        "the journal was cut short: expected {expected} bytes, found {found}; put it back from a \
         copy"
    )]
    Cut {
        /// The expected length.
        expected: u64,
        /// The length that was found.
        found: u64,
    },
    /// A batch that had been synced is not whole.
    #[error(
        "the journal is damaged: batch {expected} is not whole, though it was synced before \
         batch {found} was written"
    )]
    Damaged {
        /// The batch that is not whole.
        expected: u64,
        /// A later one that shows that it had been synced.
        found: u64,
    },
    /// A batch is whole but makes no sense.
    #[error(
        "batch {sequence} of the journal is whole, but its ranges are not those of this pool, \
         which may have been cut short"
    )]
    Senseless {
        /// The batch.
        sequence: u64,
    },
    /// The journal is held and keeps its batches.
    #[error("a file of the store is not in its place, and nothing is applied to the pool")]
    Held,
    /// The journal has failed: nothing is accepted before the pool is opened again.
    #[error("the journal has failed: {0}")]
    Failed(String),
    /// A system call failed.
    #[error("the journal: {0}")]
    Io(#[from] io::Error),
}
