//! The journal: makes a pool on an ordinary disk survive a power loss.
//!
//! The pool's file is mapped privately, as working memory: the kernel writes no store back. The
//! words that a thread flushed between two fences are appended to the journal, a ring of batches in
//! a separate file, which is written and synced for all waiting threads together. Synced batches
//! are applied to the pool's file in the background, in order. After a crash the batches are stored
//! into the working memory again, and the layer above recovers over that as over any medium.
//!
//! The rule that this crate gives its users holds here as follows: after the next fence of the same
//! thread, a flushed line has arrived in the *order of the journal*; a crash leaves a prefix of
//! that order. A position in it tells when a fence is durable. `docs/journal.md` argues for this
//! step by step, `docs/format/journal.md` has the byte diagrams.
//!
//! Invariants:
//!
//! - a later batch never has an older content of a line than an earlier one;
//! - every byte in the pool's file was synced in the journal before, except those written while no
//!   journal was in use;
//! - a batch leaves the ring only after the pool's file has it, synced;
//! - after a failed write or sync nothing more is written, to either file.

mod aio;
mod append;
mod attach;
mod background;
mod batch;
mod checkpoint;
mod core;
mod dirty_pages;
mod error;
mod flushed;
mod grow;
mod layout;
mod limit;
mod mapped;
mod pace;
mod page_copies;
mod place;
mod pool_file;
mod pool_progress;
mod read;
mod read_ahead;
mod ring;
mod scan;
#[cfg(feature = "sim")]
mod steps;
mod storage;
mod superblock;
mod unsynced;
mod watch;
mod writer;

pub(crate) use append::CopyWords;
pub use attach::JournalRecovery;
pub use background::JournalThread;
pub(crate) use batch::WordRange;
pub(crate) use core::{AllocateError, Journal};
pub use core::{JournalCounts, SYNC_TIMES};
pub use error::JournalError;
pub(crate) use flushed::{remember, take};
pub use layout::DEFAULT_CAPACITY;
#[cfg(feature = "sim")]
pub(crate) use layout::simulate_files;
pub use pace::ChargedClient;
pub(crate) use place::JournalPlace;
pub(crate) use pool_file::PoolFile;
pub(crate) use pool_progress::BYTES as PROGRESS_BYTES;
pub use read::JournalReading;
pub(crate) use read::{read, refuse_unnamed};
#[cfg(feature = "sim")]
pub use steps::{ApplySteps, SyncSteps};
pub use storage::{MappedLines, Storage};
pub use superblock::JournalId;
pub use watch::{CutShort, JournalFile, Kept};
