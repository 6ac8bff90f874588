//! What can go wrong, by operation.

use crate::layout::Geometry;

/// The heap has no room for a block: the pool is full and cannot grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the heap is full")]
pub struct Full;

/// Why a commit failed. The transaction is not in effect, unless the store is poisoned: then recovery decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A durable step failed, now or earlier.
    #[error("a durable step failed: the store takes no more writes until it is opened again")]
    Poisoned,
    /// The heap was closed.
    #[error("the heap is closed")]
    Closed,
    /// The medium lost bytes, and what they were is being found out: worth another try.
    #[error("the medium lost bytes that this transaction may have read")]
    Unsettled,
    /// No room for the record of a very long transaction.
    #[error("the heap is full")]
    Full,
}

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// A size outside its range.
    #[error("no pool can have this geometry: {0:?}")]
    Geometry(Geometry),
    /// The region cannot hold the logs and one zone.
    #[error("a pool needs at least {needed} bytes, and its limit is {limit}")]
    TooSmall {
        /// Bytes of the smallest pool of this geometry.
        needed: u64,
        /// Bytes that the region can grow to.
        limit: u64,
    },
    /// The medium refused the room.
    #[error("the pool's first {needed} bytes could not be allocated: {source}")]
    Grow {
        /// Bytes asked for.
        needed: u64,
        /// What the medium said.
        source: pmem::GrowError,
    },
    /// A durable step failed.
    #[error("the medium failed while the pool was made")]
    Failed,
}

/// Why a pool was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file is something else.
    #[error("not a Perdura pool: expected the magic {expected:02x?}, found {found:02x?}")]
    Magic {
        /// How a pool begins.
        expected: [u8; 8],
        /// How this file begins.
        found: [u8; 8],
    },
    /// What begins the file was lost.
    #[error(
        "both copies of the header are zeros, but what follows them is not: a pool that lost its begin, or something else. \
         Nothing was changed; to make a new pool here, zero the first 4 MiB"
    )]
    NoHeader,
    /// The pool was made by another version of the format.
    #[error(
        "the pool has format {found}, this program reads format {expected}; use a newer program"
    )]
    Version {
        /// The format read here.
        expected: u32,
        /// The pool's format.
        found: u32,
    },
    /// The pool uses features that this program does not know.
    #[error(
        "the pool needs features {unknown:#x} that this program does not know; use a newer program"
    )]
    Features {
        /// Bits of the unknown features.
        unknown: u64,
    },
    /// Neither copy of the header is whole.
    #[error(
        "both copies of the pool's header are damaged: checksum expected {expected:#010x}, found {found:#010x}"
    )]
    HeaderChecksum {
        /// What the bytes of the first copy give.
        expected: u32,
        /// What it says.
        found: u32,
    },
    /// The header is whole but makes no sense.
    #[error("the pool's header has an impossible geometry: {0:?}")]
    Geometry(Geometry),
    /// The file is shorter than the pool.
    #[error("the pool was cut short: expected at least {expected} bytes, found {found}")]
    Truncated {
        /// Bytes that the pool has.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// The pool does not survive power loss and was not closed before the machine went down.
    #[error(
        "the pool lies on memory that does not survive a restart of the machine, and it was not closed before \
         the last one: what it holds cannot be trusted (made in boot {expected}, this is boot {found})"
    )]
    OtherBoot {
        /// The boot in which the pool was last open.
        expected: String,
        /// The present boot.
        found: String,
    },
    /// A record that was fenced is not readable any more.
    #[error(
        "the log of shard {shard} is damaged: record {expected} is not whole, though {found} came after it"
    )]
    DamagedLog {
        /// Shard number.
        shard: usize,
        /// The sequence number of the record that is missing.
        expected: u64,
        /// A later one that was seen.
        found: u64,
    },
    /// The medium lost bytes where the log may have gone on.
    #[error(
        "the log of shard {shard} may have gone on at offset {at:#x}, where the medium cannot be read: what was \
         acknowledged last may be lost"
    )]
    LostLog {
        /// Shard number.
        shard: usize,
        /// Byte offset in the pool.
        at: u64,
    },
    /// The word that says where a log begins names no place in its ring.
    #[error("the log of shard {shard} is damaged: it begins on line {found} of {lines}")]
    DamagedTail {
        /// Shard number.
        shard: usize,
        /// How many lines its ring has.
        lines: u64,
        /// The line that was found.
        found: u64,
    },
    /// The pool was opened, or written to, so often that its numbers cannot tell old from new any more.
    #[error(
        "the pool's numbers are used up (2^32 lives, 2^48 commits): copy what it holds into a new one"
    )]
    Exhausted,
    /// A durable step of recovery failed.
    #[error("the medium failed during recovery")]
    Failed,
}
