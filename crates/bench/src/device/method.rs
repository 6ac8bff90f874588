//! The ways to write bytes to a medium and to read them.

/// A way to write, which implies a way to read: mapped memory is copied, a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Stores into a mapping.
    Memcpy,
    /// Stores into a mapping, with a flush of each line and a fence.
    Clwb,
    /// Non-temporal stores into a mapping, with a fence.
    Nt,
    /// Stores into a mapping, with msync of the pages.
    Msync,
    /// pwrite with fdatasync, and pread.
    Fdatasync,
    /// pwrite and pread that bypass the page cache.
    Direct,
}

impl Method {
    pub(crate) const ALL: [Method; 6] = [
        Method::Memcpy,
        Method::Clwb,
        Method::Nt,
        Method::Msync,
        Method::Fdatasync,
        Method::Direct,
    ];

    /// Returns the name of the method in results.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Method::Memcpy => "memcpy",
            Method::Clwb => "memcpy + clwb + fence",
            Method::Nt => "non-temporal + fence",
            Method::Msync => "mmap + msync",
            Method::Fdatasync => "pwrite + fdatasync",
            Method::Direct => "O_DIRECT",
        }
    }

    /// Returns true if it writes to the medium through a mapping, with instructions alone.
    pub(crate) fn is_instructions(self) -> bool {
        matches!(self, Method::Memcpy | Method::Clwb | Method::Nt)
    }

    /// Returns true if patterns without writes are measured for this method: all mappings are read
    /// in the same way.
    pub(crate) fn has_reads_of_its_own(self) -> bool {
        matches!(self, Method::Memcpy | Method::Fdatasync | Method::Direct)
    }

    /// Returns true if it waits until the bytes are on the medium. Otherwise they are in a cache:
    /// the processor's or, after a direct write, the device's.
    pub(crate) fn waits(self) -> bool {
        !matches!(self, Method::Memcpy | Method::Direct)
    }
}
