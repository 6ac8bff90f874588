//! The ways to get bytes to a medium and back.

/// A way to write. How it reads follows: mapped memory is copied, a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Stores into a mapping, and nothing more.
    Memcpy,
    /// Stores into a mapping, a flush of each line, a fence.
    Clwb,
    /// Non-temporal stores into a mapping, a fence.
    Nt,
    /// Stores into a mapping, and msync of the pages.
    Msync,
    /// pwrite and fdatasync; pread.
    Fdatasync,
    /// pwrite and pread past the page cache.
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

    /// Returns the name in results.
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

    /// Returns true if its lines go to the medium by the processor's instructions, through a
    /// mapping.
    pub(crate) fn is_instructions(self) -> bool {
        matches!(self, Method::Memcpy | Method::Clwb | Method::Nt)
    }

    /// Returns true if a pattern without writes says something new: all mappings are read alike.
    pub(crate) fn has_reads_of_its_own(self) -> bool {
        matches!(self, Method::Memcpy | Method::Fdatasync | Method::Direct)
    }

    /// Returns true if it waits until the medium has the bytes. Without a flush they are in some
    /// cache: the processor's, or, after a direct write, the device's.
    pub(crate) fn waits(self) -> bool {
        !matches!(self, Method::Memcpy | Method::Direct)
    }
}
