//! Errors, by operation.

use crate::layout::Geometry;
use crate::layout::header::{HeaderError, MAGIC, VERSION};
use pmem::JournalError;

/// The heap has no space for a block: the pool is full and cannot grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the heap is full")]
pub struct Full;

/// Why a commit failed. The transaction has no effect, unless the store is poisoned: then recovery
/// decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A durable step failed, now or earlier.
    #[error("a durable step failed: the store takes no more writes until it is opened again")]
    Poisoned,
    /// The heap takes no writes for now.
    #[error("the heap takes no writes while it is paused")]
    Paused,
    /// The heap was closed.
    #[error("the heap is closed")]
    Closed,
    /// The medium lost bytes, and what they were is being found out: worth another try.
    #[error("the medium lost bytes that this transaction may have read")]
    UnresolvedLosses,
    /// No space for the record of a very long transaction, or for a first one.
    #[error("the heap is full")]
    Full,
}

/// Why a pool could not be created.
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
    /// The address space for the pool was refused.
    #[error(transparent)]
    Map(#[from] pmem::MapError),
    /// The medium refused the space.
    #[error("the pool's first {needed} bytes could not be allocated: {source}")]
    Grow {
        /// Bytes asked for.
        needed: u64,
        /// The medium's error.
        source: pmem::GrowError,
    },
    /// Its journal cannot be made.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A durable step failed.
    #[error("the medium failed while the pool was made")]
    Failed,
}

/// Why a pool could be neither opened nor created.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The region is blank, and no pool could be created there.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The pool of the region was not opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system has no random bytes for a new pool.
    #[error("no random bytes: {0}")]
    Random(#[from] std::io::Error),
}

/// Advice for a pool of an earlier format.
const OLDER: &str =
    "serve it with the program that made it and copy its keys over, or name another pool file";

/// Advice for a pool that lost data that opening it needs.
const SALVAGE: &str = "`perdura salvage POOL --to NEW` copies what is sound in it into a new pool";

/// Returns the error of a pool's journal, and advice.
fn with_way_on(error: &JournalError) -> String {
    let how = match error {
        // The message already names the ways out.
        JournalError::NoSpace { .. } => return error.to_string(),
        JournalError::Cut { .. }
        | JournalError::Damaged { .. }
        | JournalError::Senseless { .. } => "with the journal's writes up to there",
        _ => "without the journal's writes, if --without-journal is given",
    };
    format!("{error}; {SALVAGE}, {how}")
}

