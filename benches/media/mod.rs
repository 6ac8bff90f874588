//! The media that a benchmark runs on.
//!
//! *volatile*: anonymous memory, records and flushes do nothing. *process*: a file in `/dev/shm`,
//! nothing is flushed; in addition to the first it shows what records cost, and a shared mapping.
//! *clwb*: such a file with every flush and fence of persistent memory, which they stand in for:
//! what a real medium is slower by is not in it.

use pmem::DomainRequest;
use tempfile::TempDir;

/// Where the bytes lie, and what a commit does to make them durable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Anonymous memory.
    Volatile,
    /// A file, not flushed.
    Process,
    /// A file, flushed as persistent memory is.
    Clwb,
}

/// All of them.
pub(crate) const ALL: [Medium; 3] = [Medium::Volatile, Medium::Process, Medium::Clwb];

impl Medium {
    /// As it is in the name of a benchmark.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Medium::Volatile => "volatile",
            Medium::Process => "process",
            Medium::Clwb => "clwb",
        }
    }

    /// Returns the domain to ask for; none where there is no file.
    pub(crate) fn domain(self) -> Option<DomainRequest> {
        match self {
            Medium::Volatile => None,
            Medium::Process => Some(DomainRequest::Process),
            Medium::Clwb => Some(DomainRequest::Clwb),
        }
    }
}

/// Returns a folder in memory for a pool.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a folder in /dev/shm")
}
