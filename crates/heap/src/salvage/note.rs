//! Why nothing can be read from a pool, or what in it is damaged.

use crate::error::OpenError;
use pmem::JournalError;

/// Why nothing can be read from a pool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageError {
    /// The region is not a private copy: changes made by salvage would reach the file.
    #[error("a pool is salvaged from a private copy of its pages only")]
    NotPrivate,
    /// The file is empty.
    #[error("it is empty: no pool was made in it")]
    Blank,
    /// The pool is for another program, or is no pool.
    #[error("{0}")]
    Foreign(OpenError),
    /// The header is lost, and nothing else looks like a part of a pool.
    #[error("{0}; nothing in it looks like the spans of a pool either")]
    NoPool(OpenError),
    /// The pool needs a journal that cannot be used.
    #[error(
        "{0}; without the journal (--without-journal) what the pool's file alone has is copied, \
         which lacks the newest writes"
    )]
    Journal(JournalError),
}

/// Damage to a part of a pool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageNote {
    /// Neither copy of the header was valid; the header was reconstructed from both.
    #[error("both copies of the header are damaged; what they said was put together again")]
    HeaderRepaired,
    /// The header is lost; the sizes were derived from the spans.
    #[error(
        "the header is lost; the pool's sizes were found from its spans. Its logs cannot be \
         validated without it: if the machine \
         went down while the pool was open, what was written last may be missing, or older"
    )]
    HeaderGuessed,
    /// The pool was left open, and the machine may have lost the content of its caches.
    #[error(
        "the pool was not closed before the machine went down, and its memory does not survive \
         that: values may be older than \
         what was acknowledged, or missing"
    )]
    OtherBoot,
    /// The pool's journal was read up to this error.
    #[error("{0}: what was written after that is missing, or older")]
    Journal(JournalError),
    /// The pool's journal was not read.
    #[error(
        "the pool's journal was left out: what the pool's file did not have yet is missing, or \
         older"
    )]
    WithoutJournal,
    /// A shard's log is damaged.
    #[error(
        "{error}{}",
        if *costs { ": what was written last in this shard may be missing, or older" }
        else { ": costs nothing, since what it says is in place" }
    )]
    Log {
        /// The error that opening would report.
        error: OpenError,
        /// Whether acknowledged writes may be lost with it.
        costs: bool,
    },
    /// The file is shorter than the pool.
    #[error("the pool was cut short: expected at least {expected} bytes, found {found}")]
    Cut {
        /// The pool's length in bytes.
        expected: u64,
        /// The file's length in bytes.
        found: u64,
        /// Whether all of a shard's roots may be past the end.
        costs: bool,
    },
    /// The number of zones makes no sense; it follows from the file's length.
    #[error("the number of zones is {found}; the file holds {most}")]
    Zones {
        /// The number in the pool.
        found: u64,
        /// The maximum that the file can hold.
        most: u64,
    },
    /// Words of the span table disagree with their spans.
    #[error(
        "{count} spans, the first is number {first}: the span table does not say what they are"
    )]
    SpanTable {
        /// The number of such spans.
        count: u64,
        /// The first one.
        first: u32,
    },
    /// The store was stopped.
    #[error("the store was stopped earlier: {0}")]
    Stopped(String),
}

impl SalvageNote {
    /// Returns true if an acknowledged write may be lost without any other report of it.
    pub fn costs(&self) -> bool {
        match self {
            SalvageNote::HeaderGuessed
            | SalvageNote::OtherBoot
            | SalvageNote::Journal(_)
            | SalvageNote::WithoutJournal => true,
            SalvageNote::Log { costs, .. } | SalvageNote::Cut { costs, .. } => *costs,
            SalvageNote::HeaderRepaired
            | SalvageNote::Zones { .. }
            | SalvageNote::SpanTable { .. }
            | SalvageNote::Stopped(_) => false,
        }
    }
}
