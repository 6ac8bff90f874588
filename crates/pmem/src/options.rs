//! A caller's options for a mapping.

use std::path::PathBuf;

/// Which persistence domain a caller wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DomainRequest {
    /// What the medium supports, if that survives power loss without system calls: `eadr`, or else
    /// `clwb`. Refused on a file for which the kernel refuses `MAP_SYNC`.
    #[default]
    Auto,
    /// Flush by line.
    Clwb,
    /// No flush, since the CPU caches are inside the persistence domain.
    Eadr,
    /// `msync` at every fence.
    Msync,
    /// A private mapping, whose flushed lines go to a journal at every fence.
    Journal,
    /// Nothing: the bytes outlive the process only.
    Process,
}

impl DomainRequest {
    /// Returns its name in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            DomainRequest::Auto => "auto",
            DomainRequest::Clwb => "clwb",
            DomainRequest::Eadr => "eadr",
            DomainRequest::Msync => "msync",
            DomainRequest::Journal => "journal",
            DomainRequest::Process => "process",
        }
    }
}

/// How to open a region on a file or device.
#[derive(Clone, Debug)]
pub struct MapOptions {
    /// Address space to reserve, in bytes: the region never grows beyond it. At least the file's
    /// length is reserved. Ignored for a device, which has its own size.
    pub reserve: u64,
    /// Create the file, of length 0, if it does not exist.
    pub create: bool,
    /// The requested domain.
    pub domain: DomainRequest,
    /// Allow `clwb` and `eadr` (and `auto`) on a file without `MAP_SYNC`: their instructions run,
    /// but the bytes outlive only the process. With `journal`: treat the journal's file, which must
    /// be named, as persistent memory.
    pub emulate: bool,
    /// With `journal`: read the whole file into memory, in huge pages, before it is used.
    pub preload: bool,
    /// The journal's file; by default it is next to the file, with `.journal` appended to its name.
    pub journal: Option<PathBuf>,
    /// Size in bytes of a journal's ring that is created.
    pub journal_size: u64,
    /// Where sysfs is mounted.
    pub sysfs: PathBuf,
}

impl MapOptions {
    /// Open or create, domain `auto`, nothing emulated.
    pub fn new(reserve: u64) -> MapOptions {
        MapOptions {
            reserve,
            create: true,
            domain: DomainRequest::Auto,
            emulate: false,
            preload: false,
            journal: None,
            journal_size: crate::journal::DEFAULT_CAPACITY,
            sysfs: PathBuf::from("/sys"),
        }
    }
}
