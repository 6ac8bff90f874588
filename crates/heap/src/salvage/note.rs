//! Why nothing can be read from a pool, or what in it is not as it was left.

use crate::error::OpenError;
use pmem::JournalError;

/// Why nothing can be read from a pool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageError {
    /// The region is not a private copy: what salvage changes would reach the file.
    #[error("a pool is salvaged from a private copy of its pages only")]
    NotPrivate,
    /// There is nothing in it.
    #[error("it is empty: no pool was made in it")]
    Blank,
    /// It is a pool for another program, or no pool.
    #[error("{0}")]
    Foreign(OpenError),
    /// The header is lost, and nothing else looks like a pool's.
    #[error("{0}; nothing in it looks like the spans of a pool either")]
    NoPool(OpenError),
    /// It needs a journal, which gives nothing.
    #[error(
        "{0}; without the journal (--without-journal) what the pool's file alone has is copied, \
         which lacks the newest writes"
    )]
    Journal(JournalError),
}

/// Something of a pool that is not as it was left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageNote {
    /// No copy of the header was whole; what it said was found from both of them.
    #[error("both copies of the header are damaged; what they said was put together again")]
    HeaderRepaired,
    /// The header is lost; the sizes were found from the spans.
    #[error(
        "the header is lost; the pool's sizes were found from its spans. Its logs cannot be \
         validated without it: if the machine \
         went down while the pool was open, what was written last may be missing, or older"
    )]
    HeaderGuessed,
    /// Where the pool was left open, the machine may have lost what its caches held.
    #[error(
        "the pool was not closed before the machine went down, and its memory does not survive \
         that: values may be older than \
         what was acknowledged, or missing"
    )]
    OtherBoot,
    /// The pool's journal was read up to here.
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
        /// What opening would say.
        error: OpenError,
        /// Whether what was acknowledged may be lost with it.
        costs: bool,
    },
    /// The file is shorter than the pool.
    #[error("the pool was cut short: expected at least {expected} bytes, found {found}")]
    Cut {
        /// Bytes that the pool had.
        expected: u64,
        /// Bytes of the file.
        found: u64,
        /// Whether all of a shard's roots may be after the end.
        costs: bool,
    },
    /// The number of zones makes no sense; the file's length says it.
    #[error("the number of zones is {found}; the file holds {most}")]
    Zones {
        /// What the word says.
        found: u64,
        /// As many as there can be.
        most: u64,
    },
    /// Words of the span table disagree with their spans.
    #[error(
        "{count} spans, the first is number {first}: the span table does not say what they are"
    )]
    SpanTable {
        /// How many.
        count: u64,
        /// The first one.
        first: u32,
    },
    /// The store was stopped.
    #[error("the store was stopped earlier: {0}")]
    Stopped(String),
}

impl SalvageNote {
    /// Returns true if something that was acknowledged may be lost that nothing else names.
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