/// Why a pool was not opened, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file is not a pool.
    #[error(
        "not a Perdura pool: expected the magic {expected:02x?}, found {found:02x?}; name another \
         file, or, if it was one, \
         {SALVAGE}"
    )]
    Magic {
        /// How a pool begins.
        expected: [u8; 8],
        /// How this file begins.
        found: [u8; 8],
    },
    /// The header was lost.
    #[error(
        "both copies of the header are zeros, but what follows them is not: a pool that lost its begin, or something else. \
         Nothing was changed. Put the pool back from a copy, or, if it was one, {SALVAGE}; to \
         make a new pool here, remove \
         the file (of a device, zero the first 4 MiB)"
    )]
    NoHeader,
    /// The whole file is zeros, and it is longer than an unfinished pool.
    #[error(
        "the file holds nothing but {found} bytes of zeros, where a pool that was never finished leaves {most}: \
         a pool that lost everything, or space that was set aside. Nothing was changed. Put the pool back from a \
         copy ({SALVAGE}), or, to make a new pool here, remove the file"
    )]
    Zeros {
        /// Bytes of the file.
        found: u64,
        /// The maximum length in bytes of an unfinished pool.
        most: u64,
    },
    /// The pool was made by another version of the format.
    #[error(
        "the pool has format {found}, this program reads format {expected}; {}",
        if found > expected { "use a newer program" } else { OLDER }
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
    /// The pool has features that forbid writing to it unless they are known.
    #[error(
        "the pool has features {unknown:#x} that this program does not know and so must not write to; use a newer \
         program, or look at the pool with `perdura check`, which changes nothing"
    )]
    ReadOnly {
        /// Bits of the unknown features.
        unknown: u64,
    },
    /// Reserved bytes of the header are not zero.
    #[error(
        "the pool's header is whole, but its byte {at} is not zero, which is reserved: a newer program wrote it; use that"
    )]
    Reserved {
        /// Byte of the header.
        at: usize,
    },
    /// Both copies of the header are damaged.
    #[error(
        "both copies of the pool's header are damaged: checksum expected {expected:#010x}, found \
         {found:#010x}; {SALVAGE}"
    )]
    HeaderChecksum {
        /// The checksum of the bytes of the first copy.
        expected: u32,
        /// The checksum that the copy contains.
        found: u32,
    },
    /// The header is whole but makes no sense.
    #[error(
        "the pool's header is whole, but its geometry is none of this program's: {0:?}; a newer \
         program wrote it; use that"
    )]
    Geometry(Geometry),
    /// The file is shorter than the pool.
    #[error(
        "the pool was cut short: expected at least {expected} bytes, found {found}; put it back \
         from a copy, or {SALVAGE}"
    )]
    Truncated {
        /// Bytes that the pool has.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// The number of zones makes no sense.
    #[error(
        "the pool's number of zones is damaged: it is {found}, its file holds {most}; {SALVAGE}"
    )]
    DamagedZones {
        /// The number that was found.
        found: u64,
        /// The maximum that the file can hold.
        most: u64,
    },
    /// The pool does not survive power loss and was not closed before the machine was restarted.
    #[error(
        "the pool is on memory that does not survive a restart of the machine, and it was not closed before \
         the last one: what it holds cannot be trusted (made in boot {expected}, this is boot \
         {found}); {SALVAGE}, some of \
         it perhaps older than what was acknowledged"
    )]
    OtherBoot {
        /// The boot in which the pool was last open.
        expected: String,
        /// The present boot.
        found: String,
    },
    /// The pool's file lacks writes that are only in its journal, and it was opened without the
    /// journal.
    #[error(
        "the pool was not closed while it had a journal, and its file alone lacks writes that the \
         journal has (number {journal}): open it with domain journal, and close it, before it is \
         used in another way"
    )]
    NeedsJournal {
        /// The number of the journal.
        journal: u64,
    },
    /// The pool's journal cannot be used.
    #[error("{}", with_way_on(.0))]
    Journal(#[from] JournalError),
    /// A record that was fenced can no longer be read.
    #[error(
        "the log of shard {shard} is damaged: record {expected} is not whole, though {found} came \
         after it; {SALVAGE}"
    )]
    DamagedLog {
        /// Shard number.
        shard: usize,
        /// The sequence number of the record that is missing.
        expected: u64,
        /// A later one that was seen.
        found: u64,
    },
    /// The medium lost bytes where the log may have continued, or that its newest record needs.
    #[error(
        "the medium cannot be read at offset {at:#x}, where the log of shard {shard} may have gone \
         on, or which its newest record needs: what was acknowledged last may be lost; {SALVAGE}"
    )]
    LostLog {
        /// Shard number.
        shard: usize,
        /// Byte offset in the pool.
        at: u64,
    },
    /// The pool lists media errors of an earlier incarnation, which cannot be resolved on this
    /// medium.
    #[error(
        "the pool lists media errors that were not resolved, and on this medium they cannot be: \
         copy it to a file and open \
         that, or {SALVAGE}"
    )]
    UnresolvedLosses,
    /// The word that says where a log begins is not a place in its ring.
    #[error("the log of shard {shard} is damaged: it begins on line {found} of {lines}; {SALVAGE}")]
    DamagedTail {
        /// Shard number.
        shard: usize,
        /// How many lines its ring has.
        lines: u64,
        /// The line that was found.
        found: u64,
    },
    /// The pool was opened, or written to, so often that its numbers can no longer tell old from
    /// new.
    #[error(
        "the pool's numbers are used up (2^32 incarnations, 2^48 commits), or damaged; {SALVAGE}"
    )]
    Exhausted,
    /// A durable step of recovery failed.
    #[error(
        "the medium failed during recovery: free space and a sound medium may help (see the \
         kernel's log); else {SALVAGE}"
    )]
    Failed,
}

