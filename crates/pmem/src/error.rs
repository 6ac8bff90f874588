//! Why a region could not be opened or grown.

use std::io;
use std::path::PathBuf;

/// Returns a text that names a process.
fn named(process: Option<u32>) -> String {
    process.map(|process| format!(" (process {process})")).unwrap_or_default()
}

/// Why a file, device or memory could not be mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// Another process has the file open.
    #[error("{}: another process has locked it{}", path.display(), named(*holder))]
    Locked {
        /// The file.
        path: PathBuf,
        /// The process, if the system reports it.
        holder: Option<u32>,
    },
    /// A domain that needs `MAP_SYNC` was requested, and the kernel refuses it.
    #[error(
        "{}: domain {requested} needs persistent memory, and the kernel refuses MAP_SYNC here ({reason}); \
         choose the journal (survives power loss), domain msync (the same, a system call per commit), \
         domain process (survives a process crash only), or the AOF backend; or emulate persistent \
         memory, for tests",
        path.display()
    )]
    NoMapSync {
        /// The file.
        path: PathBuf,
        /// The requested domain.
        requested: &'static str,
        /// The kernel's answer.
        reason: String,
    },
    /// `eadr` was requested, and some nd region does not promise it.
    #[error(
        "{}: domain eadr needs persistence_domain=cpu_cache of every nd region; choose domain clwb or auto",
        path.display()
    )]
    NoEadr {
        /// The file.
        path: PathBuf,
    },
    /// Neither a regular file nor a DAX device.
    #[error("{}: {found}, expected a regular file or a DAX device", path.display())]
    WrongKind {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// The pool's file was named as its journal.
    #[error("{}: the pool and its journal have to be two files", path.display())]
    OwnJournal {
        /// The file.
        path: PathBuf,
    },
    /// The machine's pages or cache lines have lengths that the rules of a pool do not allow for.
    #[error(
        "{}: {unit} of this machine have {found} bytes, and a pool needs {needed}; choose the AOF backend",
        path.display()
    )]
    WrongMachine {
        /// The file.
        path: PathBuf,
        /// What has another length.
        unit: &'static str,
        /// Its length here.
        found: u64,
        /// The length that is needed.
        needed: &'static str,
    },
    /// The requested address space is empty or too large.
    #[error(
        "cannot reserve {reserve} bytes of address space: {source}; is it limited (ulimit -v)?"
    )]
    Reserve {
        /// Bytes asked for.
        reserve: u64,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A system call failed.
    #[error("{}: {step}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was attempted.
        step: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Why a region did not grow. It is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrowError {
    /// The reserved address space, or the device, is too small.
    #[error("cannot grow to {wanted} bytes: {reserved} are reserved")]
    BeyondReserve {
        /// Length asked for.
        wanted: u64,
        /// Address space of the region.
        reserved: u64,
    },
    /// The file was cut short: growing it would hide what is missing.
    #[error(
        "cannot grow to {wanted} bytes: the file was cut short, from {expected} bytes to {found}"
    )]
    CutShort {
        /// Length asked for.
        wanted: u64,
        /// Length of the region.
        expected: u64,
        /// Length of the file.
        found: u64,
    },
    /// The file system has no space.
    #[error("cannot grow to {wanted} bytes: no space left on the file system")]
    NoSpace {
        /// Length asked for.
        wanted: u64,
    },
    /// A system call failed.
    #[error("cannot grow to {wanted} bytes: {step}: {source}")]
    Io {
        /// Length asked for.
        wanted: u64,
        /// What was attempted.
        step: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Why the space of a part of a region was not given back. The part holds its old bytes, zeros, or
/// a mix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PunchError {
    /// A device, or a file system without holes: nothing was changed.
    #[error("the medium makes no holes in a file")]
    Unsupported,
    /// A system call failed.
    #[error("cannot give space back: {source}")]
    Io {
        /// The kernel's answer.
        source: io::Error,
    },
}
