//! The journal: what makes a pool on an ordinary disk survive a power loss.
//!
//! The pool's file is mapped privately, as working memory: the kernel writes no store back. What a
//! thread flushed between two fences is appended to the journal, a ring of batches in a file of its
//! own, which is written and synced for all threads that wait. Synced batches are applied to the
//! pool's file in the background, in order. After a crash the batches are stored into the working
//! memory again, and the layer above recovers over that as over any medium.
//!
//! The rule that this crate gives its users holds here as follows: a line that a thread flushed has
//! arrived, after the next fence of the same thread, in the *order of the journal*; what a crash
//! leaves is a prefix of that order. A position in it says when a fence is durable.
//! `docs/journal.md` argues for this step by step, `docs/format/journal.md` has the byte diagrams.
//!
//! Invariants:
//!
//! - of each line, a later batch never has an older content than an earlier one;
//! - the pool's file holds no byte that was not synced in the journal before, but for those that
//!   were written while no journal was in use;
//! - a batch leaves the ring only after the pool's file has it, synced;
//! - after a failed write or sync nothing more is written, to either file.

mod append;
mod attach;
mod background;
mod batch;
mod checkpoint;
mod core;
mod dirty_pages;
mod error;
mod flushed;
mod layout;
mod limit;
mod mapped;
mod place;
mod pool_progress;
mod read;
mod ring;
mod scan;
#[cfg(feature = "sim")]
mod steps;
mod storage;
mod superblock;
mod unsynced;
mod watch;
mod writer;

pub(crate) use append::CopyLines;
pub use attach::JournalRecovery;
pub use background::JournalThread;
pub(crate) use batch::LineRange;
pub(crate) use core::{AllocateError, Journal};
pub use core::{JournalCounts, SYNC_TIMES};
pub use error::JournalError;
pub(crate) use flushed::{remember, take};
pub use layout::DEFAULT_CAPACITY;
pub(crate) use place::JournalPlace;
pub(crate) use pool_progress::BYTES as PROGRESS_BYTES;
pub use read::JournalReading;
pub(crate) use read::{read, refuse_unnamed};
#[cfg(feature = "sim")]
pub use steps::{ApplySteps, SyncSteps};
pub use storage::{MappedLines, Storage};
pub use superblock::JournalId;
pub use watch::{CutShort, JournalFile, Kept};