impl From<HeaderError> for OpenError {
    fn from(error: HeaderError) -> OpenError {
        match error {
            HeaderError::Magic { found } if found == [0; 8] => OpenError::NoHeader,
            HeaderError::Magic { found } => OpenError::Magic { expected: MAGIC, found },
            HeaderError::Version { found } => OpenError::Version { expected: VERSION, found },
            HeaderError::Features { incompat } => OpenError::Features { unknown: incompat },
            HeaderError::Checksum { expected, found } => {
                OpenError::HeaderChecksum { expected, found }
            }
            HeaderError::Geometry(geometry) => OpenError::Geometry(geometry),
            HeaderError::Reserved { at } => OpenError::Reserved { at },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A way out of an error.
    #[derive(Debug, PartialEq)]
    enum Remedy {
        Salvage,
        OtherProgram,
        OtherDomain,
    }

    /// Returns the way out of every error of opening: a variant that is not here does not compile.
    fn remedy(error: &OpenError) -> Remedy {
        match error {
            OpenError::Version { .. }
            | OpenError::Features { .. }
            | OpenError::ReadOnly { .. }
            | OpenError::Reserved { .. }
            | OpenError::Geometry(_) => Remedy::OtherProgram,
            OpenError::NeedsJournal { .. } => Remedy::OtherDomain,
            OpenError::Journal(_)
            | OpenError::Magic { .. }
            | OpenError::NoHeader
            | OpenError::Zeros { .. }
            | OpenError::HeaderChecksum { .. }
            | OpenError::Truncated { .. }
            | OpenError::DamagedZones { .. }
            | OpenError::OtherBoot { .. }
            | OpenError::DamagedLog { .. }
            | OpenError::LostLog { .. }
            | OpenError::UnresolvedLosses
            | OpenError::DamagedTail { .. }
            | OpenError::Exhausted
            | OpenError::Failed => Remedy::Salvage,
        }
    }

    #[test]
    fn every_error_of_opening_names_a_way_out() {
        let boot = || "0123".to_owned();
        let all = [
            OpenError::Magic { expected: [0; 8], found: [1; 8] },
            OpenError::NoHeader,
            OpenError::Zeros { found: 2, most: 1 },
            OpenError::Version { expected: 2, found: 1 },
            OpenError::Version { expected: 2, found: 3 },
            OpenError::Features { unknown: 1 },
            OpenError::ReadOnly { unknown: 1 },
            OpenError::Reserved { at: 109 },
            OpenError::HeaderChecksum { expected: 1, found: 2 },
            OpenError::Geometry(Geometry::default()),
            OpenError::Truncated { expected: 2, found: 1 },
            OpenError::DamagedZones { found: 0, most: 1 },
            OpenError::OtherBoot { expected: boot(), found: boot() },
            OpenError::NeedsJournal { journal: 3 },
            OpenError::Journal(pmem::JournalError::Superblock),
            OpenError::DamagedLog { shard: 0, expected: 1, found: 2 },
            OpenError::LostLog { shard: 0, at: 1 },
            OpenError::UnresolvedLosses,
            OpenError::DamagedTail { shard: 0, lines: 1, found: 2 },
            OpenError::Exhausted,
            OpenError::Failed,
        ];
        for error in all {
            let text = error.to_string();
            let names = match remedy(&error) {
                Remedy::Salvage => text.contains("`perdura salvage POOL --to NEW`"),
                Remedy::OtherDomain => text.contains("open it with domain journal"),
                Remedy::OtherProgram => text.contains("newer program") || text.contains(OLDER),
            };
            assert!(names, "{text}");
        }
    }
}
